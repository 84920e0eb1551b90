"""Does an attribution find the tokens that are known to decide? Where the data says which they are.

Measures of Arras et al. (2025, arXiv 2502.15886), who use subject-verb agreement, where the subject decides. With the
tokens ranked by their scores, the highest first:

    mrr     1 / rank of the highest token of the ground truth (its mean over texts: mean reciprocal rank)
    rma     relevance mass accuracy: positive scores of the ground truth / positive scores of all tokens
    pta     1 where the highest token of all belongs to the ground truth, else 0
    pg_k    pointing game with tolerance k: 1 where one of the k highest tokens does, else 0

We could not read the paper's own definition of PTA: this one, which is ``pg_1``, is ours, and so are the conventions:
scores keep their sign, since the ground truth should speak for the class that is explained; negative scores have no
mass, and a text without positive scores has an ``rma`` of 0; a token that ties with the ground truth stands
before it, so that equal scores for all point at nothing.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

TOLERANCES = (3, 5)
MEASURES = ("mrr", "rma", "pta", *(f"pg_{k}" for k in TOLERANCES))


def ground_truth(
    scores: Float[Tensor, "batch layer key"], truth: Bool[Tensor, "batch key"], ranked: Bool[Tensor, "batch key"]
) -> dict[str, Float[Tensor, "batch layer"]]:
    """Compare attributions with the tokens that decide; NaN where a text has none that is ranked.

    Args:
        scores: Of each layer, signed.
        truth: The tokens that decide.
        ranked: The tokens that are ranked, so no padding.

    >>> scores = torch.tensor([[[9.0, 0.1, 0.6, -5.0, 0.4]]])
    >>> truth, ranked = torch.tensor([[0, 0, 0, 0, 1]]).bool(), torch.tensor([[0, 1, 1, 1, 1]]).bool()
    >>> {name: round(float(value), 3) for name, value in ground_truth(scores, truth, ranked).items()}
    {'mrr': 0.5, 'rma': 0.364, 'pta': 0.0, 'pg_3': 1.0, 'pg_5': 1.0}
    """
    truth = (truth & ranked)[:, None]  # (batch, 1, key)
    scores = scores.double()
    best = scores.masked_fill(~truth, -torch.inf).amax(dim=-1, keepdim=True)
    rank = 1 + ((scores >= best) & ranked[:, None] & ~truth).sum(dim=-1)
    mass = torch.where(ranked[:, None], scores, 0).clamp_min(0)
    found = {
        "mrr": 1 / rank.double(),
        "rma": torch.where(truth, mass, 0).sum(dim=-1) / mass.sum(dim=-1).clamp_min(torch.finfo(torch.float64).tiny),
        "pta": (rank == 1).double(),
        **{f"pg_{k}": (rank <= k).double() for k in TOLERANCES},
    }
    known = truth.any(dim=-1)
    return {name: torch.where(known, value, torch.nan) for name, value in found.items()}
