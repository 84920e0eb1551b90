"""The report's small table on token mixing, with what Brunner et al. (2020) print beside ours."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapters.token_mixing.reductions import own
from effective_attention.reports.grid import Grid
from effective_attention.reports.layer_tables import quantities_by_layer
from effective_attention.reports.papers.brunner2020 import BRUNNER_NOT_LARGEST, BRUNNER_OWN, printed
from effective_attention.reports.reductions import one_line, panels


def mixing(table: DataFrame) -> Grid:
    """Make the table of Fig. 3: median own contribution, and tokens that are not their own largest contributor."""
    rows = own(table)
    wanted = {
        "median own contribution": rows[rows["statistic"] == "median"],
        "own not the largest": table[table["quantity"] == "not_largest"],
        "standard error of a contribution, relative": table[table["quantity"] == "error"],
    }
    plain = quantities_by_layer(wanted, "Own contribution by layer, percent.", percent=True)
    paper = {"median own contribution": BRUNNER_OWN, "own not the largest": BRUNNER_NOT_LARGEST}
    mrpc = {one_line(panel.title) for panel in panels(table) if panel.task == "mrpc"}
    lines = [[*row, printed(paper.get(row[1], {}) if row[0] in mrpc else {}, percent=True)] for row in plain.rows]
    columns = [*plain.columns, "paper, BERT-base"]
    ordered = sorted(lines, key=lambda row: row[0])
    return Grid(plain.caption, columns, ordered, paper=frozenset({len(columns) - 1}), labels=2)
