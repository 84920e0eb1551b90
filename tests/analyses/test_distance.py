"""Attention distance: near or far?"""

import dataclasses
import itertools
import math

import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.distance import SCHEMA, Distance, distance_sums
from effective_attention.attention.trace import trace
from effective_attention.data.annotation.tagging import KINDS
from effective_attention.errors import UserError
from helpers.subjects import make_context

SHAPE = {"layers": 2, "heads": 2, "width": 8, "max_length": 16, "examples": 1}


def test_by_hand():
    """Weights 0.2 at distance 2, 0.3 at 1, 0.5 at 0; then 1 at distance 2 in a second example."""
    weights = torch.zeros(2, 1, 3, 3, dtype=torch.float64)
    weights[0, 0, 0] = torch.tensor([0.5, 0.3, 0.2])
    weights[1, 0, 2, 0] = 1
    weighted, total = distance_sums(weights)[0].tolist()
    assert (weighted, total) == pytest.approx((0.3 + 2 * 0.2 + 2, 2))


WEIGHTS = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 5)).map(lambda shape: (*shape, shape[-1]))


@given(arrays.arrays(float, WEIGHTS, elements=st.floats(0, 1)), st.floats(0.1, 10))
def test_a_mean_of_distances_whatever_the_scale(weights, scale):
    weights = torch.from_numpy(weights)
    weighted, total = distance_sums(weights).unbind(dim=-1)
    assert bool((weighted >= 0).all())
    assert bool((weighted <= (weights.shape[-1] - 1) * total + 1e-9).all())
    torch.testing.assert_close(distance_sums(weights * scale)[..., 0], weighted * scale)
    torch.testing.assert_close(distance_sums(weights.mT)[..., 0], weighted)  # there is as far as back


def unsigned(weight: float, attention: str, convention: str) -> float:
    if attention == "standard":
        return weight
    return abs(weight) if convention == "absolute" else max(weight, 0.0)


def naive(matrices, counts, attention, convention, causal=False):
    """Value, even and count of one head, pair after pair."""
    weighted = total = even = rows = pairs = 0.0
    for matrix, count in zip(matrices, counts, strict=True):
        for query, row in enumerate(matrix):
            keys = [key for key in range(len(row)) if count[query] and count[key] and (key <= query or not causal)]
            for key in keys:
                weight = unsigned(row[key], attention, convention)
                weighted, total = weighted + weight * abs(query - key), total + weight
            even += sum(abs(query - key) for key in keys) / max(1, len(keys))
            rows, pairs = rows + bool(keys), pairs + len(keys)
    return weighted / total, even / rows, pairs


@pytest.mark.parametrize(
    ("special_tokens", "convention"), [(False, "absolute"), (True, "absolute"), (False, "positive")]
)
def test_against_a_naive_loop(subject, context, singles, special_tokens, convention):
    made = Distance(special_tokens=special_tokens, convention=convention).setup(context)
    table = run_analyses(subject, {"a": made})["a"].set_index(["attention", "layer", "head"])
    kinds = [subject.annotated.kind[subject.annotated.span(index)] for index in range(len(singles))]
    counts = [[special_tokens or KINDS[kind] in ("word", "punctuation") for kind in each] for each in kinds]
    for attention, layer, head in itertools.product(("standard", "effective"), range(2), range(4)):
        matrices = [seen.layers[layer].part(attention)[0, head].tolist() for seen in singles]
        row = table.loc[(attention, layer, head)]
        assert tuple(row[["value", "even", "count"]]) == pytest.approx(
            naive(matrices, counts, attention, convention), rel=1e-5
        )
    assert len(table) == 2 * 2 * 4
    assert set(table["special_tokens"]) == {special_tokens}
    assert set(table["convention"]) == {convention}


def test_columns_and_defaults(subject, context):
    table = run_analyses(subject, {"a": Distance().setup(context)})["a"]
    SCHEMA.check(table, "distance")
    assert " ".join(table.columns) == "attention layer head value even count special_tokens first_token convention"
    assert set(table["special_tokens"]) == {False}
    assert set(table["convention"]) == {"absolute"}
    assert table["even"].nunique() == table["count"].nunique() == 1


def test_a_causal_model_counts_what_it_may_see():
    torch.manual_seed(0)
    model = hf.AutoModel.from_config(hf.GPT2Config(vocab_size=16, n_embd=8, n_layer=2, n_head=2)).eval()
    ids = torch.arange(12)[None]
    seen = trace(model, {"input_ids": ids}, tokens={"kind": torch.zeros_like(ids)})
    made = Distance().setup(make_context(**SHAPE))
    made.update(seen)
    table = made.compute().set_index(["attention", "layer", "head"])
    for attention, layer, head in itertools.product(("standard", "effective"), range(2), range(2)):
        matrix = seen.layers[layer].part(attention)[0, head].tolist()
        expected = naive([matrix], [[True] * 12], attention, "absolute", causal=True)
        assert tuple(table.loc[(attention, layer, head), ["value", "even", "count"]]) == pytest.approx(
            expected, rel=1e-5
        )
    assert set(table["count"]) == {12 * 13 // 2}
    assert table["value"].unstack("attention").diff(axis=1)["standard"].abs().max() > 1e-3


def test_one_word_looks_nowhere_else_and_no_word_nowhere(subject, context):
    seen = subject.trace([0])
    for kept, expected in ((1, 0.0), (0, math.nan)):
        kind = torch.full_like(seen.tokens["kind"], KINDS.index("sep"))
        kind[:, 1 : 1 + kept] = KINDS.index("word")
        made = Distance().setup(context)
        made.update(dataclasses.replace(seen, tokens={**seen.tokens, "kind": kind}))
        table = made.compute()
        assert table["value"].tolist() == pytest.approx([expected] * len(table), nan_ok=True)
        assert table["even"].tolist() == pytest.approx([expected] * len(table), nan_ok=True)
        assert set(table["count"]) == {kept}


def test_bad_options():
    with pytest.raises(UserError, match=r"analysis\.distance\.convention must be one of absolute, positive, got 'sum'"):
        Distance(convention="sum").setup(make_context(**SHAPE))
