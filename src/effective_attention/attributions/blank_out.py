"""How much less probable does the class become when a token is blanked?

Abnar & Zuidema (2020), section 3 (F4): each token in turn is replaced by UNK; its importance is ``p(class | text) -
p(class | text with UNK in its place)``. Negative where the token spoke against the class. The paper measures "how much
it affects" the probability of the correct class; which class, and whether to take the absolute value, the caller says.

Special tokens are left in place and score 0: without [CLS] or [SEP] the input is none the model was made for.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.attributions.perturbations import ROWS, PerturbedTexts, candidates, probabilities
from effective_attention.attributions.registry import register
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import SharedWork


@register("blank_out", title="blank-out", summary="probability lost when a token alone is blanked", pieces="largest")
def _method(work: SharedWork) -> Float[Tensor, "batch key"]:
    return blank_out(work.request, ~work.words, work.settings.unknown, title=work.settings.title)


def blank_out(
    request: AttributionRequest,
    special: Bool[Tensor, "batch key"],
    unk_id: int,
    *,
    rows: int = ROWS,
    title: str | None = None,
) -> Float[Tensor, "batch key"]:
    """Measure the loss of probability when each token alone is blanked.

    0 on special tokens and padding, and where the token is UNK already.

    Args:
        request: The batch and its targets.
        special: Special tokens; what is said of padding does not matter.
        unk_id: What a blanked token becomes; see ``perturbations.blank_id``.
        rows: At most so many texts run together.
        title: See ``perturbations.probabilities``.
    """
    words = candidates(request.trace, special)
    example, place = words.nonzero(as_tuple=True)  # one entry per token to blank
    blank = torch.nn.functional.one_hot(place, words.shape[1]).bool()
    pairs = PerturbedTexts(  # each beside its untouched text, which runs once for all of them
        example=example.repeat(2),
        keep=request.trace.mask[example].repeat(2, 1),
        blank=torch.cat([torch.zeros_like(blank), blank]),
    )
    whole, without = probabilities(request, pairs, unk_id=unk_id, rows=rows, title=title).view(2, -1)
    scores = torch.zeros(words.shape, dtype=torch.float64, device=words.device)
    scores[example, place] = whole - without
    return scores
