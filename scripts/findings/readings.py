"""What do the readings of effective attention leave? Two numbers for each, on the embedded MiniLM and GLUE's dev files.

For each space and tolerance: the null part's share of attention, ``||A_null|| / ||A||``, and the mean weight on [CLS],
mean over heads, layers and texts, with a 95 % bootstrap interval over texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from page import Numbers, Page, Place, interval, markdown, with_ends
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from effective_attention import decompose
from effective_attention.attention.trace import Trace, trace
from effective_attention.models.encoders import embedded_folder
from effective_attention.progress import progress

READINGS = [(space, epsilon) for space in ("value", "affine") for epsilon in (0.0, 0.01, 0.05, 0.1, 0.2)]
PARTS = {"mrpc": ("MRPC", (3, 4)), "sst2": ("SST-2", (0,))}  # folder of the dev file, columns of its text
TEXTS = 40


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


def measure(part: str, place: Place) -> Numbers:
    """Split the attention of the first texts in every reading."""
    name, columns = PARTS[part]
    lines = (place.folder("glue") / name / "dev.tsv").read_text(encoding="utf-8-sig").splitlines()[1 : TEXTS + 1]
    folder = embedded_folder()
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    found = []
    for line in progress(lines, "readings", "texts"):
        cells = line.split("\t")
        found.append(measured(trace(model, tokenizer(*(cells[column] for column in columns), return_tensors="pt"))))
    values = torch.stack(found)  # (text, reading, number)
    every = with_ends(values).tolist()  # reading, number, (mean, low, high)
    return {
        "texts": len(found),
        "readings": {f"{space} {epsilon:g}": row for (space, epsilon), row in zip(READINGS, every, strict=True)},
    }


def tables(numbers: Mapping[str, Numbers]) -> dict[str, str]:
    """Write what each reading leaves."""
    tasks = {part: PARTS[part][0] for part in numbers}
    header = [
        "",
        *(f"{task}: {what}" for task in tasks.values() for what in ("null part / attention", "weight on [CLS]")),
    ]
    before = ["attention itself"]
    for part in tasks:
        before += ["", interval(*numbers[part]["readings"]["value 0"][2])]
    rows = [before]
    for space, epsilon in READINGS:
        row = [space if epsilon == 0 else f"{space} within {epsilon:g}"]
        for part in tasks:
            row += [interval(*one) for one in numbers[part]["readings"][f"{space} {epsilon:g}"][:2]]
        rows.append(row)
    return {"readings": markdown(header, rows)}


PAGE = Page("readings", tuple(PARTS), measure, tables, page="readings.md")
