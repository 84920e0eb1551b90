"""Each statistic against loops over tokens, written down from the paper's words."""

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.cbook import boxplot_stats

from effective_attention.analyses.token_mixing.statistics import (
    GROUPS,
    Text,
    all_statistics,
    box,
    not_largest,
    own,
    to_cls,
    word_context,
)

LAYERS = 3
TAGS = [
    ["[CLS]", "NOUN", "NOUN", "VERB", "[SEP]", "NOUN", "PUNCT", "[SEP]"],
    ["[CLS]", *["NOUN", "VERB", ""] * 11, "[SEP]", "VERB"],
    ["[CLS]"],
]


@pytest.fixture(scope="module")
def texts():
    random = np.random.default_rng(0)
    made = []
    for tags in TAGS:
        shares = random.dirichlet([0.7] * len(tags), size=(LAYERS, len(tags)))
        made.append(Text(shares, random.uniform(0, 0.1, shares.shape) * shares, np.array(tags)))
    return made


@pytest.fixture(scope="module")
def table(texts):
    return all_statistics(texts)


def only(table, **where):
    """Values of the layers, in order."""
    for column, value in where.items():
        table = table[table[column] == value]
    assert table["layer"].tolist() == list(range(LAYERS))
    return table["value"].to_numpy()


@pytest.mark.parametrize("tag", ["", "NOUN", "[CLS]", "PUNCT"])
def test_own_is_the_diagonal_in_a_box(texts, table, tag):
    for layer in range(LAYERS):
        values = [
            text.shares[layer, place, place]
            for text in texts
            for place in range(len(text.tags))
            if tag in ("", text.tags[place])
        ]
        expected = boxplot_stats(values)[0]
        names = {"median": "med", "mean": "mean", "quartile_1": "q1", "quartile_3": "q3", "whisker_low": "whislo"}
        for statistic, name in {**names, "whisker_high": "whishi"}.items():
            assert only(table, quantity="own", statistic=statistic, tag=tag)[layer] == pytest.approx(expected[name])
        counts = table[(table["quantity"] == "own") & (table["tag"] == tag)]["count"]
        assert set(counts) == {len(values)}


def test_tokens_without_a_tag_are_of_no_tag(texts):
    assert set(own(texts)["tag"]) == {"", "NOUN", "VERB", "PUNCT", "[CLS]", "[SEP]"}


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0, 1.0], [0.1, 0.2, 0.3, 5.0, -4.0], [2.0]])
def test_whiskers_are_those_of_matplotlib(values):
    found, expected = box(np.array([values])), boxplot_stats(values)[0]
    assert (found["whisker_low"][0], found["whisker_high"][0]) == (expected["whislo"], expected["whishi"])


def test_not_largest(texts, table):
    for layer in range(LAYERS):
        beaten = [
            max(text.shares[layer, place]) > text.shares[layer, place, place]
            for text in texts
            for place in range(len(text.tags))
        ]
        assert only(table, quantity="not_largest")[layer] == pytest.approx(np.mean(beaten))


def test_a_tie_is_won():
    even = Text(np.full((1, 2, 2), 0.5), np.zeros((1, 2, 2)), np.array(["", ""]))
    assert not_largest([even])["value"].tolist() == [0.0]


@pytest.mark.parametrize("group", GROUPS)
def test_neighbours(texts, table, group):
    low, high = GROUPS[group]
    means = []
    for layer in range(LAYERS):
        found = []
        for text in texts:
            size = len(text.tags)
            for place in range(size):
                left = [
                    text.shares[layer, place, key] for key in range(place) if low <= place - key <= (high or math.inf)
                ]
                right = [
                    text.shares[layer, place, key]
                    for key in range(place, size)
                    if low <= key - place <= (high or math.inf)
                ]
                sides = [sum(side) for side in (left, right) if side]
                found += [sum(sides) / len(sides)] if sides else []
        means.append(np.mean(found))
        counts = table[(table["quantity"] == "neighbour") & (table["group"] == group)]["count"]
        assert set(counts) == {len(found)}
    np.testing.assert_allclose(only(table, quantity="neighbour", group=group, statistic="mean"), means)
    relative = only(table, quantity="neighbour", group=group, statistic="relative")
    np.testing.assert_allclose(relative, np.array(means) / sum(means))


def test_a_group_that_no_text_reaches_is_missing(texts):
    rows = all_statistics(texts[:1])
    far = rows[(rows["quantity"] == "neighbour") & (rows["group"] == "11+")]
    assert far["value"].isna().all()
    assert set(far["count"]) == {0}


@pytest.mark.parametrize("offset", [-30, -7, -1, 0, 2, 30])
def test_offsets(texts, table, offset):
    for layer in range(LAYERS):
        at = {place: _at_offset(texts, layer, place) for place in range(-30, 31)}
        whole = sum(sum(values) for values in at.values())
        assert only(table, quantity="offset", offset=offset, statistic="mean")[layer] == pytest.approx(
            np.mean(at[offset])
        )
        assert only(table, quantity="offset", offset=offset, statistic="total")[layer] == pytest.approx(
            sum(at[offset]) / whole
        )
    assert abs(table[table["quantity"] == "offset"]["offset"]).max() == 30


def _at_offset(texts, layer, offset):
    return [
        text.shares[layer, place, place + offset]
        for text in texts
        for place in range(len(text.tags))
        if 0 <= place + offset < len(text.tags)
    ]


@pytest.mark.parametrize(("centre", "starts"), [("cls", [0, 0, 0]), ("sep", [4, 34, None])])
def test_to_cls(texts, table, centre, starts):
    for layer in range(LAYERS):
        sums: dict[int, float] = {}
        for text, start in zip(texts, starts, strict=True):
            for key in range(len(text.tags)) if start is not None else ():
                sums[key - start] = sums.get(key - start, 0) + text.shares[layer, 0, key]
        rows = table[(table["quantity"] == "cls") & (table["centre"] == centre) & (table["layer"] == layer)]
        found = dict(zip(rows["offset"], rows["value"], strict=True))
        assert found == pytest.approx({place: value / sum(sums.values()) for place, value in sums.items()})


def test_a_model_without_cls_has_no_rows_for_it(texts):
    plain = [Text(text.shares, text.errors, np.full(len(text.tags), "")) for text in texts]
    assert len(to_cls(plain)) == 0
    assert "cls" not in set(all_statistics(plain)["quantity"])


def test_stated_error(texts, table):
    for layer in range(LAYERS):
        ratios = np.concatenate([(text.errors[layer] / text.shares[layer]).ravel() for text in texts])
        assert only(table, quantity="error", statistic="standard_error")[layer] == pytest.approx(ratios.mean())


def test_what_cannot_contribute_has_no_error():
    causal = Text(np.array([[[1.0, 0.0], [0.5, 0.5]]]), np.array([[[0.0, 0.0], [0.1, 0.2]]]), np.array(["", ""]))
    rows = all_statistics([causal])
    found = rows[rows["quantity"] == "error"]
    assert found["value"].item() == pytest.approx((0 + 0.2 + 0.4) / 3)
    assert found["count"].item() == 3


def test_a_word_through_the_layers(texts):
    tokens = [f"t{place}" for place in range(8)]
    rows = word_context(texts[0].shares, 3, tokens)
    expected = pd.DataFrame(
        [
            {"layer": layer, "key": key, "query": 3, "token": tokens[key], "value": texts[0].shares[layer, 3, key]}
            for layer in range(LAYERS)
            for key in range(8)
        ]
    )
    pd.testing.assert_frame_equal(rows[list(expected)], expected)
