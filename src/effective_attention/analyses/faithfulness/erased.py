"""What does the model lose without a method's highest tokens, and with these alone? See ``attributions.erasure``."""

from __future__ import annotations

from torch import Tensor

from effective_attention.analyses.faithfulness.asked import Asked


def comprehensiveness(asked: Asked) -> list[Tensor]:
    """Return the probability lost without the highest tokens, (batch, 1) for each method."""
    return list(asked.erasure.comprehensiveness[..., None])


def sufficiency(asked: Asked) -> list[Tensor]:
    """Return the probability lost with these tokens alone, (batch, 1) for each method."""
    return list(asked.erasure.sufficiency[..., None])
