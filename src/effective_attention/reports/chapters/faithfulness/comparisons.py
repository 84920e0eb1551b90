"""Which differences between methods are real: average ranks with the critical difference, and pairs with the best.

Drawn from the rows ``average_rank`` and ``difference``; of several runs of one setting ranks are averaged, while pairs
belong to one run.
"""

from __future__ import annotations

from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.analyses.faithfulness import DIFFERENCE, RANK
from effective_attention.attributions.comparison import LEVEL, critical_difference, friedman, not_told_apart
from effective_attention.reports.chapters.faithfulness.figures import colour_of, key
from effective_attention.reports.chapters.faithfulness.reductions import TITLES, WITHOUT, method_title, named
from effective_attention.reports.drawing.average_ranks import draw_average_ranks
from effective_attention.reports.drawing.style import DOUBLE, grid, styled
from effective_attention.reports.findings import said_of
from effective_attention.reports.grid import NONE, Grid, number, span
from effective_attention.reports.reductions import one_line, panels

_PER_NAME = 0.13  # inches


def has_ranks(table: DataFrame) -> bool:
    """Tell whether methods were compared."""
    return bool((table["measure"] == RANK).any())


def average_rank_rows(table: DataFrame) -> DataFrame:
    """Return attention, method, average rank and count of examples, the best first."""
    rows = table[table["measure"] == RANK]
    rows = rows.assign(attention=named(rows["attention"]))
    means = rows.groupby(["method", "attention", "compared"], sort=False)[["value", "count"]].mean().reset_index()
    return means.sort_values("value", kind="stable").reset_index(drop=True)


@styled
def faithfulness_ranks(table: DataFrame) -> Figure:
    """Draw methods by their average rank, tasks beside each other, and join those that are not told apart."""
    shown = [panel for panel in panels(table) if has_ranks(panel.table)]
    across = min(2, len(shown))
    down = -(-len(shown) // across)
    found = [average_rank_rows(panel.table) for panel in shown]
    height = (_PER_NAME * max(map(len, found)) + 0.75) * down + 0.25
    figure, axes = grid(down, across, width=DOUBLE, height=height)
    for axis, panel, rows in zip(axes.flat, shown, found, strict=False):
        ranks = rows["value"].tolist()
        difference = critical_difference(len(rows), round(rows["count"].mean()))
        colours = [colour_of(kind) for kind in rows["attention"]]
        names = [method_title(name) for name in rows["method"]]
        draw_average_ranks(axis, names, colours, ranks, difference, not_told_apart(ranks, difference))
        axis.set_xlabel(f"average rank, {TITLES[rows['compared'].iloc[0]]} (1 is best)")
        axis.set_ylabel(one_line(panel.title))
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    key(figure, found[0])
    return figure


def against_the_best(table: DataFrame) -> Grid:
    """Return the method of the best average rank less every other: difference, interval, share of draws, Holm's p."""
    rows = []
    for panel in panels(table):
        pairs = panel.table[panel.table["measure"] == DIFFERENCE]
        if not has_ranks(panel.table) or _of_several_runs(pairs):
            continue
        order = average_rank_rows(panel.table)[["attention", "method"]].itertuples(index=False, name=None)
        (best, *others) = order
        rows += [
            [one_line(panel.title), _name(*best), _name(*other), *cells]
            for other in others
            for cells in _cells(pairs, best, other)
        ]
    caption = (
        "The method of the best average rank less every other, on the examples that both have: mean difference with "
        "its 95 % interval, the share of draws with the other sign, and p corrected for all pairs (Holm). The table "
        "on disk has every pair."
    )
    return Grid(caption, ["task", "best", "less", "difference", "95 % interval", "beyond 0", "p"], rows, labels=3)


def found_differences(table: DataFrame) -> list[str]:
    """Say whether methods differ at all, how many pairs do, and which are not told apart from the best."""
    said = []
    for panel in (panel for panel in panels(table) if has_ranks(panel.table)):
        rows = average_rank_rows(panel.table)
        examples, title = round(rows["count"].mean()), TITLES[rows["compared"].iloc[0]]
        pairs = panel.table[panel.table["measure"] == DIFFERENCE]
        apart = f"{int((pairs['p'] < LEVEL).sum())} of {len(pairs)} pairs differ at {LEVEL} (paired bootstrap, Holm)"
        close = rows["value"] - rows["value"].iloc[0] < critical_difference(len(rows), examples)
        sentence = (
            f"on {title}, over {examples} examples, Friedman's test that all methods are alike has p "
            f"{_p(friedman(rows['value'].tolist(), examples))}; {apart}; by average ranks {int(close.sum()) - 1} of "
            f"the {len(rows) - 1} others are within the critical difference of the best, "
            f"{_name(rows['attention'].iloc[0], rows['method'].iloc[0])}."
        )
        said.append(said_of(panel, table, sentence))
    return said


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"= {value:.3f}"


def _of_several_runs(pairs: DataFrame) -> bool:
    return bool(pairs.duplicated(["attention", "method", "other_attention", "other_method"]).any())


def _cells(pairs: DataFrame, best: tuple[str, str], other: tuple[str, str]) -> list[list[str]]:
    """Return the cells of a pair, whichever of the two it begins with; an empty list where it has no row."""
    found = []
    for one, two, sign in ((best, other, 1), (other, best, -1)):
        mine = pairs[
            (named(pairs["attention"]) == one[0])
            & (pairs["method"] == one[1])
            & (named(pairs["other_attention"]) == two[0])
            & (pairs["other_method"] == two[1])
        ]
        for _, row in mine.iterrows():
            ends = sorted((sign * row["low"], sign * row["high"]))
            found.append([number(sign * row["value"]), span(*ends), number(row["beyond"]), number(row["p"])])
    return found


def _name(attention: str, method: str) -> str:
    return method_title(method) if attention in (WITHOUT, NONE) else f"{method_title(method)}, {attention}"
