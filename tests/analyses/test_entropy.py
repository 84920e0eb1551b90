"""Entropy: spread or fixed?"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import entropy as scipy_entropy

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.entropy import SCHEMA, Entropy, entropy_sums, row_entropy
from effective_attention.data.annotation.tagging import KINDS
from effective_attention.errors import UserError
from helpers.subjects import make_context


def test_by_hand():
    """Even over two of four keys; all on one; two keys of which one has all; nothing left; a single key."""
    rows = [[0.1, 0.1, 0.0, 0.0], [0.0, 0.0, 0.7, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0] * 4, [0.0, 0.3, 0.0, 0.0]]
    weights = torch.tensor(rows, dtype=torch.float64)[None, None]
    total, count = entropy_sums(weights, torch.tensor([[4, 4, 2, 4, 1]]))
    assert total[0].tolist() == pytest.approx([math.log(2), 0.5])
    assert count[0].tolist() == [4, 3]


SHARES = arrays.arrays(
    float, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.floats(0, 1).map(lambda w: round(w, 6))
)


@given(SHARES, st.floats(1e-3, 1e3))
def test_against_scipy_whatever_the_scale(weights, scale):
    with np.errstate(invalid="ignore"):
        expected = scipy_entropy(weights, axis=-1)
    got = row_entropy(torch.from_numpy(weights * scale)).numpy()
    np.testing.assert_allclose(got, expected, atol=1e-9)
    assert not (got < 0).any()
    assert not (got > math.log(weights.shape[-1]) + 1e-9).any()


def naive(matrices, counts, attention, convention):
    """Means and numbers of rows of one head, row after row."""
    found = {"entropy": [], "relative": []}
    for matrix, count in zip(matrices, counts, strict=True):
        for row in (row for row, counts_as_query in zip(matrix, count, strict=True) if counts_as_query):
            row = [weight for weight, counts_as_key in zip(row, count, strict=True) if counts_as_key]
            if attention == "effective":
                row = [abs(weight) if convention == "absolute" else max(weight, 0.0) for weight in row]
            shares = [weight / sum(row) for weight in row]
            value = -sum(share * math.log(share) for share in shares if share > 0)
            found["entropy"].append(value)
            if len(row) > 1:
                found["relative"].append(value / math.log(len(row)))
    return {name: (sum(values) / len(values), len(values)) for name, values in found.items()}


@pytest.mark.parametrize(
    ("special_tokens", "convention"), [(True, "absolute"), (False, "absolute"), (True, "positive")]
)
def test_against_a_naive_loop(subject, context, singles, special_tokens, convention):
    made = Entropy(special_tokens=special_tokens, convention=convention).setup(context)
    table = run_analyses(subject, {"a": made})["a"].set_index(["attention", "layer", "head", "statistic"])
    kinds = [subject.annotated.kind[subject.annotated.span(index)] for index in range(len(singles))]
    counts = [[special_tokens or KINDS[kind] in ("word", "punctuation") for kind in each] for each in kinds]
    for attention, layer, head in itertools.product(("standard", "effective"), range(2), range(4)):
        matrices = [seen.layers[layer].part(attention)[0, head].tolist() for seen in singles]
        for statistic, expected in naive(matrices, counts, attention, convention).items():
            row = table.loc[(attention, layer, head, statistic)]
            assert (row["value"], row["count"]) == pytest.approx(expected, rel=1e-5)
    assert len(table) == 2 * 2 * 4 * 2
    assert set(table["special_tokens"]) == {special_tokens}
    assert set(table["convention"]) == {convention}


def test_columns_and_defaults(subject, context):
    table = run_analyses(subject, {"a": Entropy().setup(context)})["a"]
    SCHEMA.check(table, "entropy")
    assert " ".join(table.columns) == "attention layer head statistic value count special_tokens first_token convention"
    assert set(table["special_tokens"]) == {True}
    assert set(table["convention"]) == {"absolute"}
    assert table.loc[table["statistic"] == "relative", "value"].between(0, 1).all()


def with_attention(seen, attention):
    return dataclasses.replace(
        seen, layers=tuple(dataclasses.replace(layer, weights=attention) for layer in seen.layers)
    )


def test_even_attention_has_all_the_entropy_there_is_and_fixed_attention_none(subject, context):
    seen = subject.trace([0, 1])
    even = seen.mask[:, None, None].float().expand_as(seen.layers[0].attention)
    fixed = torch.zeros_like(even)
    fixed[..., 1] = 1
    for attention, expected in ((even / even.sum(dim=-1, keepdim=True), 1.0), (fixed, 0.0)):
        made = Entropy().setup(context)
        made.update(with_attention(seen, attention))
        table = made.compute().query("attention == 'standard' and statistic == 'relative'")
        assert table["value"].tolist() == pytest.approx([expected] * 8, abs=1e-6)


@pytest.mark.parametrize(("words", "entropy", "counts"), [(1, 0.0, (1, 0)), (0, math.nan, (0, 0))])
def test_one_word_has_no_relative_entropy_and_no_word_none_at_all(subject, context, words, entropy, counts):
    seen = subject.trace([0])
    kind = torch.full_like(seen.tokens["kind"], KINDS.index("sep"))
    kind[:, 1 : 1 + words] = KINDS.index("word")
    made = Entropy(special_tokens=False).setup(context)
    made.update(dataclasses.replace(seen, tokens={**seen.tokens, "kind": kind}))
    for statistic, value, count in zip(("entropy", "relative"), (entropy, math.nan), counts, strict=True):
        table = made.compute()
        table = table[table["statistic"] == statistic]
        assert table["value"].tolist() == pytest.approx([value] * 16, nan_ok=True)
        assert set(table["count"]) == {count}


def test_bad_options():
    context = make_context(layers=2, heads=2, width=8, max_length=16, examples=1)
    with pytest.raises(
        UserError, match=r"analysis\.entropy\.convention must be one of absolute, positive, got 'squared'"
    ):
        Entropy(convention="squared").setup(context)
