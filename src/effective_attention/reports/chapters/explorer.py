"""The interactive page: what the report says of ``explorer``; the page lies beside the report, which links it."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapter import Chapter
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.paths import without_folders
from effective_attention.reports.reductions import one_line, panels, shortened


def shown(table: DataFrame) -> Grid:
    """List what each page shows: model and text of each side, and what the model predicts."""
    rows = []
    for panel in panels(table):
        for side in panel.table.itertuples():
            name = side.name or "shown"
            label = "" if side.label is None else str(side.label)
            rows.append(
                [
                    one_line(panel.title),
                    shortened(without_folders(name), 60),
                    str(side.tokens),
                    label,
                    number(side.value),
                ]
            )
    return Grid("What the page shows.", ["task", "side", "tokens", "prediction", "value"], rows, labels=2)


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
        "attention."
    ),
    found=found_page,
    needs_head=True,
    tables=(shown,),
)
