"""Draw the README's picture: one head's attention on one text, and the part of it that reaches the output.

    python scripts/front_picture.py      # writes docs/sink.png and docs/sink-dark.png

The model is the embedded one as it comes, so that anybody can draw it again within seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from effective_attention import trace
from effective_attention.models.encoders import embedded_folder

FOLDER = Path(__file__).resolve().parents[1] / "docs"
TEXT = (
    "The keeper of the old lighthouse had not spoken to anyone for weeks, so when a small boat came in with the tide "
    "he ran down to the harbour and waved until the fishermen saw him."
)
LAYER, HEAD = 1, 11


@dataclass(frozen=True)
class Theme:
    """The colours of one of the two pictures: what is zero has the colour of the page around it."""

    file: str
    page: str
    ink: str
    above: str
    below: str

    def scale(self) -> LinearSegmentedColormap:
        """Return the colours from the most negative weight through zero to the largest."""
        return LinearSegmentedColormap.from_list(self.file, [self.below, self.page, self.above])


THEMES = (
    Theme("sink.png", "#ffffff", "#1f2328", "#08519c", "#d94801"),
    Theme("sink-dark.png", "#0d1117", "#e6edf3", "#79c0ff", "#ff9b50"),
)


def look() -> tuple[list[str], Tensor, Tensor]:
    """Run the model on the text; return its tokens and the head's attention, standard and effective."""
    tokenizer = AutoTokenizer.from_pretrained(embedded_folder())
    model = AutoModel.from_pretrained(embedded_folder()).eval()
    batch = tokenizer(TEXT, return_tensors="pt")
    layer = trace(model, batch).layers[LAYER]
    standard, effective = (layer.part(name)[0, HEAD] for name in ("standard", "effective"))
    return tokenizer.convert_ids_to_tokens(batch["input_ids"][0]), standard, effective


def draw(theme: Theme, tokens: list[str], standard: Tensor, effective: Tensor) -> Figure:
    """Draw both maps on one scale of colours."""
    figure = Figure(figsize=(10, 5.5), layout="constrained", facecolor=theme.page)
    figure.get_layout_engine().set(wspace=0.04)  # type: ignore[union-attr]
    left, right = figure.subplots(1, 2)
    panel(left, theme, tokens, standard, "What the head attends to")
    panel(right, theme, tokens, effective, "What of it reaches the output")
    left.set_yticks(range(len(tokens)), tokens)
    bar = figure.colorbar(right.images[0], ax=(left, right), shrink=0.7, pad=0.01, aspect=40)
    bar.ax.tick_params(colors=theme.ink, labelsize=8, length=0)
    bar.outline.set_visible(False)
    return figure


def panel(axes: Axes, theme: Theme, tokens: list[str], weights: Tensor, title: str) -> None:
    """Draw one map, query by key, and say how much of each query's weight the first token has on average."""
    axes.imshow(weights.numpy(), cmap=theme.scale(), vmin=-1, vmax=1, interpolation="nearest")
    share = float(weights[:, 0].mean())
    axes.set_title(f"{title}\n{share:.0%} on {tokens[0]}", color=theme.ink, fontsize=13, loc="left", pad=8)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90)
    axes.set_yticks([])
    axes.xaxis.tick_bottom()
    axes.set_facecolor(theme.page)
    axes.tick_params(colors=theme.ink, labelsize=7.2, length=0, pad=1.5)
    for spine in axes.spines.values():
        spine.set_color(theme.ink)
        spine.set_linewidth(0.4)


def main() -> None:
    """Write the picture for light and for dark pages."""
    torch.manual_seed(0)
    tokens, standard, effective = look()
    for theme in THEMES:
        figure = draw(theme, tokens, standard, effective)
        FigureCanvasAgg(figure)
        figure.savefig(FOLDER / theme.file, dpi=150, metadata={"Software": None})
    print(f"{len(tokens)} tokens; on {tokens[0]}: {standard[:, 0].mean():.3f}, effective {effective[:, 0].mean():.3f}")
    print(f"effective: {effective.min():.2f} to {effective.max():.2f}")


if __name__ == "__main__":
    main()
