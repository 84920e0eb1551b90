"""How much does each hidden embedding depend on each input token? Norms of the blocks of the Jacobian.

Brunner et al. (2020), Eq. 11: ``c_ij^l = ||de_j^l/dx_i|| / sum_k ||de_j^l/dx_k||``, here at [layer, query = j, key =
i]. ``x_i`` is what the first layer reads (``first_layer``), or the embeddings' sum before its LayerNorm,
``e_j^l`` the output of layer l, and the norm is that of Frobenius.

Forward mode: one pass in a direction u at position i gives ``(de_j^l/dx_i) u`` for all layers l and positions j at
once, so that ``width`` passes a position are exact. Reverse mode needs a pass for every coordinate of every layer's
output, and is measured beside it in ``benchmarks/token_mixing.py``.

Estimate: k random orthonormal directions give ``||J||^2 ~ width / k * sum ||J u||^2``, unbiased, and exact at k =
    width. All
positions share their directions: part of the error is then common to a row's blocks and falls out when the row is
normalised.

Stated error: the k samples of a row are independent but for being orthogonal, which makes the variance of their mean
``(1 - k / width) / k`` times their sample variance, exactly. It is carried to c by the linear part of the square root
and of the normalisation, so that it holds where it is small.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.token_mixing.first_layer import Embeddings, Hidden, from_first_layer
from effective_attention.analyses.token_mixing.tangents import SharedDerivatives
from effective_attention.attention.trace import Trace, one_text

# Numbers in a chunk of tangents of one hidden state. Larger ones leave the processor's cache: on 53 tokens of width
# 384, where this makes 32 tangents, 128 took 9 % longer each, and 8 took 32 % longer because each chunk runs the model
# itself too.
_CHUNK = 32 * 53 * 384


@dataclass(frozen=True, eq=False)
class Contributions:
    """What one text's hidden embeddings are made of.

    Attributes:
        norms: Of the blocks of the Jacobian.
        shares: Norms, divided by the sum over keys: each row sums to 1.
        errors: Standard errors of the shares; 0 where they are exact.
    """

    norms: Float[Tensor, "layer query key"]
    shares: Float[Tensor, "layer query key"]
    errors: Float[Tensor, "layer query key"]


def contributions(
    trace: Trace,
    row: int = 0,
    *,
    directions: int | None = None,
    seed: int = 0,
    embeddings: Embeddings = "normalised",
) -> Contributions:
    """Each input token's contribution to each hidden embedding of one text of a batch; padding plays no part.

    Args:
        trace: A batch; the model is run again, one text alone.
        row: Which text.
        directions: How many random directions at each position, at least 2; None: all, which is exact. Sums may be
            narrower than hidden states (ALBERT's): then as many as they are wide, at most.
        seed: Of the directions.
        embeddings: What contributes, see ``from_first_layer``.

    Raises:
        ValueError: ``directions`` does not fit, or the model cannot be run from its first layer.
    """
    with (
        torch.inference_mode(False),
        torch.no_grad(),
        from_first_layer(trace.model, one_text(trace, row), embeddings=embeddings) as (run, x),
    ):
        width = x.shape[-1]
        if directions is None or width <= directions <= trace.hidden[0].shape[-1]:
            return normalise(squared_norms(run, x, torch.eye(width, dtype=x.dtype, device=x.device)).sum(dim=-1))
        samples = squared_norms(run, x, random_directions(width, directions, seed).to(x), keep=True)
        return estimate(samples, width)


def random_directions(width: int, count: int, seed: int) -> Float[Tensor, "direction width"]:
    """Orthonormal rows, uniformly distributed, in double precision; the global random state is left alone."""
    if not 2 <= count <= width:
        raise ValueError(f"directions must be from 2 to the width of the hidden states, {width}, got {count}")
    normal = torch.randn(width, count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.linalg.qr(normal).Q.T


def squared_norms(
    run: Hidden, x: Float[Tensor, "1 key width"], directions: Float[Tensor, "direction width"], *, keep: bool = False
) -> Float[Tensor, "layer query key sample"]:
    """Return ``||(de_j^l/dx_i) u||^2`` for every direction u, summed over directions unless they are kept apart.

    Args:
        run: From the first layer's input to all layers' outputs.
        x: The first layer's input.
        directions: The same for every position.
        keep: Every direction's number: memory for layer x query x key x direction.
    """
    size, width = x.shape[1:]
    count = len(directions)

    def one(place: Tensor, direction: Tensor) -> Tensor:
        tangent = torch.nn.functional.one_hot(place, size)[:, None].to(x.dtype) * direction  # (key, width)
        with SharedDerivatives():
            outputs = torch.func.jvp(run, (x,), (tangent[None],))[1]
        return torch.stack([output[0].square().sum(dim=-1) for output in outputs])  # (layer, query)

    chunk = max(1, _CHUNK // (size * width))
    places = torch.split(torch.arange(size, device=x.device).repeat_interleave(count), chunk)
    numbers = torch.split(torch.arange(count, device=x.device).repeat(size), chunk)
    found: Tensor | None = None
    for place, number in zip(places, numbers, strict=True):
        values = torch.func.vmap(one)(place, directions[number]).double()  # (chunk, layer, query)
        if found is None:
            found = values.new_zeros(size, count if keep else 1, *values.shape[1:])
        found.index_put_((place, number if keep else torch.zeros_like(number)), values, accumulate=True)
    return found.permute(2, 3, 0, 1)  # type: ignore[union-attr]


def normalise(squares: Float[Tensor, "layer query key"]) -> Contributions:
    """From exact squared norms."""
    norms = squares.sqrt()
    return Contributions(norms, norms / norms.sum(dim=-1, keepdim=True), torch.zeros_like(norms))


def estimate(samples: Float[Tensor, "layer query key sample"], width: int) -> Contributions:
    """From the squared norms along some of ``width`` orthonormal directions."""
    count = samples.shape[-1]
    means = samples.mean(dim=-1)
    exact = normalise(width * means)
    shares = exact.shares
    # c_i changes by c_i (r_i - sum_m c_m r_m) / 2 when each mean changes by the factor 1 + r
    relative = samples / means.clamp_min(torch.finfo(means.dtype).tiny)[..., None]  # 0 where the block is 0
    common = torch.einsum("lqk,lqks->lqs", shares, relative)
    change = (relative - common[:, :, None]) / 2
    variance = change.var(dim=-1) * (1 - count / width) / count
    return Contributions(exact.norms, shares, shares * variance.sqrt())
