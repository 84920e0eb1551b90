"""Train the pattern net on the labelled maps, and write its weights and its score on the held-out maps.

    python scripts/patterns/train.py --folds 5      # cross-validation inside the training part: how choices were made
    python scripts/patterns/train.py                # train on the whole training part, then look at the held-out maps
    once python scripts/patterns/train.py --measure      # only measure the weights that are there

Folds, like the held-out part, never share a text. Augmentation keeps the class: the map turned by 180 degrees, its
tokens stretched and squeezed, other contrast, noise. Synthetic maps (training only): a column map laid over a diagonal
one, and squares cut into a texture.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

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
    epochs: int = 50
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


def confusion(label: Tensor, found: Tensor) -> Tensor:
    """Count maps by what was annotated (rows) and what the net says (columns)."""
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
    first, second = read_table("labels.csv"), read_table("second_pass.csv")
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
    options = parser.parse_args()
    maps = read_maps()
    recipe = Recipe()
    training = maps[~maps.held_out]
    if options.folds is not None:
        return show(confusion(training.label, cross_validate(training, options.folds, recipe)))
    if not options.measure:
        weights = train(training, recipe).state_dict()
        with whole_file(MODELS / "pattern_net.safetensors") as file:
            file.write(save({name: value.contiguous() for name, value in weights.items()}))
    return report(load_pattern_net(), maps)


def report(net: PatternNet, maps: Maps) -> None:
    """Write pattern_net.json, from the held-out maps."""
    held_out = maps[maps.held_out]
    found = predict(net, held_out)
    matrix = confusion(held_out.label, found)
    right = found == held_out.label
    facts = {
        "patterns": list(PATTERNS),
        "macro_f1": round(float(f1(matrix).mean()), 4),
        "f1": {name: round(float(score), 4) for name, score in zip(PATTERNS, f1(matrix), strict=True)},
        "accuracy": round(float(right.float().mean()), 4),
        "accuracy_on_maps_drawn_at_random": round(float(right[held_out.random].float().mean()), 4),
        "confusion": matrix.tolist(),
        "confusion_reads": "rows: annotated, columns: predicted, in the order of patterns",
        "maps": len(maps),
        "maps_held_out": len(held_out),
        "maps_held_out_drawn_at_random": int(held_out.random.sum()),
        "maps_of_class": {name: int((maps.label == number).sum()) for number, name in enumerate(PATTERNS)},
        "agreement": agreement(),
    }
    write_text(MODELS / "pattern_net.json", json.dumps(facts, indent=2) + "\n")
    show(matrix)


if __name__ == "__main__":
    main()
