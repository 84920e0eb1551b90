"""Parts of speech: what the report says and shows of ``pos_attention``."""

from __future__ import annotations

from functools import partial

from effective_attention.reports import report_structure
from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.pos_attention import (
    has_part,
    pos_attention,
    pos_attention_effective,
    pos_attention_from,
)

CHAPTER = Chapter(
    analysis="pos_attention",
    title="Parts of speech",
    source="Vig & Belinkov 2019",
    text=(
        "The share of a head's attention that goes to tokens of each part of speech, and the share that comes from "
        "them; every piece of a word carries the word's tag. The share that even attention would give stands in each "
        "panel's title. Shown are the tags that some head prefers most. Effective attention has negative weights: "
        "they count by their size or as nothing, as the column convention says (absolute or positive)."
    ),
    paper_says=(
        "Vig & Belinkov find heads that target specific parts of speech. Their model is GPT-2 small (12 layers, 12 "
        "heads), a causal language model on Wikipedia; ours reads both ways."
    ),
    figures=(
        Drawing(
            "pos_attention",
            (
                "Standard attention to each tag, by layer and head; beside it the layers' averages, with even attention "
                "dotted. A tag has its own colour scale."
            ),
            pos_attention,
            partial(has_part, direction="to", attention="standard"),
        ),
        Drawing(
            "pos_attention_effective",
            "Effective attention to each tag, on the same scales.",
            pos_attention_effective,
            partial(has_part, direction="to", attention="effective"),
        ),
        Drawing(
            "pos_attention_from",
            "Standard attention from each tag.",
            pos_attention_from,
            partial(has_part, direction="from", attention="standard"),
        ),
    ),
    tables=(report_structure.parts_of_speech,),
)
