"""What do the readings of effective attention leave? Two numbers for each, on the embedded MiniLM and texts of a file.

    python scripts/findings/readings.py path/to/glue/MRPC/dev.tsv --columns 3 4 --texts 40
    python scripts/findings/readings.py path/to/glue/SST-2/dev.tsv --columns 0 --texts 40

For each space and tolerance: the null part's share of attention, ``||A_null|| / ||A||``, and the mean weight on [CLS],
mean over heads, layers and texts, with a 95 % bootstrap interval over texts.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from effective_attention import decompose
from effective_attention.attention.trace import Trace, trace
from effective_attention.attributions.ranking import bootstrap
from effective_attention.models.encoders import embedded_folder
from effective_attention.progress import progress

READINGS = [(space, epsilon) for space in ("value", "affine") for epsilon in (0.0, 0.01, 0.05, 0.1, 0.2)]


def measured(seen: Trace) -> Tensor:
    """Return (reading, 2), and the weight on [CLS] before, for one text."""
    found = torch.zeros(len(READINGS), 3, dtype=torch.float64)
    for layer in seen.layers:
        for place, (space, epsilon) in enumerate(READINGS):
            options: Any = {"space": space, "epsilon": epsilon}
            parts = decompose(layer.attention, layer.value, layer.visible, **options)
            share = parts.null.norm(dim=(-2, -1)) / parts.attention.norm(dim=(-2, -1))
            weights = parts.effective[..., 0].mean(), parts.attention[..., 0].mean()
            found[place] += torch.stack([share.mean(), *weights]) / len(seen.layers)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a TSV file with a header")
    parser.add_argument("--columns", type=int, nargs="+", required=True, help="of the text, or of both, counted from 0")
    parser.add_argument("--texts", type=int, default=40)
    options = parser.parse_args()
    lines = options.file.read_text(encoding="utf-8-sig").splitlines()[1 : options.texts + 1]
    folder = embedded_folder()
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    found = []
    for line in progress(lines, "readings", "texts"):
        cells = line.split("\t")
        found.append(
            measured(trace(model, tokenizer(*(cells[place] for place in options.columns), return_tensors="pt")))
        )
    values = torch.stack(found)  # (text, reading, number)
    low, high = (end.view(len(READINGS), 3) for end in bootstrap(values.flatten(1), seed=0))
    print("space | epsilon | null part / attention | weight on [CLS] | before")
    print("---|---|---|---|---")
    for place, (space, epsilon) in enumerate(READINGS):
        cells = [f"{values[:, place, n].mean():.3f} ({low[place, n]:.3f} to {high[place, n]:.3f})" for n in range(3)]
        print(" | ".join([space, f"{epsilon:g}", *cells]))


if __name__ == "__main__":
    main()
