"""Heads made even: layer by head, the whole layer apart."""

from __future__ import annotations

import numpy as np
import pytest

from effective_attention.reports.measured import measured
from helpers.figures import FIGURES, Make, cells, meshes


def test_head_ablation_has_the_whole_layer_apart_and_zero_in_the_middle(make_tables: Make) -> None:
    table = make_tables()["head_ablation"]
    mesh = meshes(FIGURES["head_ablation"](table))[0]
    layers = table[table["head"].isna()].sort_values("layer")["change"].tolist()
    np.testing.assert_allclose(cells(mesh)[:, -1], layers)
    low, high = mesh.get_clim()
    assert low is not None
    assert low == -high  # type: ignore[operator]
    assert high == pytest.approx(table["change"].abs().max())


def test_it_says_how_many_examples_were_drawn(make_tables: Make) -> None:
    assert "validation examples (MRPC 64)," in measured(make_tables(examples=408)["head_ablation"])
