"""The chapter on exchanged numbers: figures and tables, against the table they sum up."""

from __future__ import annotations

import numpy as np

from effective_attention.reports.chapters.number_flip import flips_table, mistakes_table, weights_table, words_of
from effective_attention.reports.drawing.style import COLOURS
from effective_attention.reports.grid import NONE
from helpers.figures import FIGURES, Make, can_draw, plots


def test_answers_are_dots_with_their_intervals(make_tables: Make) -> None:
    table = make_tables("agreement")["number_flip"]
    (axes,) = plots(FIGURES["number_flip_answers"](table))
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[:2] == ["subject, all", "subject, right"]
    assert len(names) == 6
    flips = table[table["quantity"] == "flips"].set_index(["word", "group"])
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert dots[2].get_xdata()[0] == flips.loc[("subject", "wrong"), "value"]
    spans = [tuple(line.get_xdata()) for line in axes.lines if line.get_marker() != "o"]
    assert spans[3] == tuple(flips.loc[("attractor", "all"), ["low", "high"]])


def test_lines_by_layer_of_each_method_and_attention(make_tables: Make) -> None:
    table = make_tables("agreement", layers=4)["number_flip"]
    axes = plots(FIGURES["number_flip"](table))
    assert [axis.get_ylabel().split("\n")[-1] for axis in axes[::2]] == ["subject", "attractor"]
    assert [axis.get_xlabel() for axis in axes] == ["", "", "layer", "layer"]
    for axis, quantity in ((axes[2], "weight"), (axes[3], "spearman")):
        rows = table[(table["quantity"] == quantity) & (table["word"] == "attractor") & (table["method"] == "flow")]
        rows = rows[(rows["attention"] == "effective") & rows["group"].isin(["all", None])]
        (line,) = [line for line in axis.lines if line.get_marker() == "D" and line.get_color() == COLOURS["effective"]]
        np.testing.assert_allclose(line.get_ydata(), rows.sort_values("layer")["value"])


def test_without_attractors_only_the_subject_is_shown(make_tables: Make) -> None:
    table = make_tables("agreement")["number_flip"]
    table = table.assign(value=table["value"].mask(table["word"] == "attractor"))
    assert words_of(table) == ["subject"]
    assert len(plots(FIGURES["number_flip"](table))) == 2
    nothing = table.assign(value=table["value"].mask(table["word"].notna()))
    assert not can_draw("number_flip", nothing)
    assert not can_draw("number_flip_answers", nothing)
    assert flips_table(nothing).rows == []


def test_the_tables_say_what_was_measured(make_tables: Make) -> None:
    table = make_tables("agreement", layers=3)["number_flip"]
    flips = table[(table["quantity"] == "flips") & (table["word"] == "subject") & (table["group"] == "wrong")].iloc[0]
    row = flips_table(table).rows[2]
    assert row[1:4] == ["subject", "wrong", "90"]
    assert row[4] == f"{flips['value']:.3f} [{flips['low']:.3f}, {flips['high']:.3f}]"
    last = table[(table["layer"] == 2) & (table["word"] == "attractor") & (table["attention"] == "effective")]
    last = last[last["method"] == "rollout"]
    (row,) = [row for row in weights_table(table).rows if row[1:4] == ["attractor", "effective", "rollout"]]
    right = last[last["group"] == "right"]["value"].item()
    moved = last[last["quantity"] == "spearman"]["value"].item()
    assert row[4].startswith(f"{right:.3f} [")
    assert row[7].startswith(f"{moved:.3f} [")
    lost = table.assign(value=table["value"].mask(table["group"] == "wrong"))
    assert weights_table(lost).rows[0][5] == NONE


def test_mistakes_come_worst_first(make_tables: Make) -> None:
    table = make_tables("agreement")["number_flip"]
    rows = table[table["quantity"] == "probability"].sort_values("value")
    found = mistakes_table(table).rows
    assert [row[1] for row in found] == [str(number) for number in rows["example"]]
    assert {row[4] for row in found} == {"the key to the cabinets"}
