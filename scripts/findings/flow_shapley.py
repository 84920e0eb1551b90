"""Is attention flow a Shapley value? Every set of tokens of a hundred short texts, tried one by one.

A part is a depth: the flow from [CLS] after so many of MiniLM's layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from page import Numbers, Page, Place, interval, markdown, with_ends
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from effective_attention.attention.trace import trace
from effective_attention.attributions.ranking import spearman
from effective_attention.graphs.conventions import trace_graph
from effective_attention.graphs.flow import attention_flow
from effective_attention.graphs.rollout import attention_rollout
from effective_attention.graphs.shapley import coalition_flows, maximum_flow_range, shapley_values
from effective_attention.models.embedded import embedded_folder
from effective_attention.progress import progress

DEPTHS = {"1": 1, "2": 2, "3": 3, "6": 6}
TEXTS, FEWEST, MOST = 100, 6, 10  # so many texts, of so many tokens with [CLS] and [SEP]
SAME = 1e-9
QUANTITIES = {
    "same": "texts where they are equal (1e-9)",
    "most above": "flow above Shapley value, largest of a text",
    "total": "flows of a text, sum (Shapley values: 1)",
    "normalised": "flow divided by that sum beside Shapley value, largest difference",
    "rank": "rank correlation",
    "first": "texts with the same first token",
    "width": "share of a token in maximum flows, from least to most, widest of a text",
    "rollout": "rollout beside Shapley value, largest difference",
}


def sentences(file: Path) -> Iterator[str]:
    """Yield the sentences of a treebank's file."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("# text = "):
            yield line.removeprefix("# text = ")


def graphs(file: Path, depth: int) -> Iterator[Tensor]:
    """Yield the attention graphs of the first texts that are short enough, heads averaged."""
    folder = embedded_folder()
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    encoded = (tokenizer(text, return_tensors="pt") for text in sentences(file))
    short = (inputs for inputs in encoded if FEWEST <= inputs["input_ids"].shape[1] <= MOST)
    for inputs in islice(short, TEXTS):
        yield trace_graph(trace(model, inputs), "standard")[0, :depth]


def compared(graph: Tensor) -> list[float]:
    """Return the quantities of one text, in their order."""
    worth = coalition_flows(graph, row=0)
    values, (least, most) = shapley_values(worth), maximum_flow_range(worth)
    flow, rollout = attention_flow(graph)[-1, 0], attention_rollout(graph)[-1, 0]
    return [
        float((flow - values).abs().max() <= SAME),
        (flow - values).abs().max().item(),
        flow.sum().item(),
        (flow / flow.sum() - values).abs().max().item(),
        spearman(flow, values, torch.ones(len(flow), dtype=torch.bool)).item(),
        float(flow.argmax() == values.argmax()),
        (most - least).max().item(),
        (rollout - values).abs().max().item(),
    ]


def measure(part: str, place: Place) -> Numbers:
    """Compare flow and Shapley values after so many layers."""
    file = place.folder("treebank") / "en_ewt-ud-dev.conllu"
    found = [compared(graph) for graph in progress(graphs(file, DEPTHS[part]), "flow", "texts", total=TEXTS)]
    rows = torch.tensor(found, dtype=torch.float64)
    ends = dict(zip(QUANTITIES, with_ends(rows).tolist(), strict=True))
    return {"texts": len(rows), "largest": rows[:, 1].max().item(), **ends}


def tables(numbers: Mapping[str, Numbers]) -> dict[str, str]:
    """Write how far the two are from each other, by depth."""
    about: Mapping[str, Any] = numbers
    rows = [[said, *(interval(*found[name]) for found in about.values())] for name, said in QUANTITIES.items()]
    rows.append(["largest difference of all texts", *(f"{found['largest']:.1e}" for found in about.values())])
    return {"compared": markdown(["mean over texts", *(_title(part) for part in numbers)], rows)}


def _title(part: str) -> str:
    return "one layer" if part == "1" else f"{part} layers"


PAGE = Page("flow-shapley", tuple(DEPTHS), measure, tables)
