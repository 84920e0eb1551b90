"""Fig. 1: weights of [CLS] by token type."""

import itertools
import math

import pandas as pd
import pytest
import torch

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.token_types import SCHEMA, TokenTypes, weights_by_type
from effective_attention.attention.decomposition import decompose
from effective_attention.data.annotation.tagging import KINDS, UPOS
from effective_attention.errors import UserError
from helpers.subjects import make_context

WORDS = {"noun": ["NOUN", "PROPN"], "pronoun": ["PRON"], "verb": ["VERB"]}


def test_by_hand():
    weights = torch.tensor([[[0.5, 0.1, 0.2, 0.2]]])
    types = torch.tensor([[[False, True, True, False], [True, False, False, False], [False] * 4]])
    largest, mean, lift = weights_by_type(weights, types, torch.tensor([4]))
    torch.testing.assert_close(largest[0, 0], torch.tensor([0.2, 0.5, 0.0]))
    torch.testing.assert_close(mean[0, 0], torch.tensor([0.15, 0.5, 0.0]))
    torch.testing.assert_close(lift[0, 0], torch.tensor([0.6, 2.0, 0.0]))


def test_a_negative_weight_is_not_replaced_by_zero():
    weights = torch.tensor([[[-0.5, -0.25, 0.0]]])
    types = torch.tensor([[[True, True, False]]])
    assert weights_by_type(weights, types, torch.tensor([3]))[0].item() == -0.25


def type_of(kind, tag, first) -> str | None:
    """The token type of one token, if it has one."""
    if KINDS[kind] != "word":
        return KINDS[kind]
    return next((name for name, tags in WORDS.items() if first and UPOS[tag] in tags), None)


def naive(singles, annotated, layer) -> pd.DataFrame:
    """One example, one head, one token after the other."""
    values: dict[tuple, list[float]] = {}
    for index, seen in enumerate(singles):
        span = annotated.span(index)
        types = [
            type_of(*facts)
            for facts in zip(annotated.kind[span], annotated.upos[span], annotated.first[span], strict=True)
        ]
        parts = decompose(seen.layers[layer].attention, seen.layers[layer].value)
        for name, matrix in (("standard", parts.attention), ("effective", parts.effective)):
            for (head, row), kind in itertools.product(enumerate(matrix[0, :, 0].tolist()), set(types) - {None}):
                weights = [weight for weight, one in zip(row, types, strict=True) if one == kind]
                mean = sum(weights) / len(weights)
                for statistic, value in (("largest", max(weights)), ("mean", mean), ("lift", mean * len(types))):
                    values.setdefault((name, head, kind, statistic), []).append(value)
    rows = [(*key, sum(each) / len(each), len(each)) for key, each in values.items()]
    return pd.DataFrame(rows, columns=["attention", "head", "token_type", "statistic", "value", "count"])


@pytest.mark.parametrize("layer", ["last", 0])
def test_against_a_naive_loop(subject, context, singles, layer):
    table = run_analyses(subject, {"a": TokenTypes(layer=layer, words=WORDS).setup(context)})["a"]
    number = 1 if layer == "last" else 0
    assert set(table["layer"]) == {number}
    expected = naive(singles, subject.annotated, number)
    both = table.merge(expected, on=["attention", "head", "token_type", "statistic"], suffixes=("", "_expected"))
    assert len(both) == len(expected) == 2 * 4 * 6 * 3
    assert (both["count"] == both["count_expected"]).all()
    assert both["value"].to_numpy() == pytest.approx(both["value_expected"].to_numpy(), abs=1e-6)


def test_all_layers(subject, context):
    table = run_analyses(subject, {"a": TokenTypes(layer="all", words=WORDS).setup(context)})["a"]
    SCHEMA.check(table, "token_types")
    assert sorted(set(table["layer"])) == [0, 1]


def test_a_type_that_never_occurs_is_undefined(subject, context):
    table = run_analyses(subject, {"a": TokenTypes(words={"number": ["NUM"]}).setup(context)})["a"]
    row = table[table["token_type"] == "number"].iloc[0]
    assert math.isnan(row["value"])
    assert row["count"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": {"noun": ["NOON"]}}, r"words\.noun must be universal parts of speech"),
        ({"words": {}, "layer": 2}, "layer must be last, all or a layer from 0 to 1"),
        ({"words": {}, "layer": "first"}, "got 'first'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(UserError, match=message):
        TokenTypes(**options).setup(make_context(layers=2, heads=1, width=4, max_length=8, examples=1))
