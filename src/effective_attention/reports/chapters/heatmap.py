"""One head, one example: what the report says and shows of ``heatmap``."""

from __future__ import annotations

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.heatmap import heatmap

CHAPTER = Chapter(
    analysis="heatmap",
    title="One head, one example",
    source="Fig. 2, Fig. 7",
    text=(
        "The attention of one head on one text: each row attends to the columns. Standard is the sum of effective and "
        "null; null does not reach the output."
    ),
    figures=(
        Drawing(
            "heatmap", "Standard, effective and null attention; orange in effective attention is below zero.", heatmap
        ),
    ),
)
