"""What is a token's mean share in the probability, over all orders in which the words of a text could be uncovered?

Shapley values, estimated by sampled orders as in Strumbelj & Kononenko (2010), by captum's ``ShapleyValueSampling``:
the words of a text without words, where every one is blanked, are put back one after the other, and each gets what the
target's probability gained. Signed and complete: in every order the gains add up to ``p(text) - p(blanked text)``, and
so does their mean. Blanked as in ``blank_out``; special tokens stay and score 0.

Orders are the example's own (``Settings.seed`` and its place in the split). One forward pass a word and order: the
error of a score falls with the square root of ``ORDERS``.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.attributions.integrated_gradients import import_captum
from effective_attention.attributions.perturbations import ROWS, PerturbedTexts, candidates, probabilities, progress_of
from effective_attention.attributions.registry import register
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import SharedWork

ORDERS = 10


@register(
    "shapley",
    title="Shapley values",
    summary=f"probability gained when a token is put back, mean of {ORDERS} orders",
    prepare=import_captum,
)
def _method(work: SharedWork) -> Float[Tensor, "batch key"]:
    return shapley_values(work.request, ~work.words, work.settings.unknown, work.seeds, title=work.settings.title)


def shapley_values(
    request: AttributionRequest,
    special: Bool[Tensor, "batch key"],
    unk_id: int,
    seeds: list[int],
    *,
    orders: int = ORDERS,
    title: str | None = None,
) -> Float[Tensor, "batch key"]:
    """Estimate each word's Shapley value in the game "which words are not blanked"; 0 on special tokens and padding.

    Args:
        request: The batch and its targets.
        special: Special tokens; what is said of padding does not matter.
        unk_id: What a blanked token becomes; see ``perturbations.blank_id``.
        seeds: Of each example's orders.
        orders: How many.
        title: Under which is shown how far it has got, if it takes long; None: nothing is shown.
    """
    if orders < 1:
        raise ValueError(f"orders must be at least 1, got {orders}")
    words = candidates(request.trace, special)
    found = torch.zeros(words.shape, dtype=torch.float64, device=words.device)
    with progress_of(title, len(words), "texts") as shown:
        for example, (chosen, seed) in enumerate(zip(words, seeds, strict=True)):
            if bool(chosen.any()):
                found[example, chosen] = _of_text(request, example, chosen, unk_id, seed, orders)
            shown.advance(1)
    return found


def _of_text(
    request: AttributionRequest, example: int, words: Tensor, unk_id: int, seed: int, orders: int
) -> Float[Tensor, " word"]:
    """Let captum play the game with one text."""
    from captum.attr import ShapleyValueSampling  # type: ignore[import-untyped, unused-ignore]

    def worth(uncovered: Float[Tensor, "text word"]) -> Float[Tensor, " text"]:
        texts = len(uncovered)
        blank = torch.zeros(texts, len(words), dtype=torch.bool, device=words.device)
        blank[:, words] = uncovered < 0.5
        whole = torch.full((texts,), example, device=words.device)
        keep = request.trace.mask[whole]
        return probabilities(request, PerturbedTexts(whole, keep, blank), unk_id=unk_id)

    players = torch.ones(1, int(words.sum()), dtype=torch.float64, device=words.device)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        method = ShapleyValueSampling(worth)
        values: Tensor = method.attribute(players, n_samples=orders, perturbations_per_eval=ROWS)
    return values[0].double()
