"""Train the pattern net on the labelled maps, and write its weights and its score on the held-out maps.

    python scripts/patterns/train.py --folds 5      # cross-validation inside the training part: how choices were made
    python scripts/patterns/train.py                # train on the training part, then look at the held-out maps once
    python scripts/patterns/train.py --further <weights>   # train these further instead of anew
    python scripts/patterns/train.py --measure      # only measure the weights that are there
    python scripts/patterns/train.py --compare <weights>   # print what these score on the same held-out maps
    python scripts/patterns/train.py --leave-out    # train without each model in turn, measure on its held-out maps
    python scripts/patterns/train.py --correction   # try the correction of shares on the held-out maps

Folds, like the held-out part, never share a text. Augmentation keeps the class: the map turned by 180 degrees, its
tokens stretched and squeezed, other contrast, noise. Synthetic maps (training only): a column map laid over a diagonal
one, and squares cut into a texture.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from measuring import (
    MODEL_NAMES,
    MODELS,
    Maps,
    confusion,
    f1,
    measure,
    predict,
    print_parts,
    read_maps,
    read_net,
    report,
    show,
    try_correction,
    write_facts,
)
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from effective_attention.io import whole_file
from effective_attention.models.pattern_net import PATTERNS, SIZE, ConvNet, PatternNet, load_pattern_net

VERTICAL, DIAGONAL, BOTH, BLOCK, HETEROGENEOUS = range(len(PATTERNS))
CAUSAL = MODEL_NAMES.index("smollm2")


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
    vertical: float = 0.3  # added to the score of vertical in the end: balanced batches make it too rare


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


FURTHER = Recipe(epochs=10, lr=1.5e-3)
"""Of a net that has learnt from the first two lots, and goes on with all three."""

LEFT_OUT = Recipe(epochs=14, members=1)
"""Of a net that never sees one of the models."""


def train(maps: Maps, recipe: Recipe, start: PatternNet | None = None) -> PatternNet:
    """Train all members, from their random starts or from the weights of another net."""
    net = PatternNet(recipe.members) if start is None else start
    for member in net.members if start is not None else ():
        favour(member, -recipe.vertical)
    starts = list(net.members) if start is not None else [None] * recipe.members
    net.members = nn.ModuleList(train_member(maps, recipe, seed, one) for seed, one in enumerate(starts))
    for member in net.members:
        favour(member, recipe.vertical)
    return net.eval()


@torch.no_grad()
def favour(net: nn.Module, vertical: float) -> None:
    """Add to the score of vertical maps, by the bias of the last layer."""
    net.get_submodule("classifier")[-1].bias[VERTICAL] += vertical


def train_member(maps: Maps, recipe: Recipe, seed: int, start: nn.Module | None = None) -> ConvNet:
    """Train a net; return the running mean of its weights, which varies less than the last ones."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    net = (ConvNet() if start is None else start).train().to(memory_format=torch.channels_last)  # a third faster
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the pattern net.")
    parser.add_argument("--folds", type=int, help="cross-validate on the training part instead")
    parser.add_argument("--further", type=Path, help="go on from these weights, instead of anew")
    parser.add_argument("--measure", action="store_true", help="measure the shipped weights on the held-out maps again")
    parser.add_argument("--compare", type=Path, help="only measure these weights, and print it")
    parser.add_argument("--leave-out", action="store_true", help="train without each model in turn instead")
    parser.add_argument("--correction", action="store_true", help="try the correction of shares on the held-out maps")
    options = parser.parse_args()
    maps = read_maps()
    recipe = Recipe()
    training = maps[~maps.held_out]
    if options.folds is not None:
        return show(confusion(training.label, cross_validate(training, options.folds, recipe)))
    if options.leave_out:
        return write_facts({"left_out": leave_out(maps, LEFT_OUT)})
    if options.compare is not None:
        return print_parts(maps[maps.held_out], read_net(options.compare))
    if options.correction:
        return print(try_correction(load_pattern_net(), maps))
    if not options.measure:
        further = options.further is not None
        trained = train(training, FURTHER, read_net(options.further)) if further else train(training, recipe)
        weights = trained.state_dict()
        with whole_file(MODELS / "pattern_net.safetensors") as file:
            file.write(save({name: value.contiguous() for name, value in weights.items()}))
    return report(load_pattern_net(), maps)


def leave_out(maps: Maps, recipe: Recipe) -> dict[str, Any]:
    """Measure on each model's held-out maps a net that has seen neither the model nor the texts."""
    found = {}
    for number, name in enumerate(MODEL_NAMES):
        others = maps[~maps.held_out & (maps.model != number)]
        mine = maps[maps.held_out & (maps.model == number) & (maps.lot > 1)]
        found[name] = measure(mine, predict(train(others, recipe), mine))
        print(name, found[name], flush=True)
    return found


if __name__ == "__main__":
    main()
