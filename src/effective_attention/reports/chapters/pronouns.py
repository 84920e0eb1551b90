"""A masked pronoun: what the report says and shows of ``pronouns``."""

from __future__ import annotations

from effective_attention.reports import report_explanations
from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.pronouns import pronouns

CHAPTER = Chapter(
    analysis="pronouns",
    title="A masked pronoun",
    source="Abnar & Zuidema 2020, Fig. 4",
    text=(
        "A masked language model fills a gap in a sentence. Which word does it expect there, and which of the words "
        "that the gap may refer to does [MASK] look at? Attention to a word of several pieces is their sum."
    ),
    paper_says=(
        "Abnar & Zuidema find that flow agrees with the model's choice in both of their examples, raw attention in "
        "neither."
    ),
    figures=(
        Drawing(
            "pronouns",
            (
                "Left: probability of the candidates relative to each other (in brackets, as they are). Right: what each "
                "referent gets of the attention [MASK] gives to all of them, by layer; dashed, an even share."
            ),
            pronouns,
        ),
    ),
    tables=(
        report_explanations.candidates,
        report_explanations.referents,
    ),
)
