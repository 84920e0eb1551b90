"""Are the tokens that an attribution points at those the model needs?

ERASER, DeYoung et al. (2020), section 4.2. With ``r`` the top tokens of an attribution, ``p`` the probability of the
target:

    comprehensiveness = p(text) - p(text without r)     high: they were needed
    sufficiency       = p(text) - p(r alone)            low: they are enough

both averaged over several sizes of ``r`` (their AOPC; as their code, over the sizes given). The sizes are shares of the
tokens that stand for words, or of the words, rounded up, so at least one.

Carton, Rathore & Tan (2020), section 4: a model that does not care for any word has a perfect sufficiency. They measure
both against the loss when every word is gone, ``d = max(0, p(text) - p(nothing))``:

    normalised comprehensiveness = max(0, p(text) - p(text without r)) / d          high: they were needed
    normalised sufficiency       = (d - max(0, p(text) - p(r alone))) / d           high: they are enough

both cut to 0 to 1, as in their code. Deviations: there is one rationale there, several sizes here, over which the
fractions are averaged; where ``d`` is 0 (below 1e-5, their bound) nothing can be measured against it and both are NaN,
so that the text is left out of means, while their code counts 0.

How tokens go: ``delete``, the default and theirs, shortens the text; ``blank`` puts UNK in their place; ``hide`` leaves
them where they are, positions too, but no token may attend to them, by the attention mask. A hidden token still has its
own state: where the answer is read from a word (the last token of a causal model) that word is never wholly gone, and
models that count positions by the mask (OPT, BLOOM) close the gap. Special tokens always stay.

Equal scores are ranked by position, the earlier one first. A text of which nothing would be left, or nothing to be seen
(only where there are no special tokens), counts as untouched; a text without words scores 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.attributions.perturbations import ROWS, PerturbedTexts, candidates, probabilities
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.word_pieces import spread, words_there

How = Literal["delete", "blank", "hide"]
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
_NO_LOSS = 1e-5  # when every word is gone: nothing to measure against


class Erasure(NamedTuple):
    """Losses of probability, means over the shares; normalised ones are shares of the loss without any word."""

    comprehensiveness: Float[Tensor, "method batch"]
    sufficiency: Float[Tensor, "method batch"]
    normalised_comprehensiveness: Float[Tensor, "method batch"]
    normalised_sufficiency: Float[Tensor, "method batch"]


def erasure(
    request: AttributionRequest,
    scores: Float[Tensor, "method batch unit"],
    special: Bool[Tensor, "batch key"],
    *,
    shares: Sequence[float] = SHARES,
    how: How = "delete",
    unk_id: int | None = None,
    words: Int[Tensor, "batch key"] | None = None,
    rows: int = ROWS,
    title: str | None = None,
) -> Erasure:
    """Measure comprehensiveness and sufficiency of several attributions of the same texts.

    Args:
        request: The batch and its targets.
        scores: Importance of each token, or of each word where ``words`` is given; the highest come first, so take
            absolute values before where the sign does not matter.
        special: Special tokens; what is said of padding does not matter.
        shares: Sizes of the top, each above 0 and at most 1.
        how: What happens to removed tokens.
        unk_id: What they become with ``how="blank"``; see ``perturbations.blank_id``.
        words: The number of the word each token is a piece of, see ``word_pieces``; words are then erased as a whole.
            None: every token by itself.
        rows: At most so many texts run together.
        title: See ``probabilities``.
    """
    tokens = candidates(request.trace, special)
    units = tokens if words is None else words_there(words.masked_fill(~tokens, -1))
    _check(scores, units, shares, how, unk_id)
    chosen = top(scores, units, shares)  # (share, method, batch, unit)
    chosen = tokens & (chosen if words is None else spread(chosen, words))
    # what is removed: nothing, the top, all but the top, everything
    removed = torch.stack([torch.zeros_like(chosen), chosen, tokens & ~chosen, tokens.expand_as(chosen)])
    used = tokens.any(dim=-1).nonzero()[:, 0]  # texts with words
    perturbed = _without(request.trace.mask[used], removed[..., used, :], used, how)
    found = torch.zeros(removed.shape[:-1], dtype=torch.float64, device=tokens.device)
    answers = probabilities(request, perturbed, unk_id=unk_id, rows=rows, title=title)
    found[..., used] = answers.view(*removed.shape[:-2], len(used))
    return _measured(*found)


def top(
    scores: Float[Tensor, "method batch unit"], units: Bool[Tensor, "batch unit"], shares: Sequence[float]
) -> Bool[Tensor, "share method batch unit"]:
    """Choose the highest tokens (or words) among ``units``, ``ceil(share * units)`` of them.

    >>> import torch
    >>> words = torch.tensor([[False, True, True, True]])
    >>> top(torch.tensor([[[9.0, 1.0, 2.0, 2.0]]]), words, [0.1, 0.5]).int().tolist()
    [[[[0, 0, 1, 0]]], [[[0, 0, 1, 1]]]]
    """
    order = scores.double().masked_fill(~units, -torch.inf).argsort(dim=-1, descending=True, stable=True)
    rank = order.argsort(dim=-1)
    counts = [
        [math.ceil(share * count - 1e-9) for count in units.sum(dim=-1).tolist()] for share in shares
    ]  # 0.07 * 100 is 7
    sizes = torch.tensor(counts, device=units.device).view(len(shares), 1, -1, 1).clamp_min(1)
    return (rank < sizes) & units


def _measured(whole: Tensor, without: Tensor, alone: Tensor, nothing: Tensor) -> Erasure:
    """Make the measures of the answers to four kinds of texts, (share, method, batch) each."""
    most = (whole - nothing).clamp_min(0)
    most = torch.where(most < _NO_LOSS, torch.nan, most)
    needed = (whole - without).clamp_min(0) / most
    enough = (most - (whole - alone).clamp_min(0)) / most
    plain = [(whole - other).mean(dim=0) for other in (without, alone)]
    return Erasure(plain[0], plain[1], *(share.clamp(0, 1).mean(dim=0) for share in (needed, enough)))


def _without(
    mask: Bool[Tensor, "batch key"], removed: Bool[Tensor, "kind share method batch key"], example: Tensor, how: How
) -> PerturbedTexts:
    keys = mask.shape[-1]
    kept = mask.expand_as(removed)
    if how != "blank":  # something must be left
        removed = removed & (mask & ~removed).any(dim=-1, keepdim=True)
    kept = kept & ~removed if how == "delete" else kept
    none = torch.zeros_like(removed)
    return PerturbedTexts(
        example.expand(removed.shape[:-1]).reshape(-1),
        kept.reshape(-1, keys),
        (removed if how == "blank" else none).reshape(-1, keys),
        removed.reshape(-1, keys) if how == "hide" else None,
    )


def _check(scores: Tensor, units: Tensor, shares: Sequence[float], how: str, unk_id: int | None) -> None:
    if scores.ndim != 3 or scores.shape[1:] != units.shape:
        raise ValueError(
            f"scores must be (method, batch, key) with {tuple(units.shape)} tokens, or words where these are given, "
            f"got shape {tuple(scores.shape)}"
        )
    if not bool(scores.masked_fill(~units, 0).isfinite().all()):
        raise ValueError("scores must be finite on every token that is ranked; some are infinite or not a number")
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ValueError(f"shares must be above 0 and at most 1, got {list(shares)}")
    if how not in get_args(How):
        raise ValueError(f"how must be one of {', '.join(get_args(How))}, got {how!r}")
    if how == "blank" and unk_id is None:
        raise ValueError('how="blank" needs unk_id, the id that removed tokens become')
