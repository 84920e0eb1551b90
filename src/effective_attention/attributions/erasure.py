"""Are the tokens that an attribution points at those the model needs?

ERASER, DeYoung et al. (2020), section 4.2. With ``r`` the top tokens of an attribution, ``p`` the probability of the
target:

    comprehensiveness = p(text) - p(text without r)     high: they were needed
    sufficiency       = p(text) - p(r alone)            low: they are enough

both averaged over several sizes of ``r`` (their AOPC; as their code, over the sizes given). The sizes are shares of the
tokens that stand for words, rounded up, so at least one token. Deviations: special tokens always stay; ``how="blank"``
puts UNK in place of what is removed, so that the text keeps its length, where ``how="delete"``, the default and theirs,
shortens it.

Equal scores are ranked by position, the earlier token first. A text that deletion would leave without any token (only
where there are no special ones) counts as untouched; a text without words scores 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.attributions.perturbations import ROWS, PerturbedTexts, candidates, probabilities
from effective_attention.attributions.request import AttributionRequest

How = Literal["delete", "blank"]
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)


class Erasure(NamedTuple):
    """Losses of probability, means over the shares."""

    comprehensiveness: Float[Tensor, "method batch"]
    sufficiency: Float[Tensor, "method batch"]


def erasure(
    request: AttributionRequest,
    scores: Float[Tensor, "method batch key"],
    special: Bool[Tensor, "batch key"],
    *,
    shares: Sequence[float] = SHARES,
    how: How = "delete",
    unk_id: int | None = None,
    rows: int = ROWS,
    title: str | None = None,
) -> Erasure:
    """Measure comprehensiveness and sufficiency of several attributions of the same texts.

    Args:
        request: The batch and its targets.
        scores: Importance; the highest come first, so take absolute values before where the sign does not matter.
        special: Special tokens; what is said of padding does not matter.
        shares: Sizes of the top, each above 0 and at most 1.
        how: What happens to removed tokens.
        unk_id: What they become with ``how="blank"``; see ``perturbations.blank_id``.
        rows: At most so many texts run together.
        title: See ``probabilities``.
    """
    words = candidates(request.trace, special)
    _check(scores, words, shares, how, unk_id)
    chosen = top(scores, words, shares)  # (share, method, batch, key)
    # what is removed: nothing, the top, or all but the top
    removed = torch.stack([torch.zeros_like(chosen), chosen, words & ~chosen])
    used = words.any(dim=-1).nonzero()[:, 0]  # texts with words
    perturbed = _without(request.trace.mask[used], removed[..., used, :], used, how)
    found = torch.zeros(removed.shape[:-1], dtype=torch.float64, device=words.device)
    answers = probabilities(request, perturbed, unk_id=unk_id, rows=rows, title=title)
    found[..., used] = answers.view(*removed.shape[:-2], len(used))
    whole, without, alone = found.mean(dim=1)  # each (method, batch)
    return Erasure(whole - without, whole - alone)


def top(
    scores: Float[Tensor, "method batch key"], words: Bool[Tensor, "batch key"], shares: Sequence[float]
) -> Bool[Tensor, "share method batch key"]:
    """Choose the highest tokens among ``words``, ``ceil(share * words)`` of them.

    >>> import torch
    >>> words = torch.tensor([[False, True, True, True]])
    >>> top(torch.tensor([[[9.0, 1.0, 2.0, 2.0]]]), words, [0.1, 0.5]).int().tolist()
    [[[[0, 0, 1, 0]]], [[[0, 0, 1, 1]]]]
    """
    order = scores.double().masked_fill(~words, -torch.inf).argsort(dim=-1, descending=True, stable=True)
    rank = order.argsort(dim=-1)
    counts = [
        [math.ceil(share * count - 1e-9) for count in words.sum(dim=-1).tolist()] for share in shares
    ]  # 0.07 * 100 is 7
    sizes = torch.tensor(counts, device=words.device).view(len(shares), 1, -1, 1).clamp_min(1)
    return (rank < sizes) & words


def _without(
    mask: Bool[Tensor, "batch key"], removed: Bool[Tensor, "kind share method batch key"], example: Tensor, how: How
) -> PerturbedTexts:
    keys = mask.shape[-1]
    kept = mask.expand_as(removed)
    blank = torch.zeros_like(removed)
    if how == "blank":
        blank = removed
    else:
        left = mask & ~removed
        kept = torch.where(left.any(dim=-1, keepdim=True), left, kept)
    return PerturbedTexts(
        example.expand(removed.shape[:-1]).reshape(-1), kept.reshape(-1, keys), blank.reshape(-1, keys)
    )


def _check(scores: Tensor, words: Tensor, shares: Sequence[float], how: str, unk_id: int | None) -> None:
    if scores.ndim != 3 or scores.shape[1:] != words.shape:
        raise ValueError(
            f"scores must be (method, batch, key) with {tuple(words.shape)} tokens, got shape {tuple(scores.shape)}"
        )
    if not bool(scores.masked_fill(~words, 0).isfinite().all()):
        raise ValueError("scores must be finite on every token that is ranked; some are infinite or not a number")
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ValueError(f"shares must be above 0 and at most 1, got {list(shares)}")
    if how not in get_args(How):
        raise ValueError(f"how must be one of {', '.join(get_args(How))}, got {how!r}")
    if how == "blank" and unk_id is None:
        raise ValueError('how="blank" needs unk_id, the id that removed tokens become')
