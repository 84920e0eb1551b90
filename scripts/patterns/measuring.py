"""Read the labelled maps, and measure what a net says of those that are held out."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load
from torch import Tensor, nn

from effective_attention.io import write_text
from effective_attention.models.pattern_net import PATTERNS, PatternNet
from effective_attention.models.pattern_shares import corrected_shares, rates_of

HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "src" / "effective_attention" / "models"
LOTS = ("", "_real", "_fresh")
MODEL_NAMES = ("minilm", "mpnet_base", "smollm2")


@dataclass(frozen=True)
class Maps:
    image: Tensor  # (map, 1, size, size)
    length: Tensor  # in tokens
    label: Tensor
    group: Tensor
    held_out: Tensor
    random: Tensor  # drawn at random, not because it was likely of a rare class
    lot: Tensor  # 1: the sample, 2: real texts, 3: fresh texts
    model: Tensor  # number in MODEL_NAMES
    effective: Tensor

    def __getitem__(self, index: Tensor) -> Maps:
        return Maps(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.label)


def read_table(name: str, lots: tuple[str, ...] = LOTS) -> dict[str, dict[str, str]]:
    """Read a table of all lots, by the maps' ids."""
    rows = {}
    for lot in lots:
        with (HERE / f"{name}{lot}.csv").open() as file:
            rows |= {row["id"]: row for row in csv.DictReader(file)}
    return rows


def read_maps() -> Maps:
    names: list[str] = []
    lots: list[int] = []
    images = []
    for number, lot in enumerate(LOTS, start=1):
        with np.load(HERE / f"maps{lot}.npz") as arrays:
            names += arrays["id"].tolist()
            lots += [number] * len(arrays["id"])
            images.append(torch.from_numpy(arrays["image"]).float()[:, None] / 255)
    sources, labels = read_table("maps"), read_table("labels")
    rows = [sources[name] | labels[name] for name in names]
    return Maps(
        torch.cat(images),
        torch.tensor([int(row["length"]) for row in rows]),
        torch.tensor([PATTERNS.index(row["label"]) for row in rows]),
        torch.tensor([int(row["group"]) for row in rows]),
        torch.tensor([row["split"] == "held-out" for row in rows]),
        torch.tensor([row["drawn"] in ("random", "cell") for row in rows]),
        torch.tensor(lots),
        torch.tensor([MODEL_NAMES.index(row["model"]) for row in rows]),
        torch.tensor([row["attention"] == "effective" for row in rows]),
    )


def read_net(weights: Path) -> PatternNet:
    net = PatternNet()
    net.load_state_dict(load(weights.read_bytes()))
    return net.eval()


# --- measuring ---


@torch.no_grad()
def predict(net: nn.Module, maps: Maps) -> Tensor:
    parts = zip(maps.image.split(128), maps.length.split(128), strict=True)
    return torch.cat([net(*part).argmax(dim=-1) for part in parts])


def confusion(label: Tensor, found: Tensor, which: Tensor | None = None) -> Tensor:
    """Count maps by what was annotated (rows) and what the net says (columns); ``which``: only these maps."""
    if which is not None:
        label, found = label[which], found[which]
    return torch.bincount(label * len(PATTERNS) + found, minlength=len(PATTERNS) ** 2).view(-1, len(PATTERNS))


def f1(matrix: Tensor) -> Tensor:
    """Return the F1 score of each class; any number of matrices."""
    return 2 * matrix.diagonal(dim1=-2, dim2=-1) / (matrix.sum(-2) + matrix.sum(-1)).clamp_min(1)


def report(net: PatternNet, maps: Maps) -> None:
    """Write what the held-out maps say into pattern_net.json."""
    held_out = maps[maps.held_out]
    found = predict(net, held_out)
    matrix = confusion(held_out.label, found)
    parts = parts_of(held_out)
    write_facts(
        {
            "patterns": list(PATTERNS),
            "macro_f1": round(float(f1(matrix).mean()), 4),
            "f1": {name: round(float(score), 4) for name, score in zip(PATTERNS, f1(matrix), strict=True)},
            "accuracy": round(float((found == held_out.label).float().mean()), 4),
            "confusion": matrix.tolist(),
            "confusion_drawn_at_random": confusion(held_out.label, found, held_out.random).tolist(),
            "confusion_reads": "rows: annotated, columns: predicted, in the order of patterns",
            "maps": len(maps),
            "maps_held_out": len(held_out),
            "maps_of_class": {name: int((maps.label == number).sum()) for number, name in enumerate(PATTERNS)},
            "parts": {name: measure(held_out[mine], found[mine]) for name, mine in parts.items()},
            "parts_read": "held-out maps; intervals: 95 %, texts drawn again; macro-F1 over the classes that are there",
            "agreement": agreement(),
        }
    )
    show(matrix)


def print_parts(maps: Maps, net: PatternNet) -> None:
    found = predict(net, maps)
    for name, mine in parts_of(maps).items():
        print(name, measure(maps[mine], found[mine]))


def parts_of(maps: Maps) -> dict[str, Tensor]:
    """Name parts of the maps by where they come from."""
    everything, fresh = maps.label >= 0, maps.lot == 3
    parts = {"sample texts": maps.lot == 1, "real texts": maps.lot == 2, "fresh texts": fresh}
    parts["earlier texts, under 30 tokens"] = ~fresh & (maps.length < 30)
    parts |= sub_parts(maps, "all", everything)
    return parts | sub_parts(maps, "fresh texts", fresh)


def sub_parts(maps: Maps, name: str, which: Tensor) -> dict[str, Tensor]:
    """Divide a part by how its maps were drawn, by length, model and attention."""
    short, long = maps.length < 30, maps.length >= 64
    parts = {
        "drawn at random": maps.random,
        "under 30 tokens": short,
        "under 30 tokens, drawn at random": short & maps.random,
    }
    parts |= {"30 to 63 tokens": ~short & ~long, "64 tokens or more": long}
    parts |= {model: maps.model == number for number, model in enumerate(MODEL_NAMES)}
    parts |= {f"under 30 tokens, {model}": short & (maps.model == number) for number, model in enumerate(MODEL_NAMES)}
    parts |= {"standard attention": ~maps.effective, "effective attention": maps.effective}
    return {name: which} | {f"{name}, {part}": which & mine for part, mine in parts.items()}


def measure(maps: Maps, found: Tensor, draws: int = 1000) -> dict[str, Any]:
    """Measure macro-F1 and accuracy, with 95 % intervals over texts, and count the maps of each class."""
    groups, number = maps.group.unique(return_inverse=True)
    each = torch.zeros(len(groups), len(PATTERNS), len(PATTERNS))
    each.index_put_((number, maps.label, found), torch.ones(len(maps)), accumulate=True)
    chosen = torch.randint(len(groups), (draws, len(groups)), generator=torch.Generator().manual_seed(0))
    times = torch.zeros(draws, len(groups)).scatter_add_(1, chosen, torch.ones(draws, len(groups)))
    again = (times @ each.flatten(1)).view(draws, len(PATTERNS), len(PATTERNS))
    facts: dict[str, Any] = {"maps": len(maps), "maps_of_class": maps.label.bincount(minlength=len(PATTERNS)).tolist()}
    for name, score in {"macro_f1": macro_f1, "accuracy": accuracy}.items():
        facts[name] = round(float(score(each.sum(0))), 4)
        bounds = score(again).quantile(torch.tensor([0.025, 0.975]))
        facts[f"{name}_interval"] = [round(bound, 3) for bound in bounds.tolist()]
    return facts


def try_correction(net: PatternNet, maps: Maps, draws: int = 100) -> dict[str, tuple[float, float]]:
    """Say how far shares are from the annotated ones, as found and corrected: mean total variation.

    Error rates come from a random half of the held-out texts, the shares are those of the other half's maps that were
    drawn at random.
    """
    held_out = maps[maps.held_out]
    label, found = held_out.label, predict(net, held_out)
    groups = held_out.group.unique()
    generator = torch.Generator().manual_seed(0)
    parts = {"standard": ~held_out.effective, "effective": held_out.effective}
    distances: dict[str, list[Tensor]] = {name: [] for name in parts}
    for _ in range(draws):
        half = groups[torch.randperm(len(groups), generator=generator)[: len(groups) // 2]]
        mine = torch.isin(held_out.group, half)
        rates = rates_of(confusion(label, found, mine), confusion(label, found, mine & held_out.random))
        for name, part in parts.items():
            true, raw = (shares_of(one[~mine & held_out.random & part]) for one in (label, found))
            distances[name].append(torch.stack([(raw - true).abs(), (corrected_shares(raw, rates) - true).abs()]))
    means = {name: (torch.stack(some).sum(-1).mean(0) / 2).tolist() for name, some in distances.items()}
    return {name: (round(raw, 3), round(corrected, 3)) for name, (raw, corrected) in means.items()}


def shares_of(patterns: Tensor) -> Tensor:
    return patterns.bincount(minlength=len(PATTERNS)).double() / len(patterns)


def macro_f1(matrix: Tensor) -> Tensor:
    """Return the mean F1 of the classes that are there."""
    return f1(matrix).where(matrix.sum(-1) > 0, torch.nan).nanmean(dim=-1)


def accuracy(matrix: Tensor) -> Tensor:
    return matrix.diagonal(dim1=-2, dim2=-1).sum(-1) / matrix.sum((-2, -1))


def write_facts(facts: dict[str, Any]) -> None:
    """Write facts into pattern_net.json; others that are there stay. Lists of numbers stand on one line."""
    place = MODELS / "pattern_net.json"
    text = json.dumps(json.loads(place.read_text()) | facts, indent=2)
    numbers = re.compile(r"\[\s+(-?[\d.]+(?:,\s+-?[\d.]+)*)\s+\]")
    write_text(place, numbers.sub(lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", text) + "\n")


# --- agreement of the two passes ---


def agreement() -> dict[str, Any]:
    """Return how well the two passes agree.

    ``fresh texts``: held-out maps alone. ``another day``: held-out maps of the second lot, of texts under 30 tokens,
    labelled again on the day of the third.
    """
    first, second = read_table("labels"), read_table("second_pass")
    pairs = {name: (row.get("first", first[name]["label"]), row["label"]) for name, row in second.items()}
    fresh = [pair for name, pair in pairs.items() if name.startswith("f") and first[name]["split"] == "held-out"]
    later = [(first[name]["label"], row["label"]) for name, row in read_table("later_pass", ("_real",)).items()]
    others = {"fresh texts": agreement_of(fresh), "another day": agreement_of(later)}
    return agreement_of(list(pairs.values())) | others


def agreement_of(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the share labelled alike, Cohen's kappa, and the macro-F1 of the second pass measured by the first."""
    one, two = (torch.tensor([PATTERNS.index(pair[side]) for pair in pairs]) for side in (0, 1))
    matrix = confusion(one, two)
    observed = matrix.diagonal().sum() / len(pairs)
    expected = (matrix.sum(0) * matrix.sum(1)).sum() / len(pairs) ** 2
    kappa = (observed - expected) / (1 - expected)
    facts = {"share": observed, "cohen_kappa": kappa, "macro_f1": f1(matrix).mean()}
    return {"maps": len(pairs)} | {name: round(float(value), 4) for name, value in facts.items()}


def show(matrix: Tensor) -> None:
    print(f"macro-F1 {f1(matrix).mean():.4f}")
    for name, score, row in zip(PATTERNS, f1(matrix), matrix.tolist(), strict=True):
        print(f"{name:20s} F1 {score:.3f}  {row}")
