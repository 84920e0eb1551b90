"""Which pattern does an attention map show?  A small ConvNet for the five classes of Kovaleva et al. (2019).

Sun & Marasovic (2021, Table 2) compare the patterns of standard and effective attention with such a net. Its labels and
weights were never published, so ours were made for this project: maps, guideline, labels and training script are in
``scripts/patterns``, the held-out score in ``pattern_net.json`` beside the weights.

``to_image`` is the only way a map becomes what the net sees, in training and afterwards:

1. padding is cut off, rows and columns;
2. negative weights, which only effective attention has, count as 0: a pattern is where attention goes;
3. area interpolation to 64 x 64: a pixel is the mean of the weights it covers, whatever the length;
4. division by the ``_BRIGHTEST``-th largest pixel, cut at 1: a line of 64 pixels fills the scale, a few lonely peaks do
   not.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

Pattern = Literal["vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)
SIZE = 64
_BRIGHTEST = 32  # half a line


def to_image(
    attention: Float[Tensor, "map query key"], lengths: Int[Tensor, " map"] | None = None
) -> Float[Tensor, "map 1 size size"]:
    """Turn attention maps of any length into images of one size, each pixel from 0 to 1.

    Args:
        attention: Standard or effective attention, one map per head; queries and keys are the same tokens.
        lengths: How many tokens of each map are real, from the first on, at least 2; None: all.
    """
    if attention.ndim != 3 or attention.shape[1] != attention.shape[2] or attention.shape[1] < 2:
        raise ValueError(
            f"attention must have shape (map, token, token) with 2 tokens or more, got {tuple(attention.shape)}"
        )
    count, tokens, _ = attention.shape
    if lengths is None:
        lengths = torch.full((count,), tokens, device=attention.device)
    if lengths.shape != (count,) or not bool(((lengths >= 2) & (lengths <= tokens)).all()):
        raise ValueError(f"lengths must hold {count} numbers from 2 to {tokens}, got shape {tuple(lengths.shape)}")
    resize = _area_weights(lengths, tokens)  # (map, size, token)
    image = resize @ attention.float().clamp_min(0) @ resize.mT
    scale = image.flatten(1).topk(_BRIGHTEST, dim=1).values[:, -1].clamp_min(1e-12)
    return (image / scale[:, None, None]).clamp_max(1)[:, None]


def _area_weights(lengths: Tensor, tokens: int) -> Float[Tensor, "map size token"]:
    """Return the share of each pixel that each token covers when ``length`` tokens are laid over ``SIZE`` pixels."""
    pixel = torch.arange(SIZE, device=lengths.device, dtype=torch.float32)[None, :, None]
    token = torch.arange(tokens, device=lengths.device, dtype=torch.float32)[None, None]
    width = SIZE / lengths.float()[:, None, None]  # pixels a token
    overlap = torch.minimum(pixel + 1, (token + 1) * width) - torch.maximum(pixel, token * width)
    return overlap.clamp_min(0) * (token < lengths[:, None, None])


class ConvNet(nn.Module):
    """A small network, one member of a ``PatternNet``: image and length → score per pattern (map, pattern).

    It has about 60 000 weights.

    A pattern is a matter of long thin lines and of areas, which small convolutions see badly. So each pixel is also
    told how bright its column and its diagonal are as a whole, and the last layers are told the brightest columns, the
    middle diagonals, in pixels and in tokens, how well the map falls into two squares, how much of it lies above and
    below the diagonal, and how many tokens there are: a token of a short text is many pixels wide.
    """

    _near: Tensor
    _offset: Tensor

    def __init__(self, width: int = 16, dropout: float = 0.3) -> None:
        super().__init__()
        position = torch.arange(SIZE)
        offset = position[None] - position[:, None]  # (query, key): which diagonal
        self.register_buffer("_offset", offset.flatten() + SIZE - 1, persistent=False)
        self.register_buffer("_near", (1 - offset.abs() / SIZE)[None, None], persistent=False)
        channels = (8, width, 2 * width, 3 * width, 4 * width)
        self.features = nn.Sequential(*(_step(*pair, first=pair[0] == channels[0]) for pair in pairwise(channels)))
        self.classifier = nn.Sequential(
            nn.Linear(2 * channels[-1] + _PROFILES, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(64, len(PATTERNS)),
        )

    def forward(
        self, image: Float[Tensor, "map 1 size size"], length: Int[Tensor, " map"]
    ) -> Float[Tensor, "map pattern"]:
        column = image.mean(dim=-2, keepdim=True)
        steady = (
            image.mT.contiguous().kthvalue(SIZE // 3, dim=-1).values[:, :, None]
        )  # bright only if two thirds of a column are
        below, above = steady_columns(image)
        diagonal = self._diagonals(image)
        views = (image, image.sqrt(), column, steady, below, above, diagonal, self._near)
        found = self.features(torch.cat([view.expand_as(image) for view in views], dim=1))  # (map, channel, 4, 4)
        middle = diagonal[:, 0, 8, 4:13]  # the diagonals next to the main one
        profiles = (
            *(_top(columns) for columns in (column, steady, below, above)),
            middle,
            middle_diagonals(image, length),
            two_squares(image),
            two_squares(image.sqrt()),
            _triangles(image),
            length.float().log()[:, None] / 4,
        )
        return self.classifier(torch.cat([found.mean(dim=(-2, -1)), found.amax(dim=(-2, -1)), *profiles], dim=1))

    def _diagonals(self, image: Tensor) -> Tensor:
        """Replace each pixel by the mean of its diagonal."""
        flat = image.flatten(1)
        total = flat.new_zeros(len(flat), 2 * SIZE - 1).index_add_(1, self._offset, flat)
        count = torch.bincount(self._offset, minlength=2 * SIZE - 1)
        return (total / count)[:, self._offset].view_as(image)


class PatternNet(nn.Module):
    """The mean of several ``ConvNet``s that differ in their random start, over a map and the map turned by 180 degrees.

    A turned map has the same pattern, and several nets err less than one.
    """

    def __init__(self, members: int = 3) -> None:
        super().__init__()
        self.members = nn.ModuleList(ConvNet() for _ in range(members))

    def forward(
        self, image: Float[Tensor, "map 1 size size"], length: Int[Tensor, " map"]
    ) -> Float[Tensor, "map pattern"]:
        scores = [member(view, length) for member in self.members for view in (image, image.flip(-2, -1))]
        return torch.stack(scores).mean(dim=0)


_TOP = 6
_EDGES = tuple(range(10, SIZE - 9, 4))
_TOKENS = range(-3, 4)  # the diagonals, in tokens, next to the main one
_PROFILES = 4 * _TOP + 9 + 2 * len(_TOKENS) + 2 * len(_EDGES) + 2 + 1


def _top(columns: Tensor) -> Tensor:
    """Return the brightest columns, brightest first: (map, 1, 1, size) → (map, top)."""
    return columns[:, 0, 0].topk(_TOP, dim=-1).values


def steady_columns(image: Float[Tensor, "map 1 size size"]) -> tuple[Tensor, Tensor]:
    """Return what two thirds of a column reach, counting only rows below the diagonal, or only rows above it.

    That is all of a column that a causal map shows. Both have shape (map, 1, 1, size); a column of which less than a
    third is there counts as 0.
    """
    row = torch.arange(SIZE, device=image.device)
    found = []
    for seen in (row[:, None] >= row, row[:, None] <= row):  # (row, column)
        count = seen.sum(dim=0)
        ranked = image.masked_fill(~seen, torch.inf).sort(dim=-2).values
        third = ranked.gather(-2, (count // 3).expand(len(image), 1, 1, SIZE))
        found.append(torch.where(count >= SIZE // 3, third, 0.0))
    return found[0], found[1]


def middle_diagonals(
    image: Float[Tensor, "map 1 size size"], length: Int[Tensor, " map"]
) -> Float[Tensor, "map diagonal"]:
    """Return the mean of each middle diagonal, whole tokens from the main one, then what two thirds of each reach."""
    row = torch.arange(SIZE, device=image.device)
    tokens = torch.tensor(_TOKENS, device=image.device)
    shift = (tokens * SIZE / length[:, None]).round().long()  # (map, diagonal)
    key = row + shift[:, :, None]  # (map, diagonal, row)
    there = (key >= 0) & (key < SIZE)
    index = (row * SIZE + key.clamp(0, SIZE - 1)).flatten(1)
    values = image.flatten(1).gather(1, index).view(key.shape)
    count = there.sum(dim=-1).clamp_min(1)
    mean = (values * there).sum(dim=-1) / count
    third = values.masked_fill(~there, torch.inf).sort(dim=-1).values.gather(-1, (count // 3)[:, :, None])[:, :, 0]
    return torch.cat([mean, third.nan_to_num(posinf=0.0)], dim=1)


def _triangles(image: Float[Tensor, "map 1 size size"]) -> Float[Tensor, "map 2"]:
    """Return the mean brightness below and above the diagonal: a causal map has nothing above."""
    return torch.cat([image.tril(-1).mean(dim=(-2, -1)), image.triu(1).mean(dim=(-2, -1))], dim=1)


def two_squares(image: Float[Tensor, "map 1 size size"]) -> Float[Tensor, "map edge"]:
    """Measure how well the map falls into two squares along its diagonal, for several places of the edge between them.

    The measure is the log of the brightness within the squares over the brightness beside them.
    """
    below = nn.functional.pad(
        image[:, 0].cumsum(-1).cumsum(-2), (1, 0, 1, 0)
    )  # (map, size + 1, size + 1): sum above and left
    edge = torch.tensor(_EDGES, device=image.device)
    whole = below[:, -1:, -1]
    first = below[:, edge, edge]
    left = below[:, -1, :][:, edge]  # all rows, first columns
    top = below[:, :, -1][:, edge]  # first rows, all columns
    inside = whole - left - top + 2 * first
    across = left + top - 2 * first
    area = edge**2 + (SIZE - edge) ** 2
    return torch.log((inside / area + 0.01) / (across / (SIZE**2 - area) + 0.01))


def _step(inputs: int, outputs: int, *, first: bool) -> nn.Sequential:
    """Build a step of the network that halves the resolution and changes the number of channels.

    The first step takes a wider look at every second pixel, which is the cheapest.
    """
    if first:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)
    )


def _files() -> Any:
    return files("effective_attention.models")


def load_pattern_net() -> PatternNet:
    """Load the trained net, in evaluation mode."""
    from safetensors.torch import load

    net = PatternNet()
    net.load_state_dict(load((_files() / "pattern_net.safetensors").read_bytes()))
    return net.eval().requires_grad_(False)


@cache
def pattern_net_facts() -> dict[str, Any]:
    """Read how good the net is, as the training script wrote it.

    These are score and confusion on held-out maps, and how well the annotations agree.
    """
    facts: dict[str, Any] = json.loads((_files() / "pattern_net.json").read_text(encoding="utf-8"))
    return facts


@torch.no_grad()
def classify(
    net: nn.Module,
    attention: Float[Tensor, "map query key"],
    lengths: Int[Tensor, " map"] | None = None,
    *,
    batch: int = 256,
) -> Int[Tensor, " map"]:
    """Return the pattern of each map, as an index into ``PATTERNS``; see ``to_image`` for the arguments."""
    lengths = (
        torch.full(attention.shape[:1], attention.shape[-1], device=attention.device) if lengths is None else lengths
    )
    parts = zip(torch.split(attention, batch), torch.split(lengths, batch), strict=True)
    return torch.cat([net(to_image(*part), part[1]).argmax(dim=-1) for part in parts])
