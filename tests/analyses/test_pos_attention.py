"""Attention to and from parts of speech."""

import dataclasses
import itertools
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.pos_attention import SCHEMA, TAGS, PosAttention, tag_sums, token_tags
from effective_attention.data.annotation.tagging import KINDS, UPOS
from effective_attention.errors import UserError
from helpers.subjects import make_context

INDEX = ["attention", "layer", "head", "direction", "tag"]


def test_by_hand():
    """Tokens 0 and 2 are of one tag, token 1 of the other; rows are queries."""
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.0, 0.25, 0.75]], dtype=torch.float64)[None, None]
    tags = torch.tensor([[[True, False], [False, True], [True, False]]])
    to, from_ = tag_sums(weights, tags)[0].tolist()
    assert to == pytest.approx([0.7 + 0.2 + 0.75, 0.3 + 0.8 + 0.25])
    assert from_ == pytest.approx([2, 1])


WEIGHTS = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 5)).map(lambda made: (*made, made[-1]))


@given(arrays.arrays(float, WEIGHTS, elements=st.floats(0, 1)), st.integers(0, 100))
def test_no_weight_is_lost(weights, seed):
    weights = torch.from_numpy(weights)
    numbers = torch.randint(3, (len(weights), weights.shape[-1]), generator=torch.Generator().manual_seed(seed))
    sums = tag_sums(weights, torch.nn.functional.one_hot(numbers, 3).bool())
    expected = weights.sum(dim=(0, 2, 3))[:, None].expand(-1, 2)
    torch.testing.assert_close(sums.sum(dim=-1), expected)
    torch.testing.assert_close(tag_sums(weights.mT, torch.nn.functional.one_hot(numbers, 3).bool()), sums.flip(1))


def tag_of(kind: int, upos: int) -> str:
    if KINDS[kind] in ("cls", "sep"):
        return KINDS[kind]
    return UPOS[upos] if upos >= 0 else "other"


def naive(matrices, tags, counts, attention, convention):
    """Value and even of one head, pair after pair."""
    found, even = Counter(), Counter()
    for matrix, tag, count in zip(matrices, tags, counts, strict=True):
        places = [place for place, counts_too in enumerate(count) if counts_too]
        for query, key in itertools.product(places, places):
            weight = matrix[query][key]
            if attention == "effective":
                weight = abs(weight) if convention == "absolute" else max(weight, 0.0)
            for end in (("to", tag[key]), ("from", tag[query]), "all"):
                found[end] += weight
                even[end] += 1 / len(places)
    return {
        end: (found[end] / found["all"], even[end] / even["all"]) for end in itertools.product(("to", "from"), TAGS)
    }


@pytest.mark.parametrize(
    ("special_tokens", "convention"), [(False, "absolute"), (True, "absolute"), (False, "positive")]
)
def test_against_a_naive_loop(subject, context, singles, special_tokens, convention):
    made = PosAttention(special_tokens=special_tokens, convention=convention).setup(context)
    table = run_analyses(subject, {"a": made})["a"].set_index(INDEX)
    spans = [subject.annotated.span(index) for index in range(len(singles))]
    kinds = [subject.annotated.kind[span].tolist() for span in spans]
    tags = [
        list(map(tag_of, kind, subject.annotated.upos[span].tolist())) for kind, span in zip(kinds, spans, strict=True)
    ]
    counts = [[special_tokens or KINDS[one] in ("word", "punctuation") for one in kind] for kind in kinds]
    shown = [tag for tag in TAGS if special_tokens or tag not in ("cls", "sep")]
    for attention, layer, head in itertools.product(("standard", "effective"), range(2), range(4)):
        matrices = [seen.layers[layer].part(attention)[0, head].tolist() for seen in singles]
        expected = naive(matrices, tags, counts, attention, convention)
        for direction, tag in itertools.product(("to", "from"), shown):
            row = table.loc[(attention, layer, head, direction, tag)]
            assert (row["value"], row["even"]) == pytest.approx(expected[direction, tag], rel=1e-5)
    number = Counter(tag for tag, count in zip(itertools.chain(*tags), itertools.chain(*counts), strict=True) if count)
    assert all(count == number[tag] for (*_, tag), count in table["count"].items())
    assert len(table) == 2 * 2 * 4 * 2 * len(shown)
    assert set(table["special_tokens"]) == {special_tokens}
    assert set(table["convention"]) == {convention}


def test_columns_and_defaults(subject, context):
    table = run_analyses(subject, {"a": PosAttention().setup(context)})["a"]
    SCHEMA.check(table, "pos_attention")
    assert " ".join(table.columns) == f"{' '.join(INDEX)} value even count special_tokens first_token convention"
    assert table["tag"].unique().tolist() == [*UPOS, "other"]
    assert set(table["special_tokens"]) == {False}
    assert set(table["convention"]) == {"absolute"}


@pytest.mark.parametrize("special_tokens", [True, False])
def test_shares_sum_to_1(subject, context, special_tokens):
    table = run_analyses(subject, {"a": PosAttention(special_tokens=special_tokens).setup(context)})["a"]
    assert table.groupby(INDEX[:-1])[["value", "even"]].sum().to_numpy() == pytest.approx(1)
    assert set(table.query("count == 0")["value"]) == {0.0}  # there are tags that the stub never gives
    assert (table.query("count > 0")["value"] > 0).all()


def test_every_sub_token_carries_the_tag_of_its_word(subject):
    seen = subject.trace([0, 1, 2])
    tags, word = token_tags(seen), seen.tokens["word"]
    assert (tags.sum(dim=-1) == 1).all()
    for row in range(3):
        for number in word[row][word[row] >= 0].unique().tolist():
            same = tags[row][word[row] == number]
            assert (same == same[0]).all()
    assert (word >= 0).sum() > (
        (word >= 0) & (seen.tokens["first"] == 1)
    ).sum()  # there are words of several sub-tokens


def test_tokens_without_a_word(subject):
    seen = subject.trace([0])
    kind, upos = (torch.full_like(seen.tokens["kind"], fill) for fill in (KINDS.index("word"), -1))
    for place, name in enumerate(("cls", "sep", "other special", "punctuation", "word")):
        kind[0, place] = KINDS.index(name)
    upos[0, 4] = UPOS.index("X")
    found = token_tags(dataclasses.replace(seen, tokens={"kind": kind, "upos": upos}))[0].int().argmax(dim=-1)
    assert [TAGS[number] for number in found[:6]] == ["cls", "sep", "other", "other", "X", "other"]


def test_one_word_has_all_attention_and_no_word_none(subject, context):
    seen = subject.trace([0])
    for words in (1, 0):
        kind, upos = torch.full_like(seen.tokens["kind"], KINDS.index("sep")), torch.full_like(seen.tokens["kind"], -1)
        kind[:, 1 : 1 + words], upos[:, 1 : 1 + words] = KINDS.index("word"), UPOS.index("NOUN")
        made = PosAttention().setup(context)
        made.update(dataclasses.replace(seen, tokens={**seen.tokens, "kind": kind, "upos": upos}))
        table = made.compute()
        if words:
            assert (table["value"] == (table["tag"] == "NOUN")).all()
            assert (table["count"] == (table["tag"] == "NOUN")).all()
        else:
            assert table[["value", "even"]].isna().all(axis=None)
            assert set(table["count"]) == {0}


def test_it_asks_for_tags():
    assert PosAttention.needs_tags


def test_bad_options():
    context = make_context(layers=2, heads=2, width=8, max_length=16, examples=1)
    with pytest.raises(
        UserError, match=r"analysis\.pos_attention\.convention must be one of absolute, positive, got 'none'"
    ):
        PosAttention(convention="none").setup(context)
