"""The interactive page: what the report says of ``explorer``; the page lies beside the report, which links it."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapter import Chapter
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.paths import without_folders
from effective_attention.reports.reductions import one_line, panels, shortened


def shown(table: DataFrame) -> Grid:
    """List what each page shows: model and text of each side, what is gold and what the model predicts."""
    rows = []
    for panel in panels(table):
        title = one_line(panel.title)
        many = "example" in panel.table and panel.table["example"].nunique() > 1  # a table of an older run has none
        rows += [_counted(title, panel.table)] if many else [_side(title, side) for side in panel.table.itertuples()]
    headings = ["task", "side", "tokens", "gold", "prediction", "value"]
    return Grid("What the page shows.", headings, rows, labels=2)


def _side(title: str, side: object) -> list[str]:
    """Say what one side shows, and one of its answers."""
    facts = [getattr(side, name, None) for name in ("name", "gold", "label")]
    name, gold, label = ("" if fact is None else str(fact) for fact in facts)
    shown_name = shortened(without_folders(name) or "shown", 60)
    return [title, shown_name, str(getattr(side, "tokens", "")), gold, label, number(getattr(side, "value", None))]


def _counted(title: str, table: DataFrame) -> list[str]:
    """Say of many pages how many there are, and of how many the most probable label is the gold one."""
    examples = table[table["side"] == 0]
    sizes = f"{examples['tokens'].min()} to {examples['tokens'].max()}"
    answered = examples.dropna(subset=["value"])
    best = answered.loc[answered.groupby("example")["value"].idxmax()]
    judged = best[best["label"].ne("score") & best["gold"].fillna("").ne("")]
    right = (judged["label"] == judged["gold"]).mean()
    pages = f"{examples['example'].nunique()} examples, a page each"
    return [title, pages, sizes, "", "share that is right", number(right) if len(judged) else ""]


def found_page(table: DataFrame) -> list[str]:
    """Say what the model answers on each side of the page."""
    sides = [side for side in table.itertuples() if side.label]
    return [
        f"{without_folders(side.name) or 'The text shown'}: the answer is “{side.label}” ({number(side.value)})."
        for side in sides
    ]


CHAPTER = Chapter(
    analysis="explorer",
    title="One text to explore",
    source="Vig 2019",
    question="What does every head do on one text?",
    text=(
        "An interactive page, linked above, shows every layer and head on one text: standard, effective and null "
        "attention. With many examples the link leads to a list of their pages."
    ),
    found=found_page,
    needs_head=True,
    tables=(shown,),
)
