"""Does an explanation change when it should, and stay when it should?

It should change when the model's layers have learnt nothing (``randomised``, Adebayo et al. 2018), and stay when the
two texts of a pair change places and the answer does not depend on that (``stability``). Both are rank correlations of
absolute scores; NaN where nobody asked for them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.attributions.ranking import correlate


def randomised(asked: Asked) -> list[Tensor]:
    """Correlate with what the method says of the model with random layers, (batch, layer) for each method."""
    if asked.randomised is None:
        return _nothing(asked)
    return [
        correlate(one.scores.abs().double(), other.scores.abs().double(), asked.ranked[:, None], asked.protocol.ties)
        for one, other in zip(asked.attributions, asked.randomised, strict=True)
    ]


def stability(asked: Asked) -> list[Tensor]:
    """Correlate words' scores with those in the exchanged pair, (batch, layer) for each method."""
    if asked.exchanged is None:
        return _nothing(asked)
    exchange, others = asked.exchanged
    return [
        exchange.stability(one.scores, other.scores, pieces)
        for one, other, pieces in zip(asked.attributions, others, asked.pieces, strict=True)
    ]


def _nothing(asked: Asked) -> list[Tensor]:
    return [torch.full(one.scores.shape[:2], torch.nan, dtype=torch.float64) for one in asked.attributions]
