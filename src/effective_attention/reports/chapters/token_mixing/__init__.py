"""What a hidden token is made of: all that the report says and shows of ``token_mixing``.

- ``reductions``: from the table to the numbers of boxes.
- ``figures``: the figures.
- ``tables``: the small table.
"""

from __future__ import annotations

from functools import partial

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.chapters.token_mixing.figures import (
    token_mixing,
    token_mixing_cls,
    token_mixing_context,
    token_mixing_tags,
    token_mixing_word,
)
from effective_attention.reports.chapters.token_mixing.findings import found_mixing
from effective_attention.reports.chapters.token_mixing.reductions import has_quantity, has_tags
from effective_attention.reports.chapters.token_mixing.tables import mixing

CHAPTER = Chapter(
    analysis="token_mixing",
    title="What a hidden token is made of",
    source="Brunner et al. 2020, Fig. 3, 4, 18 to 37, 40 to 43",
    question="How much of a hidden vector comes from its own token, and how much from the others?",
    text=(
        "The contribution of an input token to a hidden embedding is the norm of its derivative, as a share of those "
        "of all input tokens. Unless all directions are used, the norm is estimated from random orthonormal "
        "directions; the table states the error. A word of several pieces counts with each of them."
    ),
    paper_says=(
        "Brunner et al. find a median own contribution of 30.6 % after layer 1, 14.4 % after layer 6 and 10.7 % after "
        "layer 12; the own input is always the largest contributor in layers 1 to 3, and is not for 18 % of the "
        "tokens in layer 6 and 30 % in the last two. Context is local, less so in later layers; [CLS] gathers from "
        "around the first [SEP]."
    ),
    found=found_mixing,
    figures=(
        Drawing(
            "token_mixing",
            (
                "Left: contribution of a token's own input (line: median, box: quartiles, whiskers: 1.5 times the "
                "box). Right: share of tokens whose own input is not the largest contributor."
            ),
            token_mixing,
            partial(has_quantity, name="own"),
        ),
        Drawing(
            "token_mixing_context",
            (
                "Left: in which layers a group of neighbours contributes (each group sums to 1). Right: where "
                "contributions come from, without the token itself."
            ),
            token_mixing_context,
            partial(has_quantity, name="neighbour"),
        ),
        Drawing(
            "token_mixing_cls",
            (
                "Where the token that the model answers from gathers from: counted from [CLS] (of a causal model, the "
                "last token; without its own), and from the first [SEP]."
            ),
            token_mixing_cls,
            partial(has_quantity, name="cls"),
        ),
        Drawing(
            "token_mixing_word",
            "All contributions to one chosen token (orange), by layer; colours follow the square root.",
            token_mixing_word,
            partial(has_quantity, name="word"),
        ),
        Drawing(
            "token_mixing_tags",
            "Own contribution by part of speech, ordered by the last layer's median.",
            token_mixing_tags,
            has_tags,
        ),
    ),
    tables=(mixing,),
)
