"""What is attributed to the tokens: for each example of a traced batch, one output of a classifier.

That output is the ``probability`` of a class, or the score of a regression. What is differentiated is the ``evidence``,
the class's log-odds ``log(p / (1 - p))``: its logit minus the logsumexp of the others. A confident model's probability
is flat and its gradient drowns in rounding; the log-odds' gradient is that of the probability divided by ``p (1 - p)``,
one number for the whole example, so that the ranks of its tokens are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from effective_attention.attention.rerun import autograd_on, check_watched, model_inputs, removed_after, watching
from effective_attention.attention.trace import Trace
from effective_attention.attributions.embedding import token_embedding


@dataclass(frozen=True, eq=False)
class Gradients:
    """Derivatives of the evidence.

    Attributes:
        embeddings: Of the input tokens, before positions are added.
        embedding: d evidence / d embeddings.
        attention: d evidence / d attention weights, for each layer. The weights count as free: softmax is not part of
            it.
    """

    embeddings: Float[Tensor, "batch key width"]
    embedding: Float[Tensor, "batch key width"]
    attention: tuple[Float[Tensor, "batch head query key"], ...]


@dataclass(frozen=True, eq=False)
class AttributionRequest:
    """A batch, and for each of its examples the target whose output is attributed to the tokens.

    Attributes:
        trace: The batch, with logits (batch, classes), or (batch, 1) of a regression.
        target: The class whose probability is attributed; ignored where there is one output.
    """

    trace: Trace
    target: Int[Tensor, " batch"]

    def __post_init__(self) -> None:
        shape = tuple(self.trace.logits.shape)
        name = type(self.trace.model).__name__
        if len(shape) != 2:
            raise ValueError(
                f"logits must be (batch, classes) to explain a class, {name} gave shape {shape}; use a classifier"
            )
        if tuple(self.target.shape) != shape[:1]:
            raise ValueError(
                f"target must be one class for each of {shape[0]} examples, got shape {tuple(self.target.shape)}"
            )
        if shape[1] > 1 and shape[0] and not 0 <= int(self.target.min()) <= int(self.target.max()) < shape[1]:
            raise ValueError(
                f"target must be from 0 to {shape[1] - 1}, got {int(self.target.min())} to {int(self.target.max())}"
            )

    def probability(
        self, logits: Float[Tensor, "row classes"], examples: Int[Tensor, " row"] | None = None
    ) -> Float[Tensor, " row"]:
        """Take the probability of the target, or the score of a regression.

        In double precision: differences near 1 are kept.

        Args:
            logits: What the model answered.
            examples: Whose target each row is for; None: the batch itself.
        """
        if logits.shape[-1] == 1:
            return logits[:, 0].double()
        return logits.double().softmax(dim=-1).gather(1, self._targets(examples))[:, 0]

    def evidence(
        self, logits: Float[Tensor, "row classes"], examples: Int[Tensor, " row"] | None = None
    ) -> Float[Tensor, " row"]:
        """Take the log-odds of the target, or the score of a regression: what is differentiated.

        Arguments as for ``probability``.
        """
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if logits.shape[-1] == 1:
            return logits[:, 0]
        target = self._targets(examples)
        others = logits.scatter(1, target, -torch.inf)
        return logits.gather(1, target)[:, 0] - others.logsumexp(dim=-1)

    def _targets(self, examples: Tensor | None) -> Tensor:
        """Look up the targets, (row, 1); a copy, as autograd cannot save a tensor of inference mode."""
        return (self.target.clone() if examples is None else self.target[examples])[:, None]

    @cached_property
    def gradients(self) -> Gradients:
        """Run one forward and one backward pass.

        Examples do not interact, so that all evidence is differentiated at once.
        """
        model = self.trace.transformer
        starts = []

        def start_here(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
            starts.append(output.detach().requires_grad_())
            return starts[-1]

        with token_embedding(self.trace) as embed, autograd_on(), watching(model) as calls:
            with removed_after([embed.register_forward_hook(start_here)]):
                evidence = self.evidence(model(**model_inputs(self.trace)).logits).sum()
            check_watched(self.trace, calls)
            if len(starts) != 1:
                raise ValueError(
                    f"{type(model).__name__} used its input embeddings {len(starts)} times; one text was expected"
                )
            embedding, *attention = torch.autograd.grad(evidence, [starts[0], *(call.weights for call in calls)])
        return Gradients(starts[0].detach(), embedding, tuple(attention))
