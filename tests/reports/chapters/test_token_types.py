"""What [CLS] attends to: types by heads, in the last layer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from effective_attention.reports.chapters.token_types import type_table
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


def test_both_attentions_and_all_tasks_share_one_colour_range(make_tables: Make) -> None:
    table = stacked(make_tables, "token_types", "rte", "mrpc")
    for name, statistic in (("token_types", "largest"), ("token_types_lift", "lift")):
        shown = table[table["statistic"] == statistic]["value"]
        assert {mesh.get_clim() for mesh in meshes(FIGURES[name](table))} == {(0, shown.max())}


def test_the_table_has_a_row_for_each_task_and_attention(make_tables: Make) -> None:
    table = stacked(make_tables, "token_types", "mrpc", "rte")
    grid = type_table(table)
    assert grid.columns == ["task", "attention", "noun", "pronoun", "verb", "[SEP]", "[CLS]", "punct."]
    assert [row[:2] for row in grid.rows] == [
        [task, kind] for task in ("RTE", "MRPC") for kind in ("standard", "effective")
    ]
    mine = table[(table["task"] == "rte") & (table["statistic"] == "largest") & (table["attention"] == "effective")]
    assert grid.rows[1][2] == f"{mine[mine['token_type'] == 'noun']['value'].mean():.3f}"


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


def test_special_tokens_that_no_tokenizer_sets_have_no_line(make_tables: Make) -> None:
    """A decoder has no [CLS] and [SEP]; beside a BERT its lines are grey."""
    table = make_tables()["token_types"]
    bare = table[~table["token_type"].isin(["cls", "sep", "special"])]
    figure = FIGURES["token_types"](bare)
    names = [label.get_text() for label in plots(figure)[0].get_yticklabels()]
    assert names == ["noun", "pronoun", "verb", "punct."]
    assert len(cells(meshes(figure)[0])) == 4
    beside = FIGURES["token_types"](pd.concat([table, bare.assign(task="rte")], ignore_index=True))
    assert {len(cells(mesh)) for mesh in meshes(beside)} == {6}
