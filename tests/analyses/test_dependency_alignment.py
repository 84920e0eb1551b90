"""Attention between words that depend on one another."""

import dataclasses
import itertools
import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.common.words import Arcs
from effective_attention.analyses.dependency_alignment import (
    OFFSETS,
    SCHEMA,
    DependencyAlignment,
    arc_statistics,
    best_offset,
    check_relation_options,
    connected,
    fixed_rules,
    fixed_rules_statistics,
    half_of,
    strongest_other,
)
from effective_attention.data.annotation.tagging import TaggedText, annotate
from effective_attention.errors import UserError

PLACE = ["relation", "direction", "statistic", "sentences"]
KEY = ["attention", "layer", "head", *PLACE]
RULES = ["previous", "next", "random", "offset", "fixed"]
NUMBERS = ["value", *RULES]


class Parser:
    """A word's place tells what it depends on and its length how: not grammar, but arcs of any kind."""

    name, version = "parser", "1"
    relations = ("nsubj", "nsubj:pass", "obj", "det")

    def tag(self, texts):
        return [self._parse(text) for text in texts]

    def _parse(self, text):
        words = list(re.finditer(r"\w+|[^\w\s]", text))
        heads = tuple((5 * place + 2) % len(words) for place in range(len(words)))
        names = tuple(
            self.relations[len(word[0]) % 4] if heads[place] != place else "root" for place, word in enumerate(words)
        )
        tags = ("NOUN",) * len(words)
        return TaggedText(
            tuple(word.start() for word in words),
            tuple(word.end() for word in words),
            tags,
            tags,
            head=heads,
            relation=names,
        )


def parsed(subject):
    data = subject.data
    annotated = annotate(subject.split.examples.texts, data.tokenizer, data.max_length, Parser(), None)
    return dataclasses.replace(subject, annotated=annotated)


def table_of(subject, **options):
    return run_analyses(subject, {"a": DependencyAlignment(**options).setup(subject.context())})["a"]


def arcs(*pairs, example=None):
    """Of one text, (dependent, head), all of relation 0."""
    dependent, head = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    zeros = torch.zeros_like(dependent)
    return Arcs(zeros if example is None else torch.tensor(example), dependent, head, zeros)


# --- by hand ---

WEIGHTS = torch.tensor([[[[0.5, 0.1, 0.2], [0.2, 0.6, 0.2], [0.0, 0.0, 0.4]]]], dtype=torch.float64)


def test_arcs_by_hand():
    share, hits = arc_statistics(WEIGHTS, arcs((0, 2), (1, 0)))[..., 0]
    assert share[0].tolist() == pytest.approx([0.2 / 0.8, 0.2])  # to_head
    assert share[1].tolist() == pytest.approx([0.0, 0.1 / 0.8])  # from_head
    assert hits[0].tolist() == [1.0, 1.0]  # itself does not count; of 0.2 and 0.2 the first
    assert hits[1].tolist() == [0.0, 0.0]


def test_a_row_without_weight_on_others_hits_nothing():
    assert strongest_other(WEIGHTS)[0, 0].tolist() == [2, 0, -1]
    assert strongest_other(torch.ones(1, 1, 1, 1)).tolist() == [[[-1]]]


def test_a_row_without_any_weight_has_no_share():
    assert arc_statistics(torch.zeros(1, 1, 2, 2), arcs((0, 1))).flatten().tolist() == [0.0] * 4


def test_connected_by_hand():
    assert connected(WEIGHTS, arcs((0, 2), (1, 0)))[0].tolist() == pytest.approx([0.2 + 0.0 + 0.2 + 0.1])


def test_two_words_that_depend_on_each_other_are_one_pair():
    assert connected(WEIGHTS, arcs((0, 1), (1, 0)))[0].tolist() == pytest.approx([0.3])


def test_an_arc_belongs_to_its_example():
    two = torch.cat([WEIGHTS, torch.zeros_like(WEIGHTS)])
    found = arc_statistics(two, arcs((0, 2), (0, 2), example=[0, 1]))
    assert found[0, 0, :, 0].tolist() == pytest.approx([0.25, 0.0])
    of_each = connected(two + 1, arcs((0, 2), (0, 1), example=[0, 1]))
    assert of_each[:, 0].tolist() == pytest.approx([2.2, 2.0])


def test_fixed_rules_by_hand():
    seen = torch.ones(1, 3, 3, dtype=torch.bool)
    previous, following, before, after, *_, even = fixed_rules(seen)[0].tolist()
    assert before == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert after == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert previous == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert following == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert even == [pytest.approx([1 / 3] * 3)] * 3
    statistics = fixed_rules_statistics(seen, arcs((0, 1), (2, 0)))[..., [0, 1, -1]]
    assert statistics[0, 0].tolist() == [pytest.approx([0, 1, 1 / 3]), pytest.approx([0, 0, 1 / 3])]
    assert statistics[1, 0].tolist() == [[0, 1, 0.5], [0, 0, 0.5]]
    assert statistics[1, 1].tolist() == [[1, 0, 0.5], [0, 0, 0.5]]


def test_words_that_are_not_there_are_not_looked_at():
    seen = torch.zeros(1, 3, 3, dtype=torch.bool)
    seen[:, :2, :2] = True
    assert fixed_rules(seen)[0, :, 2].eq(0).all()
    assert fixed_rules(seen)[0, :, :, 2].eq(0).all()
    assert fixed_rules_statistics(seen, arcs((0, 1)))[1, 0, 0, [0, 1, -1]].tolist() == [0, 1, 1]


def test_where_only_earlier_words_are_seen_a_guess_is_among_them():
    seen = torch.ones(1, 3, 3, dtype=torch.bool).tril()
    assert fixed_rules_statistics(seen, arcs((2, 0), (0, 2)))[1, 0, :, -1].tolist() == [0.5, 0.0]


def test_where_only_earlier_words_are_seen_none_follows():
    seen = torch.ones(1, 3, 3, dtype=torch.bool).tril()
    seen[..., 0] = False  # the first word is left out
    previous, following, *_ = fixed_rules(seen)[0].tolist()
    assert previous == [[0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert following == [[0, 0, 0]] * 3


@given(st.integers(1, 6), st.integers(0, 2**31 - 1))
def test_shares_and_hits_lie_between_0_and_1(size, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(1, 2, size, size, generator=generator, dtype=torch.float64)
    every = list(itertools.permutations(range(size), 2))
    found = arc_statistics(weights, arcs(*every))
    assert ((found >= 0) & (found <= 1)).all()
    # with an arc between any two words, each word has one strongest other word, and nothing but itself is left
    # unconnected
    assert found[1, 0].sum(dim=0).tolist() == [size if size > 1 else 0] * 2
    own = weights.diagonal(dim1=-2, dim2=-1).sum(dim=(0, 2))
    torch.testing.assert_close(connected(weights, arcs(*every))[0], weights.sum(dim=(0, 2, 3)) - own)


# --- halves: what is chosen on is not what is measured on ---


def test_the_half_of_a_text_hangs_on_its_tokens_alone():
    ids = torch.tensor([[101, 7, 8, 102, 0, 0], [0, 0, 101, 7, 8, 102], [101, 8, 7, 102, 0, 0]])
    mask = ids > 0
    halves = half_of(ids, mask)
    assert halves[0] == halves[1]  # wherever padding is
    assert half_of(ids.masked_fill(~mask, 99), mask).tolist() == halves.tolist()
    many = torch.randint(1, 30_000, (2000, 12), generator=torch.Generator().manual_seed(1))
    every = torch.ones_like(many, dtype=torch.bool)
    assert half_of(many, every).float().mean() == pytest.approx(0.5, abs=0.05)
    shuffled = half_of(many.flip(1), every)
    assert (half_of(many, every) == shuffled).float().mean() == pytest.approx(0.5, abs=0.05)  # order counts


def test_each_half_is_what_its_texts_alone_give(words):
    """So no text that is chosen on is measured on; equal texts are in one half, though one is asked for twice."""
    halves = torch.cat([half_of(seen.inputs["input_ids"], seen.mask) for seen in map(words.trace, words.batches())])
    order = [index for batch in words.batches() for index in batch]
    every = table_of(words, least=0)
    for number, name in enumerate(("choosing", "measuring")):
        alone = DependencyAlignment(least=0).setup(words.context())
        mine = [index for index, half in zip(order, halves.tolist(), strict=True) if half == number]
        assert 0 < len(mine) < len(order)
        for index in mine:
            alone.update(words.trace([index]))
        mine = every[every["sentences"] == name].drop(columns=["sentences", "offset", "fixed"])
        rest = alone.compute()
        other = {"choosing": "measuring", "measuring": "choosing"}[name]
        assert set(rest.loc[rest["sentences"] == other, "count"]) == {0}
        rest = rest[rest["sentences"] == "all"]
        both = mine.merge(rest, on=[key for key in KEY if key != "sentences"], suffixes=("", "_alone"))
        assert len(both) == len(rest)
        assert (both["count"] == both["count_alone"]).all()
        np.testing.assert_allclose(both["value"], both["value_alone"], atol=2e-6)


def test_the_fixed_place_is_chosen_on_one_half_and_measured_on_the_other():
    reached = torch.zeros(3, 2, len(OFFSETS) + 1)
    reached[1, 0, OFFSETS.index(-2)] = 0.6  # (choosing): the best for the first relation
    reached[2, 0, OFFSETS.index(3)] = 0.9  # better, but on the half to measure on
    reached[0, 0, OFFSETS.index(3)] = 0.8
    reached[1, 1] = torch.nan
    reached[1, 1, OFFSETS.index(1)] = 0.1
    chosen = best_offset(reached)
    assert chosen.shape == (3, 2)
    assert [OFFSETS[number] for number in chosen[:, 0]] == [-2] * 3
    assert [OFFSETS[number] for number in chosen[:, 1]] == [1] * 3
    reached[1, :, -1] = 1.0  # random is no place
    assert best_offset(reached).tolist() == chosen.tolist()


# --- against a naive loop ---


def unsigned(weight, convention):
    return abs(weight) if convention == "absolute" else max(weight, 0.0)


def naive_words(matrix, word, convention):
    """From word to word, one pair of sub-tokens after the other."""
    pieces = [[token for token, mine in enumerate(word) if mine == number] for number in range(max(word) + 1)]
    sums = [[[sum(unsigned(matrix[q][k], convention) for k in to) for q in mine] for to in pieces] for mine in pieces]
    return [[sum(each) / len(each) for each in row] for row in sums]


def naive_baselines(size):
    rows = {step: [[float(other == word + step) for other in range(size)] for word in range(size)] for step in OFFSETS}
    rows["random"] = [[1 / size] * size for _ in range(size)]
    return [(("baseline", -1, -1, name), matrix) for name, matrix in rows.items()]


def naive_hit(row, word, partner, baseline):
    if baseline == "random":
        return 1 / (len(row) - 1)
    others = [(weight, -other) for other, weight in enumerate(row) if other != word]
    return float(max(others)[0] > 0 and -max(others)[1] == partner)


def heads_of(seen, word, convention):
    for (number, layer), attention in itertools.product(enumerate(seen.layers), ("standard", "effective")):
        for head, matrix in enumerate(layer.part(attention)[0].tolist()):
            yield (attention, number, head, ""), naive_words(matrix, word, convention)


def naive(subject, convention, subtypes):
    """One example, one head, one arc after the other."""
    values, connected_weight, all_weight = {}, {}, {}
    for index in range(len(subject.split)):
        span = subject.annotated.span(index)
        word, head, relation = (
            getattr(subject.annotated, name)[span].tolist() for name in ("word", "head", "relation")
        )
        facts = {mine: (up, kind) for mine, up, kind in zip(word, head, relation, strict=True) if mine >= 0}
        found = {mine: up for mine, (up, _) in facts.items() if up >= 0 and up != mine}
        seen = subject.trace([index])
        sentences = ("all", ("choosing", "measuring")[half_of(seen.inputs["input_ids"], seen.mask)])
        for reading, matrix in [*heads_of(seen, word, convention), *naive_baselines(len(facts))]:
            related = set(found.items()) | {(b, a) for a, b in found.items()}
            for where in sentences:
                key = *reading, "all", "either", "share", where
                connected_weight[key] = connected_weight.get(key, 0) + sum(matrix[a][b] for a, b in related)
                all_weight[key] = all_weight.get(key, 0) + sum(map(sum, matrix))
            for mine, up in found.items():
                name = subject.annotated.relations[facts[mine][1]]
                for direction, a, b in (("to_head", mine, up), ("from_head", up, mine)):
                    total = sum(matrix[a])
                    both = {
                        "share": matrix[a][b] / total if total else 0.0,
                        "hits": naive_hit(matrix[a], a, b, reading[3]),
                    }
                    for (statistic, value), label, where in itertools.product(
                        both.items(), ("all", name if subtypes else name.split(":")[0]), sentences
                    ):
                        values.setdefault((*reading, label, direction, statistic, where), []).append(value)
    rows = [(*key, sum(each) / len(each), len(each)) for key, each in values.items()]
    arcs_in = {key[-1]: len(each) for key, each in values.items() if key[3:-1] == (1, "all", "to_head", "hits")}
    rows += [(*key, weight / all_weight[key], arcs_in[key[-1]]) for key, weight in connected_weight.items()]
    found = pd.DataFrame(rows, columns=["attention", "layer", "head", "rule", *PLACE, "value", "count"])
    fixed = found["attention"] == "baseline"
    rules = found[fixed].pivot(index=PLACE, columns="rule", values="value")
    rules = with_best_offset(rules).rename(columns={-1: "previous", 1: "next"})
    return found[~fixed].drop(columns="rule").join(rules, on=PLACE)


def with_best_offset(rules):
    """The place that is best where one chooses, and what it reaches in each row."""
    rows = []
    for place in rules.index:
        chosen = rules.loc[(*place[:3], "choosing")] if (*place[:3], "choosing") in rules.index else {-1: 0}
        offset = max([step for step in OFFSETS if step in chosen], key=lambda step: chosen[step])
        rows.append((offset, rules.loc[place, offset]))
    return rules.assign(offset=[row[0] for row in rows], fixed=[row[1] for row in rows])


@pytest.mark.parametrize(
    ("convention", "subtypes", "max_length"), [("absolute", False, 96), ("positive", True, 20)], ids=["all", "cut"]
)
def test_against_a_naive_loop(make_subject, convention, subtypes, max_length):
    subject = parsed(make_subject(examples=4, max_length=max_length))
    assert (-2 in subject.annotated.head) == (max_length == 20)
    assert subject.annotated.first[subject.annotated.word >= 0].mean() < 1  # some words have several sub-tokens
    table = table_of(subject, convention=convention, subtypes=subtypes, least=0)
    expected = naive(subject, convention, subtypes)
    both = table.merge(expected, on=KEY, suffixes=("", "_expected"))
    assert (table["count"] > 0).sum() == len(both) == len(expected)
    assert table.loc[table["sentences"] == "all", "count"].min() > 0
    assert (both["count"] == both["count_expected"]).all()
    for name in NUMBERS:
        assert both[name].to_numpy() == pytest.approx(both[f"{name}_expected"].to_numpy(), abs=1e-6), name
    assert set(table["convention"]) == {convention}
    assert set(table["relation"]) == {"all", "nsubj", "obj", "det"} | ({"nsubj:pass"} if subtypes else set())


# --- the table ---


@pytest.fixture(scope="module")
def words(subject):
    return parsed(subject)


@pytest.fixture(scope="module")
def table(words):
    return table_of(words, least=0)


def test_columns_and_fixed_rules(table, words):
    SCHEMA.check(table, "dependency_alignment")
    assert list(table) == [*KEY, *NUMBERS, "count", "first_token", "convention"]
    assert not table.duplicated(KEY).any()
    assert set(table["attention"]) == {"standard", "effective"}
    assert (table[["layer", "head"]] >= 0).all(axis=None)
    places = table.groupby(PLACE)[RULES].nunique()
    assert set(places.to_numpy().ravel()) == {1}  # the same beside all heads
    context = words.context()
    assert set(table.groupby(PLACE).size()) == {2 * context.layers * context.heads}
    assert set(table.loc[table["direction"] == "either", "statistic"]) == {"share"}
    assert set(table["sentences"]) == {"all", "choosing", "measuring"}
    shares = table[["value", "previous", "next", "random", "fixed"]]
    assert shares.apply(lambda column: column.between(0, 1)).all(axis=None)
    assert set(table["offset"]) <= set(OFFSETS)
    chosen = table.groupby(["relation", "direction", "statistic"])["offset"].nunique()
    assert set(chosen) == {1}  # the same place in all rows, whatever texts they are of


def test_rare_relations_are_left_out(words, table):
    counts = table[table["relation"] != "all"].groupby("relation")["count"].first()
    least = int(counts.median()) + 1
    assert counts.min() < least <= counts.max()
    rare = table_of(words, least=least)
    assert set(rare["relation"]) == {"all", *counts[counts >= least].index}
    kept = table[table["relation"].isin(set(rare["relation"]))].reset_index(drop=True)
    pd.testing.assert_frame_equal(rare, kept)  # all still counts every arc


@pytest.mark.parametrize("changes", [{"batch_size": 1}, {"batch_size": 9}, {"padding": "max_length"}], ids=str)
def test_neither_batching_nor_padding_changes_it(words, table, changes, monkeypatch):
    for name, value in changes.items():
        monkeypatch.setattr(words.data, name, value)
    assert_same(table, table_of(words, least=0))


def assert_same(one, other):
    pd.testing.assert_frame_equal(one.drop(columns=NUMBERS), other.drop(columns=NUMBERS))
    np.testing.assert_allclose(one[NUMBERS], other[NUMBERS], atol=2e-6)


def test_the_standard_reading_does_not_depend_on_the_convention(words, table):
    positive = table_of(words, least=0, convention="positive")
    values = table.assign(other=positive["value"])
    standard, effective = (values[values["attention"] == name] for name in ("standard", "effective"))
    np.testing.assert_allclose(standard["value"], standard["other"])
    assert (effective["value"] - effective["other"]).abs().max() > 1e-3


def test_a_text_of_one_word(words):
    """Its first token is all there is of it: a root, that looks at itself."""
    seen = words.trace([0])
    only = {name: torch.full_like(facts, -1) for name, facts in seen.tokens.items()}
    for name, fact in (("word", 0), ("head", 0), ("relation", words.annotated.relations.index("root")), ("kind", 0)):
        only[name][0, 1] = fact
    analysis = DependencyAlignment().setup(words.context())
    analysis.update(dataclasses.replace(seen, tokens=only))
    rows = analysis.compute()
    assert set(rows["count"]) == {0}
    aligned = rows[rows["direction"] == "either"]
    assert set(aligned["value"].dropna()) == set(aligned["random"].dropna()) == {0.0}
    assert aligned[["previous", "next"]].isna().all(axis=None)  # there is no such word


def test_where_all_words_are_roots_nothing_is_connected(subject):
    """And a mean over no arc is undefined."""
    annotated = dataclasses.replace(subject.annotated, head=subject.annotated.word)
    rows = table_of(dataclasses.replace(subject, annotated=annotated), least=0)
    assert set(rows["relation"]) == {"all"}
    assert set(rows["count"]) == {0}
    either = rows["direction"] == "either"
    shares = [name for name in NUMBERS if name != "offset"]
    assert set(rows.loc[either, shares].to_numpy().ravel()) == {0.0}
    assert rows.loc[~either, shares].isna().all(axis=None)


def test_a_split_without_any_word(subject):
    data = subject.data
    plain = annotate(subject.split.examples.texts, data.tokenizer, data.max_length, None, None)
    rows = table_of(dataclasses.replace(subject, annotated=plain))
    assert rows[["value", "previous", "next", "random", "fixed"]].isna().all(axis=None)
    assert set(rows["count"]) == {0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"convention": "signed"},
            r"analysis.dependency_alignment.convention must be one of absolute, positive, got 'signed'",
        ),
        ({"least": -1}, r"analysis.dependency_alignment.least must be a number of arcs, 0 or more, got -1"),
    ],
)
def test_wrong_options(context, options, message):
    with pytest.raises(UserError, match=message):
        DependencyAlignment(**options).setup(context)


@pytest.mark.parametrize(
    ("subtypes", "least", "message"),
    [
        ("no", 50, r"analysis.dependency_alignment.subtypes must be true or false, got 'no'"),
        (None, 50, r"analysis.dependency_alignment.subtypes must be true or false, got None"),
        (False, 1.5, r"analysis.dependency_alignment.least must be a number of arcs, 0 or more, got 1.5"),
        (False, True, r"analysis.dependency_alignment.least must be a number of arcs, 0 or more, got True"),
    ],
)
def test_options_of_the_wrong_type(subtypes, least, message):
    with pytest.raises(UserError, match=message):
        check_relation_options(subtypes, least)


# --- two processes; with real ones tests/analyses/test_promises.py, where nothing is parsed ---


def test_two_processes_find_what_one_finds(words, table):
    context = words.context()
    mine, theirs = (DependencyAlignment(least=0).setup(context) for _ in range(2))
    for number, batch in enumerate(words.batches()):
        (mine if number % 2 else theirs).update(words.trace(batch))
    states = iter([getattr(theirs, name) for name in theirs._reductions])
    mine.distributed_available_fn = lambda: True
    mine.dist_sync_fn = lambda state, group: [state, next(states)]  # asked for each state in turn
    assert_same(table, mine.compute())
