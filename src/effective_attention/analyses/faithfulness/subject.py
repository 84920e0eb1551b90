"""Does a method find the word that decides? Only where the data marks it, as the grammar of ``task=agreement`` does."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.data.annotation.tagging import ROLES

SUBJECT, ATTRACTOR = ROLES.index("subject"), ROLES.index("attractor")


def subject_first(
    scores: Float[Tensor, "batch layer key"], role: Int[Tensor, "batch key"]
) -> Float[Tensor, "batch layer"]:
    """Return 1 where the subject's best sub-token outranks every attractor's, else 0; NaN where one is missing."""
    best = [torch.where((role == which)[:, None], scores, -torch.inf).amax(dim=-1) for which in (SUBJECT, ATTRACTOR)]
    there = torch.isfinite(best[0]) & torch.isfinite(best[1])
    return torch.where(there, (best[0] > best[1]).double(), torch.nan)


def subjects(asked: Asked) -> list[Tensor]:
    """Tell by absolute scores whether the subject comes first, (batch, layer) for each method."""
    role = asked.trace.tokens["role"]
    return [subject_first(one.scores.abs().double(), role) for one in asked.attributions]
