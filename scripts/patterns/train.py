"""Train the pattern net on the labelled maps, and write its weights and its score on the held-out maps.

    python scripts/patterns/train.py --folds 5      # cross-validation inside the training part: how choices were made
    python scripts/patterns/train.py                # train on the training part, then look at the held-out maps once
    python scripts/patterns/train.py --measure      # only measure the weights that are there
    python scripts/patterns/train.py --leave-out    # train without each model in turn, measure on its held-out maps

Folds, like the held-out part, never share a text. Augmentation keeps the class: the map turned by 180 degrees, its
tokens stretched and squeezed, other contrast, noise. Synthetic maps (training only): a column map laid over a diagonal
one, and squares cut into a texture.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from effective_attention.io import whole_file, write_text
from effective_attention.models.pattern_net import PATTERNS, SIZE, ConvNet, PatternNet, load_pattern_net

HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "src" / "effective_attention" / "models"
LOTS = ("", "_real")
MODEL_NAMES = ("minilm", "mpnet_base", "smollm2")
CAUSAL = MODEL_NAMES.index("smollm2")
VERTICAL, DIAGONAL, BOTH, BLOCK, HETEROGENEOUS = range(len(PATTERNS))


@dataclass(frozen=True)
class Recipe:
    epochs: int = 40
    batch: int = 32
    lr: float = 3e-3
    weight_decay: float = 0.02
    smoothing: float = 0.1
    synthetic: float = 0.12  # share of a batch
    balance: float = 0.5  # 0: classes as they come, 1: all equally often
    decay: float = 0.98  # of the running mean of the weights, which is what is kept
    members: int = 3


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


# --- what the net is shown in training ---


def augment(image: Tensor, generator: torch.Generator) -> Tensor:
    """Make other pictures of the same class."""
    count = len(image)
    turned = torch.rand(count, 1, 1, 1, generator=generator) < 0.5
    image = _stretch(torch.where(turned, image.flip(-2, -1), image), generator)
    contrast = torch.exp(0.1 * torch.randn(count, 1, 1, 1, generator=generator))
    noise = 0.05 * torch.rand(count, 1, 1, 1, generator=generator) * torch.randn(image.shape, generator=generator).abs()
    return (image.clamp_min(1e-6) ** contrast + noise).clamp(0, 1)


def _stretch(image: Tensor, generator: torch.Generator, pieces: int = 6) -> Tensor:
    """Give some tokens more pixels, others fewer, the same for queries and keys; the edges stay."""
    widths = 0.5 + torch.rand(len(image), pieces, generator=generator)
    knots = nn.functional.pad(widths.cumsum(-1) / widths.sum(-1, keepdim=True), (1, 0))[:, None]
    where = nn.functional.interpolate(knots, SIZE, mode="linear", align_corners=True)[:, 0]  # (map, size), 0 to 1
    index = (where * (SIZE - 1)).round().long()
    rows = image.gather(2, index[:, None, :, None].expand_as(image))
    return rows.gather(3, index[:, None, None, :].expand_as(image))


def synthetic(maps: Maps, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Make up maps: half columns and diagonals together, half squares in a texture. Return images, lengths, labels."""

    def some(labels: tuple[int, ...], number: int, *, dark: bool = False) -> tuple[Tensor, Tensor]:
        chosen = torch.isin(maps.label, torch.tensor(labels)) & (maps.model != CAUSAL)
        if dark:
            chosen &= maps.image.mean(dim=(1, 2, 3)) < 0.15
        pool = chosen.nonzero()[:, 0]
        taken = pool[torch.randint(len(pool), (number,), generator=generator)]
        return maps.image[taken], maps.length[taken]

    half, rest = count // 2, count - count // 2
    weight = 0.6 + 0.4 * torch.rand(2, half, 1, 1, 1, generator=generator)
    (column, _), (line, length) = some((VERTICAL,), half, dark=True), some((DIAGONAL,), half, dark=True)
    both = torch.maximum(weight[0] * column, weight[1] * line)
    texture, lengths = some((HETEROGENEOUS, BLOCK), rest)
    square = texture * _squares(rest, generator)
    labels = torch.tensor([BOTH] * half + [BLOCK] * rest)
    return torch.cat([both, square]), torch.cat([length, lengths]), labels


def _squares(count: int, generator: torch.Generator) -> Tensor:
    """Make masks that are 1 inside two segments and small across."""
    edge = (0.3 + 0.4 * torch.rand(count, 1, generator=generator)) * SIZE
    second = torch.arange(SIZE) > edge  # (map, size)
    same = second[:, :, None] == second[:, None]
    across = 0.1 + 0.2 * torch.rand(count, 1, 1, generator=generator)
    return torch.where(same, 1.0, across)[:, None]


# --- training and measuring ---


def train(maps: Maps, recipe: Recipe) -> PatternNet:
    net = PatternNet(recipe.members)
    net.members = nn.ModuleList(train_member(maps, recipe, seed) for seed in range(recipe.members))
    return net.eval()


def train_member(maps: Maps, recipe: Recipe, seed: int) -> ConvNet:
    """Train a net; return the running mean of its weights, which varies less than the last ones."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    net = ConvNet().train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    steps = recipe.epochs * len(maps) // recipe.batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.lr, total_steps=steps)
    mean = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(recipe.decay), use_buffers=True)
    weights = torch.bincount(maps.label, minlength=len(PATTERNS))[maps.label].float() ** -recipe.balance
    loss_of = nn.CrossEntropyLoss(label_smoothing=recipe.smoothing)
    made = round(recipe.synthetic * recipe.batch)
    for _ in range(steps):
        chosen = maps[torch.multinomial(weights, recipe.batch - made, generator=generator)]
        images, lengths, labels = synthetic(maps, made, generator)
        image = augment(torch.cat([chosen.image, images]), generator)
        optimizer.zero_grad()
        scores = net(image, torch.cat([chosen.length, lengths]))
        loss_of(scores, torch.cat([chosen.label, labels])).backward()
        optimizer.step()
        schedule.step()
        mean.update_parameters(net)
    print(f"member {seed} trained", flush=True)
    kept: ConvNet = mean.module
    return kept


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


def cross_validate(maps: Maps, folds: int, recipe: Recipe) -> Tensor:
    """Predict each map by nets that have not seen its text; a fold takes whole groups of texts."""
    groups = maps.group.unique()
    order = groups[torch.randperm(len(groups), generator=torch.Generator().manual_seed(0))]
    found = torch.zeros_like(maps.label)
    for fold in range(folds):
        out = torch.isin(maps.group, order[fold::folds])
        found[out] = predict(train(maps[~out], recipe), maps[out])
        part = confusion(maps.label[out], found[out])
        print(f"fold {fold}: macro-F1 {f1(part).mean():.3f}", flush=True)
    return found


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


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the pattern net.")
    parser.add_argument("--folds", type=int, help="cross-validate on the training part instead")
    parser.add_argument("--measure", action="store_true", help="measure the shipped weights on the held-out maps again")
    parser.add_argument("--leave-out", action="store_true", help="train without each model in turn instead")
    options = parser.parse_args()
    maps = read_maps()
    recipe = Recipe()
    training = maps[~maps.held_out]
    if options.folds is not None:
        return show(confusion(training.label, cross_validate(training, options.folds, recipe)))
    if options.leave_out:
        return write_facts({"left_out": leave_out(maps, replace(recipe, members=1))})
    if not options.measure:
        weights = train(training, recipe).state_dict()
        with whole_file(MODELS / "pattern_net.safetensors") as file:
            file.write(save({name: value.contiguous() for name, value in weights.items()}))
    return report(load_pattern_net(), maps)


def leave_out(maps: Maps, recipe: Recipe) -> dict[str, Any]:
    """Measure on each model's held-out maps a net that has seen neither the model nor the texts."""
    found = {}
    for number, name in enumerate(MODEL_NAMES):
        others = maps[~maps.held_out & (maps.model != number)]
        mine = maps[maps.held_out & (maps.model == number) & maps.real]
        found[name] = measure(mine, predict(train(others, recipe), mine))
        print(name, found[name], flush=True)
    return found


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


def macro_f1(matrix: Tensor) -> Tensor:
    """Return the mean F1 of the classes that are there."""
    return f1(matrix)[matrix.sum(1) > 0].mean()


def write_facts(facts: dict[str, Any]) -> None:
    """Write facts into pattern_net.json; others that are there stay. Lists of numbers stand on one line."""
    place = MODELS / "pattern_net.json"
    text = json.dumps(json.loads(place.read_text()) | facts, indent=2)
    numbers = re.compile(r"\[\s+(-?[\d.]+(?:,\s+-?[\d.]+)*)\s+\]")
    write_text(place, numbers.sub(lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", text) + "\n")


if __name__ == "__main__":
    main()
