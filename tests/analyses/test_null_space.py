"""Rank, nullity, mass and correlation of the null part, exact beside padded."""

import logging

import numpy as np
import pytest
import torch

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.null_space import (
    QUANTITIES,
    SCHEMA,
    NullSpace,
    compare_parts,
    compare_projected,
    projection_factor,
)
from effective_attention.errors import UserError


def test_by_hand():
    attention = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])
    effective = torch.tensor([[[[0.5, 0.5], [0.5, 0.5]]]])
    mass, pearson = compare_parts(attention, effective, torch.ones(1, 2, dtype=torch.bool))
    assert mass.item() == pytest.approx((0.5 / 1.5) ** 0.5)
    assert np.isnan(pearson.item())  # effective attention is constant: no correlation is defined


def test_no_null_part():
    attention = torch.rand(1, 1, 3, 3)
    mass, pearson = compare_parts(attention, attention, torch.ones(1, 3, dtype=torch.bool))
    assert (mass.item(), pearson.item()) == (0, 1)


def rank(value) -> int:
    return int(np.linalg.matrix_rank(value.double().numpy(), rtol=8 * torch.finfo(torch.float32).eps))


def test_exact_against_a_naive_loop(subject, context, singles):
    table = run_analyses(subject, {"a": NullSpace(padded_examples=0, projected_examples=0).setup(context)})["a"]
    heads = table[table["head"].notna()].set_index(["layer", "head", "quantity"])
    assert set(table["reading"]) == {"exact"}
    for layer in range(2):
        for head in range(4):
            rows = []
            for seen in singles:
                parts = seen.layers[layer].exact
                full, effective = parts.attention[0, head].double().numpy(), parts.effective[0, head].double().numpy()
                size = rank(parts.value[0, head])
                mass = np.linalg.norm(full - effective) / np.linalg.norm(full)
                pearson = np.corrcoef(full.ravel(), effective.ravel())[0, 1]
                rows.append([size, len(full) - size, len(full) > size, mass, pearson])
            expected = np.mean(np.asarray(rows, dtype=float), axis=0)
            names = ["rank", "nullity", "nontrivial", "null_mass", "pearson"]
            got = [heads.loc[(layer, head, name), "value"] for name in names]
            assert got == pytest.approx(expected, abs=1e-5)


def test_by_length_averages_over_heads_of_that_length(subject, context, singles):
    table = run_analyses(subject, {"a": NullSpace(padded_examples=0).setup(context)})["a"]
    lengths = table[table["length"].notna() & (table["quantity"] == "nullity")].set_index("length")
    for length in {int(seen.lengths) for seen in singles}:
        alike = [seen for seen in singles if int(seen.lengths) == length]
        nullities = [length - layer.exact.rank.double().mean().item() for seen in alike for layer in seen.layers]
        assert lengths.loc[length, "value"] == pytest.approx(np.mean(nullities))
        assert lengths.loc[length, "count"] == len(alike) * 2 * 4


def test_padded_against_the_published_protocol(subject, context):
    table = run_analyses(subject, {"a": NullSpace(padded_examples=len(subject.split)).setup(context)})["a"]
    padded = table[table["reading"] == "padded"].set_index(["layer", "head", "quantity"])
    changes, nullities, shifts = [], [], []
    for index in range(len(subject.split)):
        seen = subject.trace([index], full_length=True)
        n = int(seen.lengths)
        attention, value = seen.layers[1].attention[0, 2].double(), seen.layers[1].value[0, 2].double()
        left, singular, _ = torch.linalg.svd(value)  # padding inside
        size = int((singular > 8 * torch.finfo(torch.float32).eps * singular[0]).sum())
        null_space = left[:, size:]
        effective = attention - attention @ null_space @ null_space.mT
        effective[:, n:] = 0  # padding columns zeroed after
        before, after = (attention @ value)[:n], (effective @ value)[:n]
        changes.append(float((after - before).norm() / before.norm()))
        own = torch.linalg.svd(value[:n])
        basis = own[0][:, : int((own[1] > 8 * torch.finfo(torch.float32).eps * own[1][0]).sum())]
        exact = attention[:n, :n] @ basis @ basis.mT  # without padding
        shifts.append(float((effective[:n, :n] - exact).norm() / exact.norm()))
        nullities.append(len(value) - size)
    assert padded.loc[(1, 2, "output_change"), "value"] == pytest.approx(np.mean(changes), rel=1e-3)
    assert padded.loc[(1, 2, "output_change"), "value"] > 1e-3
    assert padded.loc[(1, 2, "padding_shift"), "value"] == pytest.approx(np.mean(shifts), rel=1e-3)
    assert padded.loc[(1, 2, "padding_shift"), "value"] > 1e-2
    assert padded.loc[(1, 2, "nullity"), "value"] == pytest.approx(np.mean(nullities))


def test_the_subset_is_compared_on_the_same_examples(subject, context):
    table = run_analyses(subject, {"a": NullSpace(padded_examples=4).setup(context)})["a"]
    SCHEMA.check(table, "null_space")
    counts = table[(table["quantity"] == "null_mass") & table["head"].notna()].groupby("reading")["count"].max()
    assert (counts["padded"], counts["exact_subset"], counts["exact"]) == (4, 4, 9)
    everything = run_analyses(subject, {"a": NullSpace(padded_examples=99).setup(context)})["a"]
    keys = ["quantity", "layer", "head"]
    exact, subset = (
        everything[(everything["reading"] == name) & everything["head"].notna()].sort_values(keys)["value"].to_numpy()
        for name in ("exact", "exact_subset")
    )
    assert subset == pytest.approx(exact)


def test_padded_and_exact_agree_where_nothing_is_padded(make_subject):

    subject = make_subject(examples=3, max_length=20)  # every text is cut at 20
    assert set(subject.split.encoded.lengths) == {20}
    table = run_analyses(subject, {"a": NullSpace(padded_examples=9).setup(subject.context())})["a"]
    exact, padded = (
        table[(table["reading"] == name) & table["head"].notna() & (table["quantity"] == "pearson")]["value"].to_numpy()
        for name in ("exact_subset", "padded")
    )
    assert padded == pytest.approx(exact, abs=1e-5)
    change = table[table["quantity"] == "output_change"]["value"]
    assert len(change) == 2 * 4
    assert (change < 1e-5).all()


# --- T = V H ---


def by_svd(attention, matrix):
    """Effective attention and rank by the singular vectors of T itself, as wide as the model."""
    left, singular, _ = np.linalg.svd(matrix)
    size = int((singular > 8 * np.finfo(np.float32).eps * singular[0]).sum())
    return attention @ left[:, :size] @ left[:, :size].T, size


def projected(layer, blocks):
    everyone, mask = torch.ones(1, dtype=torch.bool), torch.ones(1, layer.value.shape[2], dtype=torch.bool)
    found = compare_projected(layer, mask, everyone, *projection_factor(blocks))
    return dict(zip(QUANTITIES, found[:, 0], strict=True))


@pytest.mark.parametrize("lost", [0, 3], ids=["full rank", "deficient"])
def test_projected_against_an_svd_of_t(singles, lost):
    layer = singles[4].layers[1]
    blocks = torch.randn(4, 8, 32, generator=torch.Generator().manual_seed(0))
    blocks[:, 8 - lost :] = blocks[:, :lost]  # rows of H that say nothing new
    found = projected(layer, blocks)
    for head in range(4):
        attention, value = (matrix[0, head].double().numpy() for matrix in (layer.attention, layer.value))
        effective, size = by_svd(attention, value @ blocks[head].double().numpy())
        of_values, full = by_svd(attention, value)
        gap = np.linalg.norm(of_values - effective) / np.linalg.norm(attention)
        assert (size, full) == (8 - lost, 8)
        assert (found["rank"][head], found["nullity"][head], found["projection_rank"][head]) == (
            size,
            len(value) - size,
            size,
        )
        assert found["effective_gap"][head].item() == pytest.approx(gap, abs=2e-6)
        assert (found["effective_gap"][head] > 1e-3) == (lost > 0)
        mass = np.linalg.norm(attention - effective) / np.linalg.norm(attention)
        assert found["null_mass"][head].item() == pytest.approx(mass, abs=2e-6)


def test_projected_agrees_with_values_for_a_real_projection(subject, context):
    table = run_analyses(subject, {"a": NullSpace(padded_examples=0, projected_examples=99).setup(context)})["a"]
    heads = table[table["head"].notna()].pivot_table(
        index=["layer", "head", "quantity"], columns="reading", values="value"
    )
    for name in ("rank", "nullity", "null_mass", "pearson"):
        same = heads.xs(name, level="quantity")
        assert same["projected"].to_numpy() == pytest.approx(same["exact"].to_numpy(), abs=1e-5)
    gap, size = (heads.xs(name, level="quantity")["projected"] for name in ("effective_gap", "projection_rank"))
    assert (gap < 1e-5).all()
    assert (size == 8).all()
    assert len(gap) == 2 * 4


def test_projected_through_the_model_with_a_deficient_projection(make_subject):

    subject = make_subject(examples=3)
    with torch.no_grad():  # head 2 of the first layer writes along five directions only
        subject.model.bert.encoder.layer[0].attention.output.dense.weight[:, 16:19] = 0
    table = run_analyses(subject, {"a": NullSpace(padded_examples=0).setup(subject.context())})["a"]
    values = table[table["reading"] == "projected"].set_index(["quantity", "layer", "head"])["value"]
    assert (values["projection_rank", 0, 2], values["rank", 0, 2]) == (5, 5)
    assert (values["projection_rank", 0, 1], values["rank", 0, 1]) == (8, 8)
    assert values["effective_gap", 0, 2] > 1e-3
    assert values["effective_gap", 0, 1] < 1e-5


def test_a_model_without_a_projection_is_left_out(subject, context, monkeypatch, caplog):
    def refuse(trace):
        raise ValueError("hands its attention to no linear map")

    monkeypatch.setattr("effective_attention.analyses.null_space.output_projections", refuse)
    with caplog.at_level(logging.WARNING):
        table = run_analyses(subject, {"a": NullSpace(padded_examples=0).setup(context)})["a"]
    assert set(table["reading"]) == {"exact"}
    assert len([line for line in caplog.messages if "T = V H: hands its attention to no linear map" in line]) == 1


@pytest.mark.parametrize("option", ["padded_examples", "projected_examples"])
def test_bad_option(context, option):
    with pytest.raises(UserError, match=rf"null_space\.{option} must be 0 or more, got -1"):
        NullSpace(**{option: -1}).setup(context)
