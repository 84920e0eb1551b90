"""Error bars: whiskers of one row, layer by head, and the two small tables."""

import numpy as np
from matplotlib.collections import LineCollection

from effective_attention.reports.chapters.identified import CHAPTER, identified_table, logits_table
from helpers.figures import FIGURES, Make, can_draw, cells, meshes, plots, stacked


def test_whiskers_reach_from_the_least_to_the_most(make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)["identified"]
    rows = table[table["quantity"] == "row"].sort_values("key")
    (axes,) = plots(FIGURES["identified_row"](table))
    bars = [line for part in axes.collections if isinstance(part, LineCollection) for line in part.get_segments()]
    drawn = {round(float(bar[0, 0])): (bar[0, 1], bar[1, 1]) for bar in bars}
    assert drawn.keys() == set(range(9))
    np.testing.assert_allclose([drawn[key] for key in range(9)], rows[["low", "high"]].to_numpy(float))
    free, needed = axes.lines
    assert needed.get_xdata().tolist() == [0, 3]
    assert len(free.get_xdata()) == 7
    assert axes.get_title() == "MRPC, layer 0, head 1: attention of [CLS]"


def test_layer_by_head(make_tables: Make) -> None:
    table = stacked(make_tables, "identified", "rte", "mrpc")
    for mesh in meshes(FIGURES["identified"](table)):
        np.testing.assert_allclose(cells(mesh), 0.6)


def test_what_is_missing_is_not_drawn(make_tables: Make) -> None:
    table = make_tables()["identified"]
    assert not can_draw("identified_row", table[table["quantity"] != "row"])
    assert not can_draw("identified", table[table["quantity"] != "weight"])
    assert identified_table(table[table["quantity"] != "weight"]).rows == []
    assert logits_table(table[table["quantity"] != "logit_change"]).rows == []


def test_tables(make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)["identified"]
    rows = identified_table(table).rows
    assert [row[1] for row in rows] == ["[CLS]", "[SEP]", "period, comma", "other", "all"]
    assert rows[0][-2:] == ["90 %", "45 %"]
    assert rows[-1][2:4] == ["1.000", "1.000 to 1.000"]
    assert logits_table(table).rows == [["MRPC", "32", "2.0e-07", "0.070"]]
    assert CHAPTER.analysis == "identified"
