"""Each figure's own promises: the right values in the right place, under the right colours."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from effective_attention.reports.drawing.files import figure_bytes
from effective_attention.reports.figures.null_space import by_length, padding_share
from effective_attention.reports.reductions import rank_limit
from helpers.figures import FIGURES, Make, cells, meshes, plots, stacked


def test_token_types_shows_the_last_layers_largest_weight_by_type_and_head(make_tables: Make) -> None:
    last = make_tables()["token_types"]
    earlier = last.assign(layer=0, value=99.0)
    figure = FIGURES["token_types"](pd.concat([earlier, last], ignore_index=True))
    mesh = meshes(figure)[0]
    rows = last[(last["statistic"] == "largest") & (last["attention"] == "standard")]
    sep = rows[rows["token_type"] == "sep"].sort_values("head")["value"].tolist()
    np.testing.assert_allclose(cells(mesh)[3], sep)
    assert [label.get_text() for label in plots(figure)[0].get_yticklabels()][3] == "[SEP]"
    assert plots(figure)[0].yaxis_inverted()


def test_a_type_that_never_occurs_is_grey_not_zero(make_tables: Make) -> None:
    table = make_tables()["token_types"]
    mesh = meshes(FIGURES["token_types"](table[table["token_type"] != "pronoun"]))[0]
    assert np.ma.getmaskarray(mesh.get_array())[1].all()  # type: ignore[arg-type]


def test_lift_shows_the_lift(make_tables: Make) -> None:
    table = make_tables()["token_types"]
    rows = table[(table["statistic"] == "lift") & (table["attention"] == "effective") & (table["token_type"] == "noun")]
    np.testing.assert_allclose(
        cells(meshes(FIGURES["token_types_lift"](table))[1])[0], rows.sort_values("head")["value"]
    )


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


def test_patterns_add_up_to_the_tables_shares(make_tables: Make) -> None:
    table = stacked(make_tables, "patterns", "rte", "mrpc")
    left, right = plots(FIGURES["patterns"](table))
    assert (left.get_title(), right.get_title()) == ("standard attention", "effective attention")
    rows = table[(table["task"] == "mrpc") & (table["attention"] == "effective") & table["layer"].isna()]
    expected = rows.set_index("pattern")["value"]
    heights = {bars.get_label(): bars[1].get_height() for bars in right.containers}
    assert heights == pytest.approx({name: 100 * value for name, value in expected.items()})
    assert len(plots(FIGURES["patterns_layers"](table))) == 4


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


def test_timing_stands_beside_the_papers_ratio(make_tables: Make) -> None:
    figure = FIGURES["timing"](stacked(make_tables, "timing", "rte", "cola"))
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in plots(figure)[0].containers}
    assert heights["effective"] == [1.31, 1.31]
    assert heights["effective in the paper"] == pytest.approx([2.0, np.nan], nan_ok=True)


def test_heatmap_names_tokens_as_they_are(make_tables: Make) -> None:
    figure = FIGURES["heatmap"](make_tables()["heatmap"])
    assert [mesh.get_cmap().name for mesh in meshes(figure)][::2] == ["Greens", "PuOr_r"]
    names = [label.get_text() for label in plots(figure)[0].get_yticklabels()]
    assert names == ["[CLS]", "new", "anti", "##biotics", "cost", "$5", "[SEP]", "<script>alert(1…", "[SEP]"]


def test_heatmap_of_effective_is_white_at_zero_and_orange_below(make_tables: Make) -> None:
    mesh = meshes(FIGURES["heatmap"](make_tables()["heatmap"]))[1]
    low, high = mesh.get_clim()
    assert low is not None
    assert high is not None
    red, _, blue, _ = mesh.get_cmap()(mesh.norm(low))
    assert red > blue
    red, _, blue, _ = mesh.get_cmap()(mesh.norm(high))
    assert red < blue
    assert min(mesh.get_cmap()(mesh.norm(0.0))[:3]) > 0.9


def test_an_empty_null_part_is_blank(make_tables: Make) -> None:
    table = make_tables()["heatmap"]
    empty = table.assign(value=table["value"].where(table["attention"] != "null", 1e-9))
    mesh = meshes(FIGURES["heatmap"](empty))[2]
    assert mesh.get_clim() == (-1, 1)


def test_a_long_heatmap_names_every_second_token() -> None:
    tokens = [f"t{index}" for index in range(100)]
    rows = [
        {"task": "own", "model": "m", "data": "local", "split": "test", "checkpoint": "", "layer": 0, "head": 0,
         "attention": "standard", "query": i, "key": j, "query_token": tokens[i], "key_token": tokens[j], "value": 0.01}
        for i in range(100) for j in range(100)
    ]  # fmt: skip
    figure = FIGURES["heatmap"](pd.DataFrame(rows))
    assert [label.get_text() for label in plots(figure)[0].get_xticklabels()] == tokens[::2]
    assert len(figure_bytes(figure, "svg", salt="")) < 1_000_000  # ten thousand cells are one picture


def test_head_ablation_has_the_whole_layer_apart_and_zero_in_the_middle(make_tables: Make) -> None:
    table = make_tables()["head_ablation"]
    mesh = meshes(FIGURES["head_ablation"](table))[0]
    layers = table[table["head"].isna()].sort_values("layer")["change"].tolist()
    np.testing.assert_allclose(cells(mesh)[:, -1], layers)
    low, high = mesh.get_clim()
    assert low is not None
    assert low == -high  # type: ignore[operator]
    assert high == pytest.approx(table["change"].abs().max())


def test_a_figure_can_be_saved_anywhere_matplotlib_can(make_tables: Make) -> None:
    out = io.BytesIO()
    FIGURES["patterns"](make_tables()["patterns"]).savefig(out, format="pdf")
    assert out.getvalue().startswith(b"%PDF")
