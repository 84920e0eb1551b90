"""Heads made even: what the report says and shows of ``head_ablation``."""

from __future__ import annotations

from effective_attention.reports import report_tables
from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.head_ablation import head_ablation

CHAPTER = Chapter(
    analysis="head_ablation",
    title="Heads made even",
    source="after Kovaleva et al. 2019",
    text=(
        "The task's score when one head, or a whole layer, attends evenly to all tokens: below zero, the head was "
        "needed."
    ),
    figures=(
        Drawing(
            "head_ablation",
            ("Change of the score with one head made even, by layer and head; the last column is the whole layer."),
            head_ablation,
        ),
    ),
    tables=(report_tables.head_ablation,),
)
