"""What does the model lose without a method's highest tokens, and with these alone? ERASER (``attributions.erasure``).

``normalised_`` measures are shares of what is lost without any word (Carton, Rathore & Tan 2020). Each is measured for
every way to erase that was asked for.
"""

from __future__ import annotations

from torch import Tensor

from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.analyses.faithfulness.ways import Way


def comprehensiveness(asked: Asked, way: Way) -> list[Tensor]:
    """Return the probability lost without the highest tokens, (batch, 1) for each method."""
    return list(asked.erasures[way].comprehensiveness[..., None])


def sufficiency(asked: Asked, way: Way) -> list[Tensor]:
    """Return the probability lost with these tokens alone, (batch, 1) for each method."""
    return list(asked.erasures[way].sufficiency[..., None])


def normalised_comprehensiveness(asked: Asked, way: Way) -> list[Tensor]:
    """Return the share that is lost without the highest tokens, (batch, 1) for each method."""
    return list(asked.erasures[way].normalised_comprehensiveness[..., None])


def normalised_sufficiency(asked: Asked, way: Way) -> list[Tensor]:
    """Return the share that is kept with these tokens alone, (batch, 1) for each method."""
    return list(asked.erasures[way].normalised_sufficiency[..., None])
