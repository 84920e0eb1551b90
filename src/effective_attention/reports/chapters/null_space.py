"""The null space, and what padding adds to it: what the report says and shows of ``null_space``."""

from __future__ import annotations

from effective_attention.reports import report_identifiability, report_tables
from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.null_space import null_space

CHAPTER = Chapter(
    analysis="null_space",
    title="The null space, and what padding adds to it",
    source="ours; Brunner et al. Fig. 1a",
    text=(
        "The part of attention that the values cancel. Read exactly, it is empty unless a text has more tokens than a "
        "head has value dimensions. The published protocol pads every text first, which enlarges the null space: the "
        "last panel separates the two."
    ),
    paper_says="Brunner et al. find a correlation of 1 up to the head's width, and then a fall.",
    figures=(
        Drawing(
            "null_space",
            (
                "Left: correlation of attention and effective attention by length. Middle: share of attention in the null "
                "space by layer. Right: that share read exactly and padded, on the same examples, and how much of the "
                "latter is due to padding."
            ),
            null_space,
        ),
    ),
    tables=(
        report_tables.null_space,
        report_identifiability.projected,
    ),
)
