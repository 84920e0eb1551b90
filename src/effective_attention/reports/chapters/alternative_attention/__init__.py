"""Another attention, the same output: what the report says and shows of ``alternative_attention``."""

from __future__ import annotations

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.chapters.alternative_attention.figures import (
    alternative_attention,
    alternative_attention_heads,
)
from effective_attention.reports.chapters.alternative_attention.findings import found_alternatives
from effective_attention.reports.chapters.alternative_attention.reductions import has_all_heads
from effective_attention.reports.chapters.alternative_attention.tables import (
    alternative_layers,
    alternative_logits,
    alternatives,
)

CHAPTER = Chapter(
    analysis="alternative_attention",
    title="Another attention, the same output",
    source="Brunner et al. 2020, §3.3",
    question="How much of a head's attention could be something else with the same output?",
    text=(
        "Where a text has more tokens than a head has value dimensions (and one), a row of attention can be exchanged "
        "for another one that is still a distribution and gives the same output. Two ways lead away from the head's "
        "own: the paper's largest step along a direction of the null space, and linear programs that look for the "
        "distribution furthest away. Distance is the share of a token's attention that is moved. The model is then "
        "run with the other map in place; as much weight moved to a random token shows what a map with another output "
        "does."
    ),
    paper_says=(
        "Brunner et al. prove that such maps exist as soon as the null space of [T, 1] is not empty, and say how to "
        "make one; they show none."
    ),
    found=found_alternatives,
    needs_head=True,
    figures=(
        Drawing(
            "alternative_attention",
            (
                "A head's own attention, another one with the same output, and their difference. Below, how much of "
                "each token's attention can be moved: found, by the paper's step, and the bound."
            ),
            alternative_attention,
        ),
        Drawing(
            "alternative_attention_heads",
            "How much can be moved in each head, mean over queries.",
            alternative_attention_heads,
            has_all_heads,
        ),
    ),
    tables=(alternatives, alternative_logits, alternative_layers),
)
