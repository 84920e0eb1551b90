"""The texts and pairs of tokens that most strongly induce a head's attention."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.exemplars import SCHEMA, Exemplars, best, strongest_pairs
from effective_attention.data.annotation.tagging import KINDS
from effective_attention.errors import UserError

HEAD = ["attention", "layer", "head"]


def table_of(subject, context, **options):
    return run_analyses(subject, {"a": Exemplars(**options).setup(context)})["a"]


def pairs_of(table):
    """One row for each exemplar."""
    columns = [*HEAD, "rank", "example", "query", "key", "score"]
    return table[columns].drop_duplicates(ignore_index=True)


# --- pure functions ---


def test_the_strongest_pair_by_hand():
    weights = torch.tensor([[[[0.9, 0.1, 0.0], [0.3, 0.2, 0.5], [0.5, 0.5, 0.0]]]])
    score, query, key = strongest_pairs(weights, ~torch.eye(3, dtype=torch.bool)[None])
    assert (score.item(), query.item(), key.item()) == (0.5, 1, 2)  # the first of three


def test_weights_that_are_all_but_equal_count_as_equal():
    weights = torch.tensor([[[[0.25, 0.25 + 1e-7]]]])
    score, _, key = strongest_pairs(weights, torch.ones(1, 1, 2, dtype=torch.bool))
    assert (score.item(), key.item()) == (0.25, 0)


def test_no_pair_and_no_positive_weight():
    weights = torch.tensor([[[[-0.5, -0.1]]], [[[0.3, 0.7]]]])
    pairs = torch.tensor([[[True, True]], [[False, False]]])
    assert strongest_pairs(weights, pairs)[0].tolist() == [[-torch.inf], [-torch.inf]]


@given(st.lists(st.integers(-2, 3), min_size=1, max_size=8), st.integers(1, 9), st.randoms(use_true_random=False))
def test_the_best_are_those_of_a_full_sort(scores, top, random):
    """However they are shuffled."""
    candidates = list(enumerate(scores))
    random.shuffle(candidates)
    example, score = torch.tensor(candidates).T
    rows = torch.stack([example, score], dim=-1)[None]
    got = best({"score": score[None].double(), "example": example[None], "row": rows}, top)
    expected = sorted(candidates, key=lambda one: (-one[1], one[0]))[:top]
    assert list(zip(got["example"][0].tolist(), got["score"][0].tolist(), strict=True)) == expected
    assert [tuple(row) for row in got["row"][0].tolist()] == expected


# --- against a full sort ---


def naive(singles, annotated, *, top=3, least_distance=1, special_tokens=False):
    """All pairs of all examples in one list for each head, sorted; then the first of each example."""
    rows = []
    for attention, layer, head in itertools.product(("standard", "effective"), range(2), range(4)):
        found = []
        for example, seen in enumerate(singles):
            kinds = [KINDS[kind] for kind in annotated.kind[annotated.span(example)]]
            counts = [place for place, kind in enumerate(kinds) if special_tokens or kind in ("word", "punctuation")]
            matrix = seen.layers[layer].part(attention)[0, head].tolist()
            for query, key in itertools.product(counts, counts):
                if abs(query - key) >= least_distance and round(matrix[query][key], 6) > 0:
                    found.append((-round(matrix[query][key], 6), example, query, key))
        seen_before: set[int] = set()
        for score, example, query, key in sorted(found):
            if example not in seen_before and len(seen_before) < top:
                rows.append((attention, layer, head, len(seen_before), example, query, key, -score))
                seen_before.add(example)
    return pd.DataFrame(rows, columns=[*HEAD, "rank", "example", "query", "key", "score"])


@pytest.mark.parametrize(
    "options",
    [{}, {"top": 1, "special_tokens": True}, {"top": 20, "least_distance": 0}, {"least_distance": 7}],
    ids=str,
)
def test_against_a_full_sort(subject, context, singles, options):
    got, expected = pairs_of(table_of(subject, context, **options)), naive(singles, subject.annotated, **options)
    pd.testing.assert_frame_equal(got.drop(columns="score"), expected.drop(columns="score"))
    np.testing.assert_allclose(got["score"], expected["score"], atol=2e-6)
    if options.get("top") == 20:  # more than there are: each example once
        assert set(got["example"]) == set(range(len(singles)))
        assert got.groupby(HEAD)["rank"].nunique().max() == len(singles)


def test_a_row_for_each_token(subject, context, singles):
    table = table_of(subject, context)
    SCHEMA.check(table, "exemplars")
    assert list(table) == [
        *("attention", "layer", "head", "rank", "example", "query", "key", "query_token", "key_token", "score"),
        *("position", "token", "value", "special", "first_token"),
    ]
    for (attention, layer, head, rank), rows in table.groupby([*HEAD, "rank"]):
        example, query, key = (rows[name].unique().item() for name in ("example", "query", "key"))
        seen = singles[example]
        ids = seen.inputs["input_ids"][0].tolist()
        assert rows["position"].tolist() == list(range(len(ids)))
        assert rows["token"].tolist() == subject.data.tokenizer.convert_ids_to_tokens(ids)
        assert rows["token"].iloc[[query, key]].tolist() == [
            rows[f"{name}_token"].unique().item() for name in ("query", "key")
        ]
        expected = seen.layers[layer].part(attention)[0, head, query].tolist()
        assert rows["value"].tolist() == pytest.approx(expected, abs=2e-6), rank
        assert rows["value"].iloc[key] == pytest.approx(rows["score"].iloc[0], abs=1e-6)
        kinds = subject.annotated.kind[subject.annotated.span(example)]
        assert rows["special"].tolist() == [KINDS[kind] in ("cls", "sep", "other special") for kind in kinds]


def test_one_head(subject, context):
    whole = table_of(subject, context)
    one = table_of(subject, context, layer="last", head=2)
    expected = whole[(whole["layer"] == 1) & (whole["head"] == 2)].reset_index(drop=True)
    pd.testing.assert_frame_equal(one, expected)
    assert len(one) > 0


@pytest.mark.parametrize("changes", [{"batch_size": 1}, {"batch_size": 9}, {"padding": "max_length"}], ids=str)
def test_neither_batching_nor_padding_changes_it(subject, context, changes, monkeypatch):
    expected = table_of(subject, context)
    for name, value in changes.items():
        monkeypatch.setattr(subject.data, name, value)
    assert_same(expected, table_of(subject, context))


def assert_same(one, other):
    numbers = ["score", "value"]
    pd.testing.assert_frame_equal(one.drop(columns=numbers), other.drop(columns=numbers))
    np.testing.assert_allclose(one[numbers], other[numbers], atol=2e-6)


def shown(context, *traces, **options):
    """The table of an analysis that was shown these traces."""
    analysis = Exemplars(**options).setup(context)
    for seen in traces:
        analysis.update(seen)
    return analysis.compute()


def test_the_order_of_batches_does_not_matter(subject, context):
    traces = [subject.trace(batch) for batch in ([0, 3], [1], [2, 4, 5])]
    pd.testing.assert_frame_equal(shown(context, *traces), shown(context, *reversed(traces)))


def test_of_two_equal_texts_the_first_ranks_first(subject, context):
    twice = subject.trace([3, 3])
    twice = dataclasses.replace(twice, inputs={**twice.inputs, "index": torch.tensor([8, 2])})
    got = pairs_of(shown(context, twice, top=2))
    first, second = (
        got[got["rank"] == rank].drop(columns=["rank", "example"]).reset_index(drop=True) for rank in (0, 1)
    )
    pd.testing.assert_frame_equal(first, second)
    assert got["example"].tolist() == [2, 8] * 16


def test_padding_on_the_left_is_no_token(subject, context):
    """The same numbers as without it."""
    seen = subject.trace([0])
    layers = [
        dataclasses.replace(
            layer,
            weights=torch.nn.functional.pad(layer.attention, (2, 0, 2, 0), value=0.9),
            value=torch.nn.functional.pad(layer.value, (0, 0, 2, 0)),
            visible=None,
            query=None,
            key=None,
        )
        for layer in seen.layers
    ]
    mask = torch.nn.functional.pad(seen.mask.long(), (2, 0))
    inputs = {"index": torch.tensor([0]), "input_ids": torch.nn.functional.pad(seen.inputs["input_ids"], (2, 0))}
    tokens = {name: torch.nn.functional.pad(facts, (2, 0), value=-1) for name, facts in seen.tokens.items()}
    padded = dataclasses.replace(
        seen, layers=tuple(layers), hidden=(), tokens=tokens, inputs={**inputs, "attention_mask": mask}
    )
    got, expected = (
        table[table["attention"] == "standard"] for table in (shown(context, padded), shown(context, seen))
    )
    pd.testing.assert_frame_equal(got, expected)


def test_a_text_of_one_word_has_no_pair(subject, context):
    seen = subject.trace([0])
    kind = torch.full_like(seen.tokens["kind"], KINDS.index("sep"))
    kind[0, 1] = KINDS.index("word")
    alone = dataclasses.replace(seen, tokens={**seen.tokens, "kind": kind})
    table = shown(context, alone)
    assert len(table) == 0
    assert list(table) == list(shown(context, seen))
    to_itself = shown(context, alone, least_distance=0)
    assert set(zip(to_itself["query"], to_itself["key"], strict=True)) == {(1, 1)}


def test_without_an_example_the_table_is_empty(context):
    with pytest.warns(UserWarning, match="before the ``update``"):
        table = Exemplars().setup(context).compute()
    assert len(table) == 0
    SCHEMA.check(table, "exemplars")


def test_a_token_stays_as_it_is(subject, context):
    """What it looks like is for those who show it."""

    class Hostile:
        def convert_ids_to_tokens(self, ids):
            return ["<img onerror=1>"] * len(ids)

    table = table_of(subject, dataclasses.replace(context, tokenizer=Hostile()), top=1)
    for column in ("token", "query_token", "key_token"):
        assert set(table[column]) == {"<img onerror=1>"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 2}, r"analysis.exemplars.layer must be last, all or a layer from 0 to 1, got 2"),
        ({"head": 4}, r"analysis.exemplars.head must be all or a head from 0 to 3, got 4"),
        ({"head": -1}, r"analysis.exemplars.head must be all or a head from 0 to 3, got -1"),
        ({"head": "last"}, r"analysis.exemplars.head must be all or a head from 0 to 3, got 'last'"),
        ({"top": 0}, r"analysis.exemplars.top must be a whole number, 1 or more, got 0"),
        ({"least_distance": -1}, r"analysis.exemplars.least_distance must be a whole number, 0 or more, got -1"),
    ],
)
def test_wrong_options(context, options, message):
    with pytest.raises(UserError, match=message):
        Exemplars(**options).setup(context)


# --- two processes; with real ones tests/analyses/test_promises.py ---


@pytest.mark.parametrize("theirs_sees", ["some", "nothing"])
def test_two_processes_find_what_one_finds(subject, context, theirs_sees):
    mine, theirs = (Exemplars().setup(context) for _ in range(2))
    for number, batch in enumerate(subject.batches()):
        (theirs if number % 2 and theirs_sees == "some" else mine).update(subject.trace(batch))
    states = iter([getattr(theirs, name) for name in theirs._reductions])
    mine.distributed_available_fn = lambda: True
    mine.dist_sync_fn = lambda state, group: [next(states), state]  # asked for each state in turn
    assert_same(table_of(subject, context), mine.compute())
    assert mine.score.shape == theirs.score.shape  # put back as it was
