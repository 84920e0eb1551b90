"""Attention to the delimiters: what the report says and shows of ``delimiters``."""

from __future__ import annotations

from effective_attention.reports import report_tables
from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.delimiters import delimiters, delimiters_cls, delimiters_fitted, delimiters_sep

CHAPTER = Chapter(
    analysis="delimiters",
    title="Attention to the delimiters",
    source="Fig. 5, Fig. 6",
    text=(
        "The weight all other tokens give to [CLS] and to [SEP], by layer and head. Effective attention has no fixed "
        "range; as in the paper it is coloured from the smallest to the largest of all its weights in the task."
    ),
    paper_says="The paper finds that effective attention disregards [SEP] but not [CLS].",
    figures=(
        Drawing(
            "delimiters",
            "Attention to [CLS] and to [SEP] from all other tokens, for each task.",
            delimiters,
            on_page=False,
        ),
        Drawing("delimiters_cls", "Attention to [CLS] from all other tokens (the paper's Fig. 5).", delimiters_cls),
        Drawing("delimiters_sep", "Attention to [SEP] from all other tokens (the paper's Fig. 6).", delimiters_sep),
        Drawing(
            "delimiters_fitted",
            "The same, each attention coloured over the range of the values shown.",
            delimiters_fitted,
        ),
    ),
    tables=(report_tables.delimiters,),
)
