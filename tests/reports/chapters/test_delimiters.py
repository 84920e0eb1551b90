"""Attention to the delimiters: which colours, which panels."""

from __future__ import annotations

import numpy as np

from helpers.figures import FIGURES, Make, cells, meshes, plots, stacked


def test_delimiters_use_the_tasks_own_range_for_effective(make_tables: Make) -> None:
    table = stacked(make_tables, "delimiters", "rte", "mrpc")
    drawn = meshes(FIGURES["delimiters_cls"](table))
    lowest = [
        table[(table["task"] == task) & (table["attention"] == "effective")]["scale_min"].iloc[0]
        for task in ("rte", "mrpc")
    ]
    assert lowest[0] != lowest[1]
    assert [mesh.get_clim() for mesh in drawn] == [(0, 1), (0, 1), (lowest[0], 1.32), (lowest[1], 1.32)]
    bars = [axes for axes in FIGURES["delimiters_cls"](table).axes if axes.get_label() == "<colorbar>"]
    assert len(bars) == 3  # one for both standard panels, one for each effective


def test_fitted_delimiters_use_the_range_of_what_is_shown(make_tables: Make) -> None:
    table = stacked(make_tables, "delimiters", "rte", "mrpc")
    highest = table.groupby("attention")["value"].max()
    limits = [mesh.get_clim() for mesh in meshes(FIGURES["delimiters_fitted"](table))]
    assert limits == ([(0, highest["standard"])] * 2 + [(0, highest["effective"])] * 2) * 2


def test_delimiters_of_one_task_has_cls_beside_sep(make_tables: Make) -> None:
    table = make_tables()["delimiters"]
    figure = FIGURES["delimiters"](table)
    assert [axes.get_title() for axes in plots(figure)] == ["MRPC, to [CLS]", "MRPC, to [SEP]", "", ""]
    rows = table[(table["delimiter"] == "sep") & (table["attention"] == "effective")]
    np.testing.assert_allclose(cells(meshes(figure)[3]), rows["value"].to_numpy().reshape(2, 3))
