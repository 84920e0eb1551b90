"""Does a method point at the word that decides? Arras et al. (2025), see ``attributions.ground_truth``.

Only where the data marks that word, as the grammar of ``task=agreement`` does: the subject.
"""

from __future__ import annotations

from torch import Tensor

from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.analyses.faithfulness.subject import SUBJECT
from effective_attention.attributions.ground_truth import ground_truth


def pointing(asked: Asked, measure: str) -> list[Tensor]:
    """Measure how well signed scores find the subject, (batch, layer) for each method."""
    truth = asked.trace.tokens["role"] == SUBJECT
    return [ground_truth(one.scores, truth, asked.ranked)[measure] for one in asked.attributions]
