"""How broadly attention is spread: all that the report says and shows of ``entropy``."""

from __future__ import annotations

from functools import partial

from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.heads import Quantity, layered_heads
from effective_attention.reports.drawing.style import styled
from effective_attention.reports.findings import changes, extreme_layers, under_effective
from effective_attention.reports.grid import Grid
from effective_attention.reports.layer_tables import layer_means_grid
from effective_attention.reports.reductions import has_values


def has_statistic(table: DataFrame, *, name: str) -> bool:
    """Tell whether the table has values of this statistic."""
    return has_values(table[table["statistic"] == name])


@styled
def entropy(table: DataFrame) -> Figure:
    """Draw the entropy of each head in nats, and the layers' averages."""
    return layered_heads(table[table["statistic"] == "entropy"], Quantity("entropy (nats)"))


@styled
def entropy_relative(table: DataFrame) -> Figure:
    """Draw the entropy of each head as a share of the largest possible, and the layers' averages."""
    return layered_heads(table[table["statistic"] == "relative"], Quantity("entropy / largest possible", 1.0))


def entropy_grid(table: DataFrame) -> Grid:
    """Make the table of entropies in nats by layer, and the most focused layer."""
    rows = table[table["statistic"] == "entropy"]
    return layer_means_grid(rows, caption="Entropy in nats", digits=2, last="most focused", largest=False)


def relative_entropy_grid(table: DataFrame) -> Grid:
    """Make the table of entropies as a share of the largest possible by layer, and the most focused layer."""
    rows = table[table["statistic"] == "relative"]
    caption = "Entropy as a share of the largest possible"
    return layer_means_grid(rows, caption=caption, digits=3, last="most focused", largest=False)


def found_entropy(table: DataFrame) -> list[str]:
    """Say which layer is most focused, and what effective attention changes."""
    rows = table[table["statistic"] == "relative"]
    broad = changes(rows, lambda part: float(part["value"].mean()))
    words = ("is more focused", "is spread as broadly", "is spread more broadly")
    said = extreme_layers(rows, "attention is most focused in", largest=False)
    return said + under_effective("a token's attention", broad, words=words, unit=" of the largest possible entropy")


CHAPTER = Chapter(
    analysis="entropy",
    title="How broadly attention is spread",
    source="Vig & Belinkov 2019",
    question="Is attention spread over many tokens or focused on few?",
    text=(
        "The entropy of a token's attention in nats, averaged over the tokens of the split: 0 if all weight is on one "
        "token. A long text allows for more, so the relative entropy divides by the largest that the row could have: "
        "1 is even attention. Effective attention has negative weights: they count by their size or as nothing, as "
        "the column convention says (absolute or positive). "
        "Attention to the first token, where causal models rest, does not count there (column first_token)."
    ),
    paper_says=(
        "Vig & Belinkov ask whether a head's attention is dispersed or focused, and show it by layer and head. Their "
        "model is GPT-2 small (12 layers, 12 heads), a causal language model on Wikipedia; encoders read both ways."
    ),
    found=found_entropy,
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
        entropy_grid,
        relative_entropy_grid,
    ),
)
