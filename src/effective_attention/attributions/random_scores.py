"""Random scores: what guessing would earn."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attributions.registry import register
from effective_attention.attributions.shared_work import SharedWork


@register("random", title="random", summary="no attribution: uniform noise", pieces="largest")
def random_scores(work: SharedWork) -> Float[Tensor, "batch key"]:
    """Draw scores that depend on the example and the seed alone, not on the batch it comes in."""
    mask = work.trace.mask.cpu()
    scores = torch.zeros(mask.shape, dtype=torch.float64)
    for place, seed in enumerate(work.seeds):
        generator = torch.Generator().manual_seed(seed)
        scores[place, mask[place]] = torch.rand(int(mask[place].sum()), generator=generator, dtype=torch.float64)
    return scores.to(work.trace.mask.device)
