"""Position or content: all that the report says and shows of ``variability``."""

from __future__ import annotations

from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.heads import Quantity, layered_heads
from effective_attention.reports.drawing.style import styled
from effective_attention.reports.findings import changes, extreme_layers, under_effective
from effective_attention.reports.grid import Grid
from effective_attention.reports.layer_tables import layer_means_grid
from effective_attention.reports.reductions import has_values


@styled
def variability(table: DataFrame) -> Figure:
    """Draw the variability of each head, and the layers' averages."""
    return layered_heads(table, Quantity("variability"))


def variability_grid(table: DataFrame) -> Grid:
    """Make the table of variabilities by layer, and the most variable layer."""
    return layer_means_grid(table, caption="Variability", digits=3, last="most variable")


def found_variability(table: DataFrame) -> list[str]:
    """Say which layer depends most on content, and what effective attention changes."""
    varied = changes(table, lambda rows: float(rows["value"].mean()))
    words = ("depends less on content", "depends as much on content", "depends more on content")
    said = extreme_layers(table, "attention varies most with the text in")
    return said + under_effective("a head", varied, words=words, unit=" (variability)")


CHAPTER = Chapter(
    analysis="variability",
    title="Position or content",
    source="Vig & Belinkov 2019",
    question="Do heads look at positions, or at what stands there?",
    text=(
        "How much a head's weights between the first tokens vary from text to text: half the mean absolute deviation "
        "from their average, relative to the weights. A head that always looks at the same positions has 0; one whose "
        "weights depend on what it reads has more. Weights of effective attention are taken as they are, and by their "
        "size in the denominator. "
        "Attention to the first token, where causal models rest, does not count there (column first_token)."
    ),
    paper_says=(
        "Vig & Belinkov read high variability as attention to content, low as attention to position. Their model is "
        "GPT-2 small (12 layers, 12 heads), a causal language model on Wikipedia; encoders read both ways."
    ),
    found=found_variability,
    figures=(
        Drawing("variability", "Variability by layer and head, and each layer's average.", variability, has_values),
    ),
    tables=(variability_grid,),
)
