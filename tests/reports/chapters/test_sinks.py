"""Where attention rests: lines, bands, tables."""

import numpy as np

from effective_attention.reports.chapters.sinks import comparison_table, sink_table
from helpers.figures import FIGURES, Make, can_draw, plots, stacked


def test_lines_and_band(make_tables: Make) -> None:
    (axes,) = plots(FIGURES["sinks"](make_tables(layers=2, heads=3)["sinks"]))
    assert [line.get_label() for line in axes.lines] == ["standard", "effective", "affine"]
    np.testing.assert_allclose([line.get_ydata() for line in axes.lines], [[0.5] * 2, [0.04] * 2, [0.3] * 2])
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([heights.min(), heights.max()], [0.45, 0.55])


def test_several_tasks(make_tables: Make) -> None:
    table = stacked(make_tables, "sinks", "rte", "mrpc")
    assert [axes.get_title() for axes in plots(FIGURES["sinks"](table))] == ["RTE", "MRPC"]
    assert len(plots(FIGURES["sink_levels"](table))) == 4


def test_what_is_missing_is_not_drawn(make_tables: Make) -> None:
    table = make_tables()["sinks"]
    assert not can_draw("sink_levels", table[table["quantity"] != "level"])


def test_tables(make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)["sinks"]
    strongest, others = sink_table(table).rows
    assert strongest[:6] == ["MRPC", "strongest", "0.500", "0.040", "0.300", "0.10"]
    assert others[1] == "others"
    assert comparison_table(table).rows == [
        ["MRPC", "0.90 (0.85 to 0.95)", "0.60 (0.55 to 0.65)", "0.40 (0.35 to 0.45)"]
    ]
