"""Maps from hidden tokens back to input tokens, trained as in Brunner et al. (2020), appendix B.1.

``linear`` has no bias; ``mlp`` has one hidden layer with gelu, and biases. Weights start Glorot uniform (biases at 0);
Adam has betas 0.9 and 0.999; training stops when the validation loss has not improved for some epochs, and the best
weights are kept. The loss is the cosine distance, or the squared L2 distance, averaged over tokens. All chance comes
from the given generator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu, normalize

from effective_attention.analyses.token_identity.lookup import Distance

Kind = Literal["naive", "linear", "mlp"]
Weights = list[Tensor]
_TOKENS = 8192  # of the validation part in one go


@dataclass(frozen=True)
class Training:
    """The optimiser's options.

    Attributes:
        learning_rate: Of Adam.
        batch_size: Tokens a step.
        hidden_size: Of the MLP.
        patience: Epochs without improvement before training stops.
        max_epochs: Training stops then in any case.
    """

    learning_rate: float = 1e-4
    batch_size: int = 256
    hidden_size: int = 1000
    patience: int = 20
    max_epochs: int = 1000


@dataclass(frozen=True, eq=False)
class Pairs:
    """Hidden tokens and what they should become."""

    source: Float[Tensor, "token width"]
    target: Float[Tensor, "token out"]


@dataclass(frozen=True, eq=False)
class Trained:
    """Attributes: weights: the best; epochs: how many were run; loss: the best validation loss."""

    weights: Weights
    epochs: int
    loss: float


def apply_map(weights: Weights, source: Float[Tensor, "token width"]) -> Float[Tensor, "token out"]:
    """No weights: naive; one matrix: linear; four: MLP."""
    if not weights:
        return source
    if len(weights) == 1:
        return source @ weights[0]
    inner, inner_bias, outer, outer_bias = weights
    return torch.addmm(outer_bias, gelu(torch.addmm(inner_bias, source, inner)), outer)


def distance_loss(
    image: Float[Tensor, "token out"], target: Float[Tensor, "token out"], distance: Distance
) -> Float[Tensor, ""]:
    """Mean over tokens of 1 - cosine, or of the squared distance."""
    if distance == "cosine":
        return 1 - (normalize(image, dim=-1) * normalize(target, dim=-1)).sum(dim=-1).mean()
    return (image - target).square().sum(dim=-1).mean()


def initial_weights(kind: Kind, width: int, out: int, hidden_size: int, generator: torch.Generator) -> Weights:
    """Glorot uniform: from -b to b, b = sqrt(6 / (inputs + outputs)).

    >>> [tuple(weight.shape) for weight in initial_weights("mlp", 4, 3, 7, torch.Generator())]
    [(4, 7), (7,), (7, 3), (3,)]
    """

    def glorot(inputs: int, outputs: int) -> Tensor:
        bound = (6 / (inputs + outputs)) ** 0.5
        return (2 * torch.rand(inputs, outputs, generator=generator) - 1) * bound

    if kind == "linear":
        return [glorot(width, out)]
    return [glorot(width, hidden_size), torch.zeros(hidden_size), glorot(hidden_size, out), torch.zeros(out)]


def train_map(
    kind: Kind, distance: Distance, train: Pairs, validation: Pairs, options: Training, generator: torch.Generator
) -> Trained:
    """Adam until the validation loss no longer improves.

    Args:
        kind: ``linear`` or ``mlp``.
        distance: The loss.
        train: Pairs to learn from.
        validation: Pairs that say when to stop.
        options: See ``Training``.
        generator: On the CPU; for the first weights and the order of tokens.
    """
    width = train.source.shape[1]
    out = train.target.shape[1]
    weights = initial_weights(kind, width, out, options.hidden_size, generator)
    weights = [weight.to(train.source.device).requires_grad_() for weight in weights]
    step = _stepper(weights, distance, train, options)
    best = _copy(weights)
    loss = _loss(weights, validation, distance)
    since = 0
    epoch = 0
    while epoch < options.max_epochs and since < options.patience:
        epoch += 1
        order = torch.randperm(len(train.source), generator=generator).to(train.source.device)
        for chosen in torch.split(order, options.batch_size):
            step(chosen)
        reached = _loss(weights, validation, distance)
        since = 0 if reached < loss else since + 1
        if since == 0:
            best = _copy(weights)
            loss = reached
    return Trained(best, epoch, loss)


def _stepper(weights: Weights, distance: Distance, train: Pairs, options: Training) -> Callable[[Tensor], None]:
    """Return the function that changes the weights by one batch of places."""
    optimizer = torch.optim.Adam(weights, lr=options.learning_rate, betas=(0.9, 0.999), fused=True)

    def step(chosen: Tensor) -> None:
        with torch.enable_grad():
            image = apply_map(weights, train.source[chosen])
            distance_loss(image, train.target[chosen], distance).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return step


@torch.no_grad()
def _loss(weights: Weights, pairs: Pairs, distance: Distance) -> float:
    """In pieces, so that an MLP's hidden layer does not fill the memory."""
    total = torch.zeros((), dtype=torch.float64)
    for source, target in zip(torch.split(pairs.source, _TOKENS), torch.split(pairs.target, _TOKENS), strict=True):
        total += distance_loss(apply_map(weights, source), target, distance).cpu() * len(source)
    return float(total / len(pairs.source))


def _copy(weights: Weights) -> Weights:
    return [weight.detach().clone() for weight in weights]
