"""How broadly attention is spread: what the report says and shows of ``entropy``."""

from __future__ import annotations

from functools import partial

from effective_attention.reports import report_structure
from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.structure import entropy, entropy_relative, has_statistic

CHAPTER = Chapter(
    analysis="entropy",
    title="How broadly attention is spread",
    source="Vig & Belinkov 2019",
    text=(
        "The entropy of a token's attention in nats, averaged over the tokens of the split: 0 if all weight is on one "
        "token. A long text allows for more, so the relative entropy divides by the largest that the row could have: "
        "1 is even attention. Effective attention has negative weights: they count by their size or as nothing, as "
        "the column convention says (absolute or positive)."
    ),
    paper_says=(
        "Vig & Belinkov ask whether a head's attention is dispersed or focused, and show it by layer and head. Their "
        "model is GPT-2 small (12 layers, 12 heads), a causal language model on Wikipedia; ours reads both ways."
    ),
    figures=(
        Drawing(
            "entropy",
            "Entropy by layer and head, and each layer's average.",
            entropy,
            partial(has_statistic, name="entropy"),
        ),
        Drawing(
            "entropy_relative",
            "The same as a share of the largest possible entropy.",
            entropy_relative,
            partial(has_statistic, name="relative"),
        ),
    ),
    tables=(
        report_structure.entropy,
        report_structure.relative_entropy,
    ),
)
