"""What induces a head: all that the report says and shows of ``exemplars``.

- ``reductions``: from the table to texts whose words have weights.
- ``figures``: the figures.
- ``texts``: the highlighted texts on the page.
"""

from __future__ import annotations

from functools import partial

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.chapters.exemplars.figures import exemplars, exemplars_effective
from effective_attention.reports.chapters.exemplars.findings import found_exemplars
from effective_attention.reports.chapters.exemplars.reductions import has_attention
from effective_attention.reports.chapters.exemplars.texts import highlights

CHAPTER = Chapter(
    analysis="exemplars",
    title="What induces a head",
    source="Vig & Belinkov 2019",
    question="Which texts set a head off?",
    text=(
        "For each head the texts of the split in which one token gives another the largest weight. The boxed word "
        "looks; the stronger a word's colour, the more it is looked at, relative to the strongest word that is no "
        "special token. "
        "Of effective attention the largest positive weight counts; orange is below zero. "
        "Attention to the first token, where causal models rest, does not count there (column first_token)."
    ),
    paper_says=(
        "Vig & Belinkov find heads in the deepest layers that target specific lexical patterns, such as an acronym "
        "and the phrase it stands for, or a comma and the place name before it. Their model is GPT-2 small (12 "
        "layers, 12 heads), a causal language model on Wikipedia; encoders read both ways."
    ),
    found=found_exemplars,
    figures=(
        Drawing(
            "exemplars",
            (
                "For each layer the head with the strongest exemplar: its text, and the weight of its strongest pair. "
                "Of more than two runs the first two; all heads of all runs stand below as text."
            ),
            exemplars,
            partial(has_attention, attention="standard"),
        ),
        Drawing(
            "exemplars_effective",
            "The same for effective attention.",
            exemplars_effective,
            partial(has_attention, attention="effective"),
        ),
    ),
    highlights=highlights,
)
