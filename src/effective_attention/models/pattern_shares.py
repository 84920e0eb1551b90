"""Shares of patterns, corrected for the mistakes of the net that counted them.

A net that takes one in ten vertical maps for vertical+diagonal reports too many of these wherever columns are common.
How it errs is known from the held-out maps (``pattern_net.json``), and what it errs by can be taken back: the
corrected shares are those under which the shares that were found are the most likely ones. This is unfolding
(D'Agostini 1995), or the estimate of class priors of Saerens et al. (2002) for a classifier that only tells its answer.

It supposes that the net errs on the maps at hand as on the held-out ones, class by class; how common the classes are
may differ.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.models.pattern_net import pattern_net_facts

STEPS = 2000
"""Steps of the iteration; a further one changes no share by more than about 1e-4."""
_LENT = 10
"""As many maps of a pattern as the held-out maps that were not drawn at random count for."""


def error_rates() -> Float[Tensor, "pattern found"]:
    """Return how often a map of each pattern (row) is taken for each (column), by the held-out maps; rows sum to 1.

    Held-out maps drawn at random say how the net errs on maps as they come, but of rare patterns there are few; those
    drawn because they were likely of one are harder. So the rates of all held-out maps count as ten more maps of each
    pattern. Half a map is spread over each row, so that no mistake is impossible.
    """
    facts = pattern_net_facts()
    return rates_of(*(torch.tensor(facts[name]) for name in ("confusion", "confusion_drawn_at_random")))


def rates_of(
    everything: Float[Tensor, "pattern found"], random: Float[Tensor, "pattern found"]
) -> Float[Tensor, "pattern found"]:
    """Return the error rates by counts of all held-out maps, and of those that were drawn at random."""
    return _rates(random.double() + _LENT * _rates(everything.double() + 0.5 / len(everything)))


def _rates(counts: Tensor) -> Tensor:
    return counts / counts.sum(dim=1, keepdim=True)


def corrected_shares(
    found: Float[Tensor, "*group pattern"], rates: Float[Tensor, "pattern found"], steps: int = STEPS
) -> Float[Tensor, "*group pattern"]:
    """Return the shares p under which the shares ``found`` = p @ ``rates`` are most likely; they sum to 1.

    Expectation and maximisation, from even shares on: each answer is handed back to the patterns it may come from.
    Where nothing was found the result is NaN.

    A net that takes 1 in 10 of the first class for the second, and 1 in 5 the other way round, and answers 55 : 45:

    >>> rates = torch.tensor([[0.9, 0.1], [0.2, 0.8]], dtype=torch.float64)
    >>> [round(share, 3) for share in corrected_shares(torch.tensor([0.55, 0.45]), rates).tolist()]
    [0.5, 0.5]
    """
    rates = rates.double()
    found = found.double()
    shares = torch.where(found.isnan().any(dim=-1, keepdim=True), torch.nan, torch.full_like(found, 1 / len(rates)))
    for _ in range(steps):
        answers = (shares @ rates).clamp_min(1e-300)  # 0 where nothing was found either
        shares = shares * ((found / answers) @ rates.T)
    return shares
