"""The report's small tables on attention along dependencies."""

from __future__ import annotations

from collections.abc import Mapping

from pandas import DataFrame, Series

from effective_attention.reports.chapters.dependency_alignment.reductions import Best, aligned, best_heads, fixed_rules
from effective_attention.reports.findings import head_name
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.layer_tables import layer_means_grid
from effective_attention.reports.reductions import attentions, correlation, one_line, panels

_HEAD = ["task", "model", "data", "split", "checkpoint", "attention", "layer", "head"]
_ARROWS = {"to_head": "to its head", "from_head": "to its dependent"}


def alignment_grid(table: DataFrame) -> Grid:
    """Make the table of shares by layer, what the fixed rules reach, and how deep the strongest layer is."""
    caption = "Share of attention between related words"
    return layer_means_grid(aligned(table), caption=caption, digits=3, last="strongest", references=fixed_rules)


def relations_grid(table: DataFrame) -> Grid:
    """Make the table of the best head of each relation, and the best fixed rule of its direction; see ``Best``."""
    rows = []
    for panel in panels(table) if len(table) else ():
        kinds = attentions(panel.table)
        found = {kind: {best.relation: best for best in best_heads(panel.table, kind)} for kind in kinds}
        for relation, first in found[kinds[0]].items() if kinds else ():
            front = [one_line(panel.title), relation, number(first.count, 0)]
            rows += [[*front, kind, *_head(found[kind].get(relation))] for kind in kinds]
    columns = ["task", "relation", "arcs", "attention", "head", "looks", "hits", "best fixed rule", "gain"]
    caption = (
        "For each relation the head that finds the partner most often, largest gain first. Heads and fixed rules are "
        "chosen on one half of the texts; arcs, hits, rule and gain are those of the other half."
    )
    return Grid(caption, columns, rows, labels=6)


def _head(best: Best | None) -> list[str]:
    """Return the cells that tell of a head; dashes where there is none."""
    if best is None:
        return [NONE] * 5
    fixed = f"{number(best.reached)} ({best.rule})"
    return [head_name(best.layer, best.head), _ARROWS[best.direction], number(best.value), fixed, number(best.gain)]


def alignment_and_distance(tables: Mapping[str, DataFrame]) -> Grid:
    """Make the table of how alignment and distance of the same heads go together; no rows unless both were measured."""
    rows = []
    if "dependency_alignment" in tables and "distance" in tables:
        shares, far = (_by_head(part) for part in (aligned(tables["dependency_alignment"]), tables["distance"]))
        both = shares.merge(far, on=_HEAD, suffixes=("", "_far")).dropna(subset=["value", "value_far"])
        for panel in panels(both) if len(both) else ():
            for kind in attentions(panel.table):
                heads = panel.table[panel.table["attention"] == kind]
                layers = heads.groupby("layer")[["value", "value_far"]].mean()
                cells = [_spearman(part["value"], part["value_far"]) for part in (heads, layers)]
                rows.append([one_line(panel.title), kind, *cells, number(len(heads), 0)])
    columns = ["task", "attention", "over heads", "over layers", "heads"]
    caption = "Correlation of dependency alignment with distance (Spearman); the poster finds it negative."
    return Grid(caption, columns, rows, labels=2)


def _spearman(first: Series, second: Series) -> str:
    return number(correlation(first, second), 2)


def _by_head(table: DataFrame) -> DataFrame:
    """Average the seeds of one setting that name the same weights."""
    named = table.assign(checkpoint=table["checkpoint"].fillna(""))
    return named.groupby(_HEAD, sort=False)["value"].mean().reset_index()
