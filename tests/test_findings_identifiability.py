"""The page on identifiability: what its numbers are made of, and how its tables say them."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from helpers.cases import build_case


@pytest.fixture(scope="module")
def modules():
    folder = str(Path(__file__).parents[1] / "scripts" / "findings")
    sys.path.insert(0, folder)
    try:
        yield [importlib.import_module(name) for name in ("identifiability", "identifiability_tables")]
    finally:
        sys.path.remove(folder)


@pytest.fixture(scope="module")
def seen():
    """Two delimiters around five words, heads of width 4: attention is not determined."""
    from effective_attention.attention.trace import trace
    from effective_attention.data.annotation.tagging import KINDS

    known = build_case("bert", (7,), double=True).trace
    kinds = torch.tensor([[KINDS.index(name) for name in ("cls", *["word"] * 5, "sep")]])
    return trace(known.model, dict(known.inputs), tokens={"kind": kinds})


def test_weights_by_type_are_sums_of_columns(modules, seen):
    measured, _ = modules
    found = measured.profile(seen, torch.tensor([-1]))  # (attention, layer, source, target); no token is a period
    for number, layer in enumerate(seen.layers):
        for kind, weights in enumerate((layer.exact.attention, layer.exact.effective)):
            mean = weights[0].mean(dim=0)  # (query, key)
            torch.testing.assert_close(found[kind, number, 0, 1], mean[:, -1].mean().double())
            torch.testing.assert_close(found[kind, number, 2, 1], mean[-1, -1].double())
            torch.testing.assert_close(found[kind, number, 4, 1], mean[1:-1, -1].mean().double())
    torch.testing.assert_close(found[0, :, 0].sum(dim=-1), torch.ones(2).double())
    assert bool(found[:, :, 3].isnan().all()), "no period attends"


def test_the_correlation_of_two_attentions(modules, seen):
    measured, _ = modules
    pairs = [
        (standard, effective)
        for layer in seen.layers
        for standard, effective in zip(layer.exact.attention[0], layer.exact.effective[0], strict=True)
    ]
    expected = np.mean([np.corrcoef(a.detach().flatten(), b.detach().flatten())[0, 1] for a, b in pairs])
    assert float(measured.correlation(seen)) == pytest.approx(expected)
    assert expected < 0.999


def test_means_leave_out_texts_without_such_tokens(modules):
    measured, _ = modules
    values = torch.tensor([[[1.0, torch.nan]], [[3.0, 5.0]], [[2.0, 5.0]]])  # text, row, column
    found = measured.with_ends(values)
    assert found.shape == (1, 2, 3)
    assert found[0, 0, 0] == 2
    assert found[0, 1].tolist() == [5, 5, 5]
    assert 1 <= found[0, 0, 1] < 2 < found[0, 0, 2] <= 3


def test_own_shares_and_larger_ones(modules):
    measured, _ = modules
    from effective_attention.analyses.token_mixing.jacobian import normalise

    shares = torch.tensor([[[0.6, 0.4], [0.8, 0.2]]])
    own, beaten = measured.own_and_largest(normalise(shares.square()))
    np.testing.assert_allclose(own, [[0.6, 0.2]], rtol=1e-6)
    assert beaten.tolist() == [[0, 1]]


def test_medians_are_of_all_tokens_and_differences_text_by_text(modules):
    measured, _ = modules
    random = np.random.default_rng(1)
    texts = [random.uniform(size=(2, 3, tokens)) for tokens in (4, 6, 5)]
    together = np.concatenate(texts, axis=-1)
    found = measured.medians(texts)
    own = np.array(found["own"])  # layer, (median, low, high)
    np.testing.assert_allclose(own[:, 0], np.median(together[0], axis=-1))
    np.testing.assert_allclose(np.array(found["not the largest"])[:, 0], together[1].mean(axis=-1))
    assert bool((own[:, 1] <= own[:, 0]).all() and (own[:, 0] <= own[:, 2]).all())
    assert bool((own[:, 1] < own[:, 2]).all())
    np.testing.assert_array_equal(measured.medians(texts, texts)["own"], np.zeros((3, 3)))
    np.testing.assert_allclose(measured.medians([one + 0.5 for one in texts], texts)["own"], np.full((3, 3), 0.5))


def test_tags_with_few_tokens_are_left_out(modules):
    measured, said = modules
    values = [np.stack([np.arange(12.0)[None].repeat(2, axis=0)] * 2)]
    tags = np.array(["NN"] * 10 + ["UH", ""])
    found = measured.by_tag({"summed": values, "normalised": [one + 1 for one in values]}, tags)
    quartiles = [[4.5, 2.25, 6.75]] * 2
    assert found == {"NN": {"tokens": 10, "summed": quartiles, "normalised": [[5.5, 3.25, 7.75]] * 2}}
    assert said.tags(found)[0][1:4] == ["10", "4.500 [2.250, 6.750]", "4.500 [2.250, 6.750]"]
    assert said.tags(found)[0][4] == "5.500 [3.250, 7.750]"


def test_rates_are_averaged_over_folds(modules):
    measured, said = modules
    front = {"map": "linear", "distance": "l2", "layer": 4, "baseline": 0.01, "tokens": 90, "examples": 7}
    rows = [
        {**front, "share": share, "fold": fold, "part": part, "value": value + 0.1 * (part == "train")}
        for share, values in ((0.5, (0.2, 0.4)), (1.0, (0.5, 0.5)))
        for fold, value in enumerate(values)
        for part in ("train", "test")
    ]
    found = measured.rates(pd.DataFrame(rows))
    assert found["rates"] == {"linear l2": {"4": {"0.5": pytest.approx([0.3, 0.1, 2]), "1": [0.5, 0.0, 2]}}}
    assert (found["trained"], found["texts"]) == ({"0.5": 90, "1": 90}, 7)
    table = said.size(found)
    assert "| linear, closed form, L2, layer 4 | 0.300 ± 0.100 | 0.500 ± 0.000 |" in table
    assert "| 0.74 | 0.82 |" in table


def test_the_papers_numbers_stand_beside_ours(modules):
    _, said = modules
    line = [[0.4, 0.3, 0.5], [0.1, 0.05, 0.2]]
    one = {"own": line, "not the largest": line}
    rows = said.mixing({"normalised": one, "summed": one, "more, summed": one})
    assert rows[0][1:3] == ["0.400 [0.300, 0.500]", "0.100 [0.050, 0.200]"]
    assert [row[-1][:15] for row in rows] == [
        "0.306 (layer 1)",
        "0.306 (layer 1)",
        "",
        "0.000 (layer 1)",
        "0.000 (layer 1)",
        "",
    ]


def test_without_numbers_tables_are_empty(modules):
    _, said = modules
    assert all(table.count("\n") == 1 for table in said.tables({}).values())


def test_texts_are_paragraphs_of_many_words(modules, tmp_path):
    measured, _ = modules
    lines = [" = Heading = ", *(" ".join([f"w{number}"] * 100) for number in range(6)), "too short"]
    (tmp_path / "wiki.txt").write_text("\n".join(lines))
    assert [line.split()[0] for line in measured.texts(tmp_path / "wiki.txt", 3)] == ["w0", "w2", "w4"]
