"""Evaluation time: what the report says and shows of ``timing``."""

from __future__ import annotations

from effective_attention.reports import report_tables
from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.timing import timing

CHAPTER = Chapter(
    analysis="timing",
    title="Evaluation time",
    source="Table 3",
    text=("How long evaluation takes with effective attention, relative to standard attention on the same machine."),
    paper_says="The paper's times are BERT-base's on one GPU, with a full singular value decomposition per head.",
    figures=(
        Drawing(
            "timing",
            "Evaluation time relative to standard attention (dashed), beside the ratio of the paper's times.",
            timing,
        ),
    ),
    tables=(report_tables.timing,),
)
