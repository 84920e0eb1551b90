"""The null space: numbers by hand, and what the figure and the tables make of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from effective_attention.reports.chapters.null_space import (
    CHAPTER,
    by_length,
    null_space_scalars,
    padding_share,
    projected_table,
    rank_limit,
)
from effective_attention.reports.measured import measured
from helpers.figures import FIGURES, Make, plots


def test_null_space_numbers_by_hand() -> None:
    rows = [
        ("pearson", 9, 1.0, 1),
        ("pearson", 11, 0.4, 3),
        ("pearson", 8, 0.9, 1),
        ("pearson", 40, 0.5, 2),
        ("rank", 40, 31.9, 2),
    ]
    table = pd.DataFrame(rows, columns=["quantity", "length", "value", "count"])
    means = by_length(table, "pearson")
    np.testing.assert_allclose(means.index, [8, (9 + 3 * 11) / 4, 40])
    np.testing.assert_allclose(means, [0.9, (1.0 + 3 * 0.4) / 4, 0.5])
    assert rank_limit(table) == 32
    compared = pd.DataFrame(
        {"reading": ["exact_subset", "padded"], "quantity": "null_mass", "length": pd.NA, "value": [0.1, 0.4]}
    )
    assert padding_share(compared) == pytest.approx(0.75)


def test_null_space_marks_the_head_width_and_leaves_out_what_was_not_measured(make_tables: Make) -> None:
    table = make_tables()["null_space"]
    figure = FIGURES["null_space"](table)
    assert len(plots(figure)) == 3
    assert any("$d_v$ = 32" in text.get_text() for text in figure.findobj(Text))  # type: ignore[attr-defined]
    assert any(list(line.get_xdata()) == [32, 32] for line in plots(figure)[0].lines)
    assert len(plots(FIGURES["null_space"](table[table["reading"] == "exact"]))) == 2


def test_padding_is_told_by_what_it_moves(make_tables: Make) -> None:
    table = make_tables()["null_space"]
    moved = table["quantity"].isin(["padding_shift", "output_change"])
    table.loc[moved, "value"] = np.where(table.loc[moved, "quantity"] == "padding_shift", 0.23, 0.085)
    assert any("by 23 % of its size and a head's output by 8.5 %" in said for said in CHAPTER.found(table))
    numbers = null_space_scalars(table)
    assert numbers["null_space/effective/padding_shift"] == pytest.approx(0.23)
    heights = [text.get_text() for text in plots(FIGURES["null_space"](table))[2].texts]
    assert heights == ["23", "8"]


def test_the_projected_reading_has_its_own_table_and_old_tables_none(make_tables: Make) -> None:
    table = make_tables()["null_space"]
    (row,) = projected_table(table).rows
    assert row[:5] == ["MRPC", "408", "32.0", "31.2", "22.0"]
    assert row[6:] == ["2.0e-07", "2.0e-07"]
    assert projected_table(table[table["reading"] != "projected"]).rows == []
    assert measured(table) == measured(table[table["reading"] != "projected"])
