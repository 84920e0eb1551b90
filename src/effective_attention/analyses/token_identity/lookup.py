"""Which input token is nearest? Brunner et al. (2020), section 4: the 1-nearest neighbour within the same text.

A hidden token counts as identified where the token of its text that lies nearest to its image is the right one.
Distances are compared in double precision, and those that agree up to rounding are a tie, which the lower position
wins: neither the size of a batch nor padding decides a lookup. Where input embeddings hold no position (rotary models),
a repeated word is such a tie.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

Distance = Literal["cosine", "l2"]
_TOKENS = 8192  # that are looked up together, padding among them: 50 MB at width 768
# of the scale of the scores; far above the rounding of a double, far below what a float32 state can tell apart
_TIE = 1e-9


class Rate(NamedTuple):
    """The token identifiability rate.

    Attributes:
        value: Share of tokens that were identified, from 0 to 1.
        baseline: What guessing gives, the mean of 1/n.
        tokens: How many were asked.
    """

    value: float
    baseline: float
    tokens: int


def nearest(
    image: Float[Tensor, "batch query width"],
    candidates: Float[Tensor, "batch key width"],
    mask: Bool[Tensor, "batch key"],
    distance: Distance,
) -> Int[Tensor, "batch query"]:
    """Return the position of the nearest real candidate of the same text.

    >>> image, words = torch.tensor([[[3.0, 1.0]]]), torch.tensor([[[9.0, 0.0], [1.0, 1.0]]])
    >>> [int(nearest(image, words, torch.ones(1, 2, dtype=torch.bool), distance)) for distance in ("cosine", "l2")]
    [0, 1]
    """
    image = image.double()
    candidates = candidates.double()
    if distance == "cosine":
        image = normalize(image, dim=-1)
        candidates = normalize(candidates, dim=-1)
    square = candidates.square().sum(dim=-1)[:, None]  # (batch, 1, key)
    scores = 2 * image @ candidates.mT - square  # the distance's square is that of the image minus this
    scale = image.square().sum(dim=-1, keepdim=True) + square.amax(dim=-1, keepdim=True)
    scores = scores.masked_fill(~mask[:, None], -torch.inf)
    tied = scores >= scores.amax(dim=-1, keepdim=True) - _TIE * scale
    return tied.byte().argmax(dim=-1)  # the first of them


def identify(
    image: Float[Tensor, "token width"],
    candidates: Float[Tensor, "token width"],
    lengths: NDArray[np.int64],
    distance: Distance,
    offset: int = 0,
) -> Rate:
    """How many tokens are nearest to their own candidate, or to that of the token ``offset`` places on.

    Args:
        image: Of every token of some texts, one text after the other.
        candidates: What they may be taken for, in the same order.
        lengths: Tokens of each text.
        distance: Of the lookup.
        offset: Tokens without such a neighbour are not asked.
    """
    order = np.argsort(lengths, kind="stable")  # texts of one length together need no padding
    starts = np.concatenate([[0], np.cumsum(lengths)])
    hits = 0
    chance = 0.0
    asked = 0
    for texts in _batches(order, lengths):
        padded = [_padded(rows, starts, texts) for rows in (image, candidates)]
        sizes = torch.from_numpy(lengths[texts]).to(image.device)[:, None]
        position = torch.arange(padded[0].shape[1], device=image.device)[None]
        right = position + offset
        counted = (position < sizes) & (right >= 0) & (right < sizes)
        found = nearest(padded[0], padded[1], position < sizes, distance)
        hits += int(((found == right) & counted).sum())
        asked += int(counted.sum())
        chance += float((counted.sum(dim=-1, keepdim=True) / sizes.double()).sum())
    return Rate(hits / asked, chance / asked, asked) if asked else Rate(float("nan"), float("nan"), 0)


def _padded(rows: Tensor, starts: NDArray[np.int64], texts: NDArray[np.int64]) -> Float[Tensor, "batch token width"]:
    return pad_sequence([rows[starts[text] : starts[text + 1]] for text in texts], batch_first=True)


def _batches(order: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Of texts, shortest first, as many as fit."""
    batches = []
    start = 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or (stop + 1 - start) * lengths[order[stop]] > _TOKENS:
            batches.append(order[start:stop])
            start = stop
    return batches
