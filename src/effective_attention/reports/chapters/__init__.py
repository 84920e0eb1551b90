"""The chapters of the report, one module for each table, in the order of the page."""

from __future__ import annotations

from effective_attention.reports.chapter import Chapter
from effective_attention.reports.chapters import (
    alternative_attention,
    attention_graph,
    delimiters,
    dependency_alignment,
    distance,
    entropy,
    exemplars,
    explain,
    explorer,
    faithfulness,
    finetuning_shift,
    head_ablation,
    heatmap,
    identified,
    null_space,
    number_flip,
    patterns,
    pos_attention,
    predictions,
    pronouns,
    protocols,
    sinks,
    timing,
    token_identity,
    token_mixing,
    token_type_profile,
    token_types,
    variability,
)

TESTED: tuple[Chapter, ...] = (predictions.CHAPTER,)
"""The chapters of tables that testing writes: they belong to no analysis, so they have no config and no schema."""

CHAPTERS: tuple[Chapter, ...] = (
    timing.CHAPTER,
    patterns.CHAPTER,
    token_types.CHAPTER,
    delimiters.CHAPTER,
    finetuning_shift.CHAPTER,
    null_space.CHAPTER,
    sinks.CHAPTER,
    head_ablation.CHAPTER,
    explain.CHAPTER,
    heatmap.CHAPTER,
    faithfulness.CHAPTER,
    protocols.CHAPTER,
    attention_graph.CHAPTER,
    number_flip.CHAPTER,
    pronouns.CHAPTER,
    alternative_attention.CHAPTER,
    identified.CHAPTER,
    token_type_profile.CHAPTER,
    token_identity.CHAPTER,
    token_mixing.CHAPTER,
    distance.CHAPTER,
    entropy.CHAPTER,
    variability.CHAPTER,
    pos_attention.CHAPTER,
    dependency_alignment.CHAPTER,
    exemplars.CHAPTER,
    explorer.CHAPTER,
)
"""The chapters of our analyses."""

_OF_USERS: dict[str, Chapter] = {}


def register(chapter: Chapter) -> None:
    """Add the chapter of a user's own analysis, behind ours; it takes the place of an earlier one of the same analysis.

    Raises:
        ValueError: The analysis, or the table, is one of ours.
    """
    if any(chapter.analysis == ours.analysis for ours in (*TESTED, *CHAPTERS)):
        raise ValueError(f"{chapter.analysis!r} is an analysis of effective-attention; give yours another name")
    _OF_USERS[chapter.analysis] = chapter


def all_chapters() -> tuple[Chapter, ...]:
    """Return the chapters of what testing wrote, those of our analyses, then those that users have registered."""
    return (*TESTED, *CHAPTERS, *_OF_USERS.values())
