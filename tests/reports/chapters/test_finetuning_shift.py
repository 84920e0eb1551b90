"""What finetuning changes: layer by head, the layers' averages, and which layers changed most."""

from __future__ import annotations

import numpy as np

from effective_attention.reports.chapters.finetuning_shift import shift_table
from helpers.figures import FIGURES, Make, plots


def test_lines_below_are_the_layers_averages_of_both_attentions_in_one_range(make_tables: Make) -> None:
    table = make_tables(layers=4)["finetuning_shift"]
    lines = {line.get_label(): line for line in plots(FIGURES["finetuning_shift"](table))[-1].lines}
    assert list(lines) == ["standard", "effective"]
    for attention, line in lines.items():
        means = table[table["attention"] == attention].groupby("layer")["value"].mean()
        np.testing.assert_allclose(line.get_ydata(), means.to_numpy(float))


def test_the_table_names_the_two_layers_that_changed_most(make_tables: Make) -> None:
    table = make_tables(layers=4)["finetuning_shift"]
    moved = table.assign(value=table["value"].where(~table["layer"].isin([1, 3]), -0.5))
    grid = shift_table(moved)
    assert [row[-1] for row in grid.rows] == ["layers 1 and 3"] * 2
    assert [row[3] for row in grid.rows] == ["-0.500", "-0.500"]
