"""Read the labelled maps, and measure what a net says of those that are held out."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from effective_attention.io import write_text
from effective_attention.models.pattern_net import PATTERNS, PatternNet
from effective_attention.models.pattern_shares import corrected_shares, rates_of

HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "src" / "effective_attention" / "models"
LOTS = ("", "_real")
MODEL_NAMES = ("minilm", "mpnet_base", "smollm2")


@dataclass(frozen=True)
class Maps:
    image: Tensor  # (map, 1, size, size)
    length: Tensor  # in tokens
    label: Tensor
    group: Tensor
    held_out: Tensor
    random: Tensor  # drawn at random, not because it was likely of a rare class
    real: Tensor  # of the second lot
    model: Tensor  # number in MODEL_NAMES
    effective: Tensor

    def __getitem__(self, index: Tensor) -> Maps:
        return Maps(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.label)


def read_table(name: str) -> dict[str, dict[str, str]]:
    """Read a table of both lots, by the maps' ids."""
    rows = {}
    for lot in LOTS:
        with (HERE / f"{name}{lot}.csv").open() as file:
            rows |= {row["id"]: row for row in csv.DictReader(file)}
    return rows


def read_maps() -> Maps:
    names: list[str] = []
    images = []
    for lot in LOTS:
        with np.load(HERE / f"maps{lot}.npz") as arrays:
            names += arrays["id"].tolist()
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
        torch.tensor([row["source"] != "sample" for row in rows]),
        torch.tensor([MODEL_NAMES.index(row["model"]) for row in rows]),
        torch.tensor([row["attention"] == "effective" for row in rows]),
    )


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
    """Return the F1 score of each class."""
    return 2 * matrix.diagonal() / (matrix.sum(0) + matrix.sum(1)).clamp_min(1)


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


def parts_of(maps: Maps) -> dict[str, Tensor]:
    """Name parts of the maps by where they come from."""
    real = maps.real
    parts = {"all": maps.label >= 0, "all, drawn at random": maps.random}
    parts |= {"sample texts": ~real, "real texts": real, "real texts, drawn at random": real & maps.random}
    parts |= {"under 30 tokens": maps.length < 30, "under 30 tokens, drawn at random": (maps.length < 30) & maps.random}
    parts |= {
        f"real texts, {low} to {high} tokens": real & (maps.length >= low) & (maps.length <= high)
        for low, high in ((10, 14), (15, 29), (30, 59), (60, 128))
    }
    parts |= {f"real texts, {name}": real & (maps.model == number) for number, name in enumerate(MODEL_NAMES)}
    return parts | {"standard attention": ~maps.effective, "effective attention": maps.effective}


def measure(maps: Maps, found: Tensor, draws: int = 1000) -> dict[str, Any]:
    """Measure macro-F1 and accuracy, with 95 % intervals over texts, and count the maps of each class."""
    groups, number = maps.group.unique(return_inverse=True)
    each = torch.zeros(len(groups), len(PATTERNS), len(PATTERNS), dtype=torch.long)
    each.index_put_((number, maps.label, found), torch.ones(len(maps), dtype=torch.long), accumulate=True)
    generator = torch.Generator().manual_seed(0)
    again = [each[torch.randint(len(groups), (len(groups),), generator=generator)].sum(0) for _ in range(draws)]
    scores = {"macro_f1": macro_f1, "accuracy": lambda matrix: matrix.diagonal().sum() / matrix.sum()}
    facts: dict[str, Any] = {"maps": len(maps), "maps_of_class": maps.label.bincount(minlength=len(PATTERNS)).tolist()}
    for name, score in scores.items():
        facts[name] = round(float(score(each.sum(0))), 4)
        bounds = torch.stack([score(matrix) for matrix in again]).quantile(torch.tensor([0.025, 0.975]))
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
    return f1(matrix)[matrix.sum(1) > 0].mean()


def write_facts(facts: dict[str, Any]) -> None:
    """Write facts into pattern_net.json; others that are there stay. Lists of numbers stand on one line."""
    place = MODELS / "pattern_net.json"
    text = json.dumps(json.loads(place.read_text()) | facts, indent=2)
    numbers = re.compile(r"\[\s+(-?[\d.]+(?:,\s+-?[\d.]+)*)\s+\]")
    write_text(place, numbers.sub(lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", text) + "\n")


# --- agreement of the two passes ---


def agreement() -> dict[str, float]:
    """Return the share of maps labelled alike in both passes, and Cohen's kappa."""
    first, second = read_table("labels"), read_table("second_pass")
    pairs = [(first[name]["label"], row["label"]) for name, row in second.items()]
    observed = sum(a == b for a, b in pairs) / len(pairs)
    one, two = (Counter(pair[side] for pair in pairs) for side in (0, 1))
    expected = sum(one[name] * two[name] for name in PATTERNS) / len(pairs) ** 2
    return {
        "maps": len(pairs),
        "share": round(observed, 4),
        "cohen_kappa": round((observed - expected) / (1 - expected), 4),
    }


def show(matrix: Tensor) -> None:
    print(f"macro-F1 {f1(matrix).mean():.4f}")
    for name, score, row in zip(PATTERNS, f1(matrix), matrix.tolist(), strict=True):
        print(f"{name:20s} F1 {score:.3f}  {row}")
