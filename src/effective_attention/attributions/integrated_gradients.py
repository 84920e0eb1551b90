"""How does the evidence build up on the straight way from a text without words to the text?

Sundararajan et al. (2017): ``(x - x0) * integral of dE/dx`` along the line from the baseline ``x0`` to ``x``, here at
the input embeddings, by captum's ``LayerIntegratedGradients`` (Gauss-Legendre). Summed over a token's width the scores
are signed and complete: those of a text add up to ``evidence(x) - evidence(baseline)``, up to the error of the
quadrature. On the tests' tiny models, with 64 steps, that is below 1e-6, but up to some 1e-3 where the head has a
ReLU, as DistilBERT's has.

Baseline: every word's embedding is that of one blank token (UNK or padding, see ``perturbations.blank_id``). Special
tokens and padding keep their own and score 0; positions, token types and the mask stay those of the text.
"""

from __future__ import annotations

from importlib import import_module

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.attention.hook import evaluation_mode
from effective_attention.attention.rerun import autograd_on, model_inputs
from effective_attention.attributions.embedding import token_embedding
from effective_attention.attributions.perturbations import ROWS, candidates, progress_of, rows_together
from effective_attention.attributions.registry import register
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import STEPS, SharedWork


def import_captum() -> None:
    """Import captum, which takes a second and so waits until it is needed."""
    import_module("captum.attr")


@register(
    "integrated_gradients",
    title="integrated gradients",
    summary="gradients on the way from a baseline without words",
    prepare=import_captum,
)
def _method(work: SharedWork) -> Float[Tensor, "batch key"]:
    settings = work.settings
    return integrated_gradients(work.request, ~work.words, settings.unknown, steps=settings.steps, title=settings.title)


def integrated_gradients(
    request: AttributionRequest,
    special: Bool[Tensor, "batch key"],
    blank_id: int,
    *,
    steps: int = STEPS,
    rows: int = ROWS,
    title: str | None = None,
) -> Float[Tensor, "batch key"]:
    """Compute each token's share of ``evidence(text) - evidence(baseline)``; 0 on special tokens and padding.

    Args:
        request: The batch and its targets.
        special: Special tokens; what is said of padding does not matter.
        blank_id: What every word of the baseline is.
        steps: Points of the quadrature.
        rows: At most so many texts run together, but at least the batch.
        title: Under which is shown how far it has got, if it takes long; None: nothing is shown.
    """
    from captum.attr import LayerIntegratedGradients  # type: ignore[import-untyped, unused-ignore]

    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    model = request.trace.transformer
    shown = progress_of(title, (steps + 2) * len(request.trace.mask), "steps")  # 2: captum runs both ends, too
    with token_embedding(request.trace) as embed, autograd_on(), evaluation_mode(model), shown:
        words = candidates(request.trace, special)
        inputs = model_inputs(request.trace)
        ids = inputs.pop("input_ids")
        names = list(inputs)

        def evidence(tokens: Tensor, examples: Tensor, *others: Tensor) -> Tensor:
            logits = model(input_ids=tokens, **dict(zip(names, others, strict=True))).logits
            shown.advance(len(tokens))
            return request.evidence(logits, examples)

        found = LayerIntegratedGradients(evidence, embed).attribute(
            ids,
            baselines=ids.masked_fill(words, blank_id),
            additional_forward_args=(torch.arange(len(ids), device=ids.device), *inputs.values()),
            n_steps=steps,
            internal_batch_size=max(rows_together(ids.shape[1], ids.device, rows), len(ids)),
        )
    return found.detach().sum(dim=-1).masked_fill(~words, 0)
