"""Attention along dependencies: all that the report says and shows of ``dependency_alignment``.

- ``reductions``: the best head of each relation, and what fixed rules reach.
- ``figures``: the figures.
- ``tables``: the small tables.
"""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing, Scalars
from effective_attention.reports.chapters.dependency_alignment.figures import (
    dependency_alignment,
    dependency_alignment_relations,
)
from effective_attention.reports.chapters.dependency_alignment.findings import found_alignment
from effective_attention.reports.chapters.dependency_alignment.reductions import aligned, has_alignment, has_relations
from effective_attention.reports.chapters.dependency_alignment.tables import (
    alignment_and_distance,
    alignment_grid,
    relations_grid,
)
from effective_attention.reports.scalars import layer_means


def alignment_scalars(table: DataFrame) -> dict[str, float]:
    """Follow the share of attention between related words of any relation, either way."""
    return layer_means("alignment", aligned(table))


CHAPTER = Chapter(
    analysis="dependency_alignment",
    title="Attention along dependencies",
    source="Vig & Belinkov 2019",
    question="Does attention follow grammar: does a word look at its head?",
    text=(
        "The share of attention between words that connects two words in a dependency relation, whichever way. "
        "Attention between words is that between their pieces: summed over the pieces looked at, averaged over those "
        "that look. For each relation, how often the partner is the word with the largest weight (hits), by "
        "direction. Three fixed rules say what a share is worth: all weight on the previous word, on the next, or "
        "even; in a causal model there is no next word to look at. The best head of each relation, and the best fixed "
        "place up to four words away, are chosen on one half of the texts and measured on the other (column "
        "sentences). Effective attention has negative weights: they "
        "count by their size or as nothing, as the column convention says (absolute or positive). "
        "Attention to the first token, where causal models rest, does not count there (column first_token)."
    ),
    paper_says=(
        "Vig & Belinkov find that attention aligns with dependencies most strongly in the middle layers, and that "
        "this alignment is inversely correlated with distance. Their model is GPT-2 small (12 layers, 12 heads), a "
        "causal language model on Wikipedia; encoders read both ways."
    ),
    found=found_alignment,
    figures=(
        Drawing(
            "dependency_alignment",
            (
                "Share of attention between related words by layer and head, and each layer's average; upright lines, "
                "what the fixed rules reach."
            ),
            dependency_alignment,
            has_alignment,
        ),
        Drawing(
            "dependency_alignment_relations",
            (
                "For each relation how often the best head finds the partner, chosen on one half of the texts and "
                "measured on the other; at the right, that head (L2 H10: layer 2, head 10; standard / effective); "
                "upright line and order: the best fixed rule of its direction, chosen and measured alike, and the gain."
            ),
            dependency_alignment_relations,
            has_relations,
        ),
    ),
    scalars=Scalars("attention between related words", "share", "alignment", alignment_scalars),
    tables=(
        alignment_grid,
        relations_grid,
    ),
    across=alignment_and_distance,
)
