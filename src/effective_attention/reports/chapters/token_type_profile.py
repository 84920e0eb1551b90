"""Attention between types of tokens: what the report says and shows of ``token_type_profile``."""

from __future__ import annotations

from effective_attention.reports import report_identifiability
from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.token_type_profile import (
    has_pairs,
    token_type_profile,
    token_type_profile_pairs,
)

CHAPTER = Chapter(
    analysis="token_type_profile",
    title="Attention between types of tokens",
    source="Brunner et al. 2020, Fig. 1b, 1c, 5",
    text=(
        "Average attention to [CLS], [SEP], periods and commas, and all other tokens, after Clark et al.: summed over "
        "the tokens of the type, averaged over the tokens that attend, then over examples. Effective attention need "
        "not sum to 1."
    ),
    paper_says=(
        "Brunner et al. find that the peak of attention to [SEP] in the middle layers, and that to periods and commas "
        "in the last ones, vanish in effective attention."
    ),
    figures=(
        Drawing(
            "token_type_profile",
            (
                "Attention from all tokens to each type. Dots are heads, lines the mean of a layer, dotted lines what "
                "even attention would give."
            ),
            token_type_profile,
        ),
        Drawing(
            "token_type_profile_pairs",
            "From each type (rows) to each type (columns), standard and effective; dotted, even.",
            token_type_profile_pairs,
            has_pairs,
        ),
    ),
    tables=(report_identifiability.type_profile,),
)
