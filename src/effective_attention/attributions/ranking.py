"""Do two scores rank the tokens of an example alike? Spearman's correlation with true ranks, and bootstrap intervals.

Equal scores share the mean of their ranks, as in Spearman's definition (``spearman``); scores closer than a millionth
of the example's largest count as equal, because that is what rounding makes of equal ones. The code that Abnar and
Zuidema (2020) published does otherwise (``dense_spearman``): equal scores share a rank without a gap after it, and
the ranks are put into 1 - 6 Σ d² / (n (n² - 1)), Spearman's for ranks without ties only. There equal means equal.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Ties = Literal["mean", "dense"]
_NOISE = 1e-6


def correlate(
    one: Float[Tensor, "*#any key"],
    other: Float[Tensor, "*#any key"],
    chosen: Bool[Tensor, "*#any key"],
    ties: Ties = "mean",
) -> Float[Tensor, "*any"]:
    """Correlate ranks over the chosen tokens: Spearman's with mean ranks of ties, or the formula with dense ones."""
    return spearman(one, other, chosen) if ties == "mean" else dense_spearman(one, other, chosen)


def ranks(scores: Float[Tensor, "*any key"], chosen: Bool[Tensor, "*any key"]) -> Float[Tensor, "*any key"]:
    """Rank from 1 among the chosen tokens, ties averaged; 0 elsewhere.

    >>> ranks(torch.tensor([3.0, 1.0, 3.0, 9.0]), torch.tensor([True, True, True, False])).tolist()
    [2.5, 1.0, 2.5, 0.0]
    """
    scores = torch.where(chosen, scores.double(), 0)
    noise = _NOISE * scores.abs().amax(dim=-1, keepdim=True)[..., None]
    difference = scores[..., :, None] - scores[..., None, :]  # (..., key, other key)
    others = chosen[..., None, :]
    below = ((difference > noise) & others).sum(dim=-1)
    equal = ((difference.abs() <= noise) & others).sum(dim=-1)
    return torch.where(chosen, below + (equal + 1) / 2, 0).double()


def spearman(
    one: Float[Tensor, "*#any key"], other: Float[Tensor, "*#any key"], chosen: Bool[Tensor, "*#any key"]
) -> Float[Tensor, "*any"]:
    """Correlate ranks over the chosen tokens; NaN with fewer than two, or where a score is the same for all."""
    one, other, chosen = torch.broadcast_tensors(one, other, chosen)  # type: ignore[no-untyped-call]
    count = chosen.sum(dim=-1, keepdim=True)
    left, right = (_centred(ranks(scores, chosen), chosen, count) for scores in (one, other))
    size = left.norm(dim=-1) * right.norm(dim=-1)
    return torch.where(size > 1e-9, (left * right).sum(dim=-1) / size.clamp_min(1e-9), torch.nan)


def _centred(rank: Tensor, chosen: Tensor, count: Tensor) -> Tensor:
    return torch.where(chosen, rank - rank.sum(dim=-1, keepdim=True) / count.clamp_min(1), 0)


def dense_spearman(
    one: Float[Tensor, "*#any key"], other: Float[Tensor, "*#any key"], chosen: Bool[Tensor, "*#any key"]
) -> Float[Tensor, "*any"]:
    """Put dense ranks over the chosen tokens into Spearman's formula; NaN with fewer than two tokens.

    >>> three = torch.tensor([True, True, True])
    >>> dense_spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 2.0, 9.0]), three).item()
    0.5
    """
    one, other, chosen = torch.broadcast_tensors(one, other, chosen)  # type: ignore[no-untyped-call]
    difference = torch.where(chosen, dense_ranks(one, chosen) - dense_ranks(other, chosen), 0).double()
    count = chosen.sum(dim=-1).double()
    value = 1 - 6 * difference.square().sum(dim=-1) / (count * (count.square() - 1)).clamp_min(1)
    return torch.where(count > 1, value, torch.nan)


def dense_ranks(scores: Float[Tensor, "*any key"], chosen: Bool[Tensor, "*any key"]) -> Float[Tensor, "*any key"]:
    """Rank from 1 among the chosen tokens by how many different scores are smaller; 0 elsewhere.

    >>> dense_ranks(torch.tensor([3.0, 1.0, 3.0, 9.0]), torch.tensor([True, True, True, False])).tolist()
    [2.0, 1.0, 2.0, 0.0]
    """
    order = scores.masked_fill(~chosen, torch.inf).argsort(dim=-1, stable=True)
    ordered = scores.gather(-1, order)
    steps = torch.zeros_like(ordered)
    steps[..., 1:] = (ordered[..., 1:] > ordered[..., :-1]).to(steps.dtype)
    ranks = torch.zeros_like(ordered).scatter(-1, order, 1 + steps.cumsum(dim=-1))
    return torch.where(chosen, ranks, 0.0)


def draw_again(examples: int, draws: int, seed: int) -> Int[Tensor, "draw place"]:
    """Draw as many examples as there are, with replacement, so many times; the same ones for the same seed."""
    return torch.randint(examples, (draws, examples), generator=torch.Generator().manual_seed(seed))


def times_drawn(drawn: Int[Tensor, "draw place"]) -> Float[Tensor, "draw example"]:
    """Return how often each example is in each draw.

    >>> times_drawn(torch.tensor([[2, 0, 2]])).tolist()
    [[1.0, 0.0, 2.0]]
    """
    times = torch.zeros(drawn.shape, dtype=torch.float64)
    return times.scatter_add_(1, drawn, torch.ones_like(times))


def bootstrap(
    values: Float[Tensor, "example column"], *, seed: int, draws: int = 1000, level: float = 0.95
) -> tuple[Float[Tensor, " column"], Float[Tensor, " column"]]:
    """Find the percentile interval of each column's mean over resampled examples.

    All columns see the same resamples, so that they can be compared.

    Args:
        values: NaN marks examples that a column does not have; a column without any has no interval either (NaN).
        seed: Of the resamples.
        draws: How many resamples.
        level: Share of the resamples' means inside the interval.
    """
    times = times_drawn(draw_again(len(values), draws, seed))
    there = ~values.isnan()
    total, count = times @ values.nan_to_num(), times @ there.double()
    means = torch.where(count > 0, total / count.clamp_min(1), torch.nan)
    edge = (1 - level) / 2
    low, high = torch.nanquantile(means, torch.tensor([edge, 1 - edge], dtype=torch.float64), dim=0)
    return low, high


FEW = 30
"""Examples, below which percentile intervals cover the mean clearly less often than they say."""


def few_examples(count: int) -> str | None:
    """Say what intervals over so few examples are worth; None: there are enough.

    The shares were measured on made-up examples of several shapes, as bootstrap intervals at 0.95.

    >>> few_examples(30) is None
    True
    """
    if count >= FEW:
        return None
    return (
        f"{count} {'example' if count == 1 else 'examples'}: 95 % intervals of fewer than {FEW} are too short; "
        "of 8 examples they cover 0.73 to 0.88 instead of 0.95, of a hundred 0.93 to 0.96"
    )
