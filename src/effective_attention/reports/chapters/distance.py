"""How far attention reaches: what the report says and shows of ``distance``."""

from __future__ import annotations

from functools import partial

from effective_attention.reports import report_structure
from effective_attention.reports.chapter import Chapter, Drawing, Scalars
from effective_attention.reports.figures.structure import distance, distance_depth, has_values
from effective_attention.reports.scalars import layer_means

CHAPTER = Chapter(
    analysis="distance",
    title="How far attention reaches",
    source="Vig & Belinkov 2019",
    text=(
        "The mean distance in tokens between the token that attends and the one attended to, weighted by attention, "
        "over all pairs of the split. [CLS] and [SEP] are left out unless the column special_tokens says otherwise: a "
        "head that rests on them would seem to reach far. Even attention over the same pairs is the measure of what "
        "is far. Effective attention has negative weights: they count by their size or as nothing, as the column "
        "convention says (absolute or positive)."
    ),
    paper_says=(
        "Vig & Belinkov find that the deepest layers capture the longest-range relationships. Their model is GPT-2 "
        "small (12 layers, 12 heads), a causal language model on Wikipedia; ours reads both ways."
    ),
    figures=(
        Drawing(
            "distance",
            "Mean distance by layer and head, and each layer's average; dotted, even attention.",
            distance,
            has_values,
        ),
        Drawing(
            "distance_depth",
            "The same against depth: a dot is a head, a line the layers' average; dotted, even attention.",
            distance_depth,
            has_values,
        ),
    ),
    scalars=Scalars("distance", "tokens", "distance", partial(layer_means, "distance")),
    tables=(report_structure.distance,),
)
