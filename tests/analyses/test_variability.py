"""Variability: position or content?"""

import dataclasses
import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from effective_attention.analyses.common.base import Context
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.common.samples import sample
from effective_attention.analyses.variability import SCHEMA, Variability, variability
from effective_attention.data.annotation.tagging import KINDS
from effective_attention.errors import UserError
from helpers.subjects import make_context


def shape(**changes) -> Context:
    return make_context(**{"layers": 2, "heads": 2, "width": 8, "max_length": 16, "examples": 50, **changes})


def test_by_hand():
    """Two examples of two tokens: the first row differs by 0.2 from its mean at both keys, the second not at all.

    A third example has one token only: it counts for the pair (0, 0), whose weights are 0.8, 0.4, 0.3, so that the mean
    is 0.5.
    """
    one, other, short = (
        torch.tensor(rows) for rows in ([[0.8, 0.2], [0.5, 0.5]], [[0.4, 0.6], [0.5, 0.5]], [[0.3, 9.0], [9.0, 9.0]])
    )
    there = torch.tensor([[True, True], [True, True], [True, False]])
    assert variability(torch.stack([one, other]), there[:2]).item() == pytest.approx(0.8 / (2 * 4))
    assert variability(torch.stack([one, other, short]), there).item() == pytest.approx(
        (0.3 + 0.1 + 0.2 + 0.4) / (2 * 4.3)
    )


def test_signs_count_in_deviations_and_sizes_in_the_sum():
    weights = torch.tensor([[[0.5]], [[-0.5]]])
    assert variability(weights, torch.ones(2, 1, dtype=torch.bool)).item() == 0.5


def test_a_pair_that_only_one_example_has_is_left_out():
    weights = torch.ones(2, 2, 2)
    weights[0, 0, 0] = 0
    there = torch.tensor([[True, True], [True, False]])
    assert variability(weights, there).item() == pytest.approx((0.5 + 0.5) / 2)
    assert math.isnan(variability(weights[:1], there[:1]).item())


WEIGHTS = st.tuples(st.integers(2, 5), st.integers(1, 2), st.integers(1, 4)).map(lambda made: (*made, made[-1]))


@given(
    arrays.arrays(float, WEIGHTS, elements=st.floats(-1, 1).map(lambda weight: round(weight, 4))), st.floats(0.1, 10)
)
def test_from_0_to_1_whatever_the_scale_and_order(weights, scale):
    weights = torch.from_numpy(weights)
    there = torch.ones(weights.shape[0], weights.shape[-1], dtype=torch.bool)
    found = variability(weights, there)
    known = found[~found.isnan()]
    assert bool(((known >= 0) & (known <= 1 + 1e-9)).all())
    torch.testing.assert_close(variability(weights * scale, there), found, equal_nan=True)
    torch.testing.assert_close(variability(weights.flip(0), there), found, equal_nan=True)


def test_without_the_first_key():
    """All that differs from text to text is the weight on the first token."""
    one, other = torch.tensor([[1.0, 0.0], [0.2, 0.6]]), torch.tensor([[1.0, 0.0], [0.4, 0.6]])
    there = torch.ones(2, 2, dtype=torch.bool)
    both = torch.stack([one, other])
    assert float(variability(both, there)) == pytest.approx(0.2 / (2 * 3.8))
    assert float(variability(both, there, first_token=False)) == 0


def naive(matrices, counts, positions):
    """One head, pair after pair of positions."""
    deviation = total = 0.0
    for query, key in itertools.product(range(min(positions, max(map(len, matrices)))), repeat=2):
        weights = [
            matrix[query][key]
            for matrix, count in zip(matrices, counts, strict=True)
            if max(query, key) < len(matrix) and count[query] and count[key]
        ]
        if len(weights) > 1:
            mean = sum(weights) / len(weights)
            deviation += sum(abs(weight - mean) for weight in weights)
            total += sum(abs(weight) for weight in weights)
    return deviation / (2 * total)


@pytest.mark.parametrize(
    ("examples", "positions", "special_tokens"),
    [(1000, 10, False), (None, 10, True), (4, 6, False), (None, 64, True), (None, 200, False)],
)
def test_against_a_naive_loop(subject, context, singles, examples, positions, special_tokens):
    made = Variability(examples=examples, positions=positions, special_tokens=special_tokens).setup(context)
    table = run_analyses(subject, {"a": made})["a"].set_index(["attention", "layer", "head"])
    chosen = [index for index, mine in enumerate(sample(context, examples).tolist()) if mine]
    kinds = [subject.annotated.kind[subject.annotated.span(index)] for index in chosen]
    counts = [[special_tokens or KINDS[kind] in ("word", "punctuation") for kind in each] for each in kinds]
    for attention, layer, head in itertools.product(("standard", "effective"), range(2), range(4)):
        matrices = [singles[index].layers[layer].part(attention)[0, head].tolist() for index in chosen]
        expected = naive(matrices, counts, positions)
        assert table.loc[(attention, layer, head), "value"] == pytest.approx(expected, rel=1e-5)
    assert len(table) == 2 * 2 * 4
    assert set(table["examples"]) == {len(chosen)}
    assert set(table["positions"]) == {positions}
    assert set(table["special_tokens"]) == {special_tokens}


def test_columns_and_defaults(subject, context):
    table = run_analyses(subject, {"a": Variability().setup(context)})["a"]
    SCHEMA.check(table, "variability")
    assert " ".join(table.columns) == "attention layer head value examples positions special_tokens first_token"
    assert table.iloc[0][["examples", "positions", "special_tokens"]].tolist() == [9, 10, False]


def of_weights(subject, context, make):
    """The variability of standard attention where ``make(example, size)`` gives the weights of all heads."""
    made = Variability(special_tokens=True).setup(context)
    for index in range(len(subject.split)):
        seen = subject.trace([index])
        attention = make(index, seen.mask.shape[1]).expand_as(seen.layers[0].attention).contiguous()
        made.update(
            dataclasses.replace(
                seen, layers=tuple(dataclasses.replace(layer, weights=attention) for layer in seen.layers)
            )
        )
    return made.compute().query("attention == 'standard'")["value"].to_numpy()


def test_position_gives_0_and_content_more(subject, context):
    def one_back(_, size):
        return torch.eye(size).roll(1, dims=0).index_fill(0, torch.tensor([0]), 0)

    def by_content(example, size):
        return torch.rand(size, size, generator=torch.Generator().manual_seed(example)).pow(8)

    def somewhere_of_its_own(example, size):
        return torch.eye(size)[example].expand(size, size)

    assert of_weights(subject, context, one_back).tolist() == [0] * 8
    assert of_weights(subject, context, by_content).min() > 0.4
    assert of_weights(subject, context, somewhere_of_its_own) == pytest.approx(
        1 - 1 / 9
    )  # the most that nine examples can have


def test_batches_without_a_chosen_example_are_not_wanted(context):
    made = Variability(examples=2).setup(context)
    chosen = made.chosen.nonzero()[:, 0].tolist()
    others = sorted(set(range(9)) - set(chosen))
    assert made.wants([others[0], chosen[1]])
    assert not made.wants(others)


def test_unwanted_examples_change_nothing(subject, context):
    made = Variability(examples=2).setup(context)
    made.update(subject.trace((~made.chosen).nonzero()[:, 0].tolist()))
    assert made.compute()["value"].isna().all()
    assert set(made.compute()["examples"]) == {0}


def test_nothing_but_special_tokens(subject, context):
    made = Variability().setup(context)
    seen = subject.trace([0, 1])
    kind = torch.full_like(seen.tokens["kind"], KINDS.index("sep"))
    made.update(dataclasses.replace(seen, tokens={**seen.tokens, "kind": kind}))
    assert made.compute()["value"].isna().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"examples": 0}, r"analysis\.variability\.examples must be at least 1, or null for all, got 0"),
        ({"positions": 1}, r"analysis\.variability\.positions must be a whole number, at least 2, got 1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(UserError, match=message):
        Variability(**options).setup(shape())


def test_a_state_too_large_to_keep():
    large = shape(layers=12, heads=12, max_length=128, examples=40_000)
    with pytest.raises(
        UserError,
        match=r"variability\.examples must leave at most 2 GB .* 40000 examples with 10 positions make 4.3 GB",
    ):
        Variability(examples=None).setup(large)
    assert Variability(examples=10).setup(large).weights.shape == (10, 2, 12, 12, 10, 10)
