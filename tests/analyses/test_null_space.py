"""Rank, nullity, mass and correlation of the null part, exact beside padded."""

import numpy as np
import pytest
import torch

from effective_attention.analyses.null_space import NullSpace, compare_parts
from effective_attention.analyses.run import analyse
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
    table = analyse(subject, {"a": NullSpace(context, padded_examples=0)})["a"]
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
    table = analyse(subject, {"a": NullSpace(context, padded_examples=0)})["a"]
    lengths = table[table["length"].notna() & (table["quantity"] == "nullity")].set_index("length")
    for length in {int(seen.lengths) for seen in singles}:
        alike = [seen for seen in singles if int(seen.lengths) == length]
        nullities = [length - layer.exact.rank.double().mean().item() for seen in alike for layer in seen.layers]
        assert lengths.loc[length, "value"] == pytest.approx(np.mean(nullities))
        assert lengths.loc[length, "count"] == len(alike) * 2 * 4


def test_padded_against_the_published_protocol(subject, context):
    table = analyse(subject, {"a": NullSpace(context, padded_examples=len(subject.split))})["a"]
    padded = table[table["reading"] == "padded"].set_index(["layer", "head", "quantity"])
    changes, nullities = [], []
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
        nullities.append(len(value) - size)
    assert padded.loc[(1, 2, "output_change"), "value"] == pytest.approx(np.mean(changes), rel=1e-3)
    assert padded.loc[(1, 2, "output_change"), "value"] > 1e-3
    assert padded.loc[(1, 2, "nullity"), "value"] == pytest.approx(np.mean(nullities))


def test_the_subset_is_compared_on_the_same_examples(subject, context):
    table = analyse(subject, {"a": NullSpace(context, padded_examples=4)})["a"]
    counts = table[(table["quantity"] == "null_mass") & table["head"].notna()].groupby("reading")["count"].max()
    assert (counts["padded"], counts["exact_subset"], counts["exact"]) == (4, 4, 9)
    everything = analyse(subject, {"a": NullSpace(context, padded_examples=99)})["a"]
    keys = ["quantity", "layer", "head"]
    exact, subset = (
        everything[(everything["reading"] == name) & everything["head"].notna()].sort_values(keys)["value"].to_numpy()
        for name in ("exact", "exact_subset")
    )
    assert subset == pytest.approx(exact)


def test_padded_and_exact_agree_where_nothing_is_padded(make_subject):
    from effective_attention.analyses.run import describe

    subject = make_subject(examples=3, max_length=20)  # every text is cut at 20
    assert set(subject.split.encoded.lengths) == {20}
    table = analyse(subject, {"a": NullSpace(describe(subject), padded_examples=9)})["a"]
    exact, padded = (
        table[(table["reading"] == name) & table["head"].notna() & (table["quantity"] == "pearson")]["value"].to_numpy()
        for name in ("exact_subset", "padded")
    )
    assert padded == pytest.approx(exact, abs=1e-5)
    change = table[table["quantity"] == "output_change"]["value"]
    assert len(change) == 2 * 4
    assert (change < 1e-5).all()


def test_bad_option(context):
    with pytest.raises(UserError, match=r"padded_examples must be 0 or more, got -1"):
        NullSpace(context, padded_examples=-1)
