"""The linear map in closed form: least squares with a penalty, far faster than gradient descent.

For squared L2 this is the very problem that Adam descends on. For cosine it is a surrogate: the targets are scaled to
unit length and regressed on, and only the lookup is by cosine; the cosine loss itself has no closed form. The penalty
(a multiple of the mean eigenvalue of the Gram matrix) is chosen from a small grid by the rate of tokens identified in
the validation part: the squared error would choose a larger one, which shrinks all images to their mean and so costs
identity. Gram matrices are in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from effective_attention.analyses.token_identity.lookup import Distance

PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True, eq=False)
class Gram:
    """Eigenvalues and eigenvectors of E^T E, which every target and every penalty share."""

    values: Float[Tensor, " width"]
    vectors: Float[Tensor, "width width"]

    @classmethod
    def of(cls, source: Float[Tensor, "token width"]) -> Gram:
        source = source.double()
        values, vectors = torch.linalg.eigh(source.mT @ source)
        return cls(values.clamp_min(0), vectors)


def ridge_maps(
    gram: Gram,
    source: Float[Tensor, "token width"],
    target: Float[Tensor, "token out"],
    distance: Distance,
    penalties: Sequence[float] = PENALTIES,
) -> list[Float[Tensor, "width out"]]:
    """argmin_W |E W - Y|^2 + penalty * mean eigenvalue * |W|^2, for each penalty, in float32."""
    aim = normalize(target.double(), dim=-1) if distance == "cosine" else target.double()
    rotated = gram.vectors.mT @ (source.double().mT @ aim)
    scale = gram.values.mean()
    return [(gram.vectors @ (rotated / (gram.values + penalty * scale)[:, None])).float() for penalty in penalties]


def best_map(maps: Sequence[Tensor], rate: Callable[[Tensor], float]) -> Tensor:
    """Return the map with the highest rate; of equals that with the larger penalty, which is the steadier."""
    rates = [rate(weights) for weights in maps]
    return max(zip(rates, range(len(maps)), maps, strict=True), key=lambda one: one[:2])[2]
