"""What every key of every head is to its head: attention received, leverage, lengths of vectors.

Notation: received is the mean over the queries that see a key, as Gu et al. (2024) take it over later ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.attention.decomposition import for_each_head
from effective_attention.attention.leverage import leverage
from effective_attention.attention.trace import Layer
from effective_attention.attributions.ranking import ranks

RECEIVED = ("standard", "effective", "affine")
"""Attentions of which is measured what a key receives."""
OF_KEYS = ("leverage", "affine_leverage", "value_norm", "vector_norm")
"""Measures of a key that need no attention."""
COMPARED = ("standard", "effective", "affine", "norm", "leverage", "value_norm")
"""Measures whose order of keys is compared: mean size of weights received, of what they bring, of the key itself."""
MEASURED = (*RECEIVED, *OF_KEYS)
PAIRS = tuple(combinations(range(len(COMPARED)), 2))
"""Of ``COMPARED``, by their places."""
LEVELS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Attention received, as multiples of what even attention would give: where each class begins."""


@dataclass(frozen=True, eq=False)
class KeyMeasures:
    """Measures of each key in each head of one layer.

    Attributes:
        signed: Mean weight received, by ``RECEIVED``, and the measures ``OF_KEYS``.
        sizes: Measures to compare, by ``COMPARED``; means of absolute weights.
        sees: How many queries see the key.
        even: Weight that the key would receive if every query spread its attention evenly.
        excess: How far an effective weight lies above its bound at most; below 0: every one keeps it.
    """

    signed: Mapping[str, Float[Tensor, "batch head key"]]
    sizes: Mapping[str, Float[Tensor, "batch head key"]]
    sees: Float[Tensor, "batch head key"]
    even: Float[Tensor, "batch head key"]
    excess: Float[Tensor, "batch head"]


@torch.no_grad()
def key_measures(
    layer: Layer, mask: Bool[Tensor, "batch key"], blocks: Float[Tensor, "head d_head width"] | None
) -> KeyMeasures:
    """Measure a layer.

    Args:
        layer: Its attention.
        mask: True on real tokens.
        blocks: Each head's rows of the output projection; None: unknown, and a value's own length counts.
    """
    visible = torch.ones_like(mask)[:, None, None] if layer.visible is None else layer.visible
    pairs = visible & mask[:, None, :, None] & mask[:, None, None, :]  # (batch, 1 or head, query, key)
    sees = pairs.sum(dim=-2).double().expand(-1, layer.shape[1], -1)

    def received(weights: Tensor) -> Tensor:
        return torch.where(pairs, weights, 0).sum(dim=-2, dtype=torch.float64) / sees.clamp_min(1)

    weights = {name: layer.part(name) for name in RECEIVED}
    seen = visible & mask[:, None, None]
    value = layer.value[:, :: layer.groups]  # grouped queries share theirs
    by_query = leverage(value, seen)
    free = [
        _mean_over(for_each_head(found, layer.shape[1]), pairs, sees)
        for found in (by_query, leverage(value, seen, space="affine"))
    ]
    real = mask[:, None].expand_as(sees)
    lengths = torch.linalg.vector_norm(layer.value.double(), dim=-1)
    vectors = lengths if blocks is None else torch.linalg.vector_norm(layer.value.double() @ blocks.double(), dim=-1)
    of_keys = *free, _relative(lengths, real), _relative(vectors, real)
    sizes = {name: received(part.abs()) for name, part in weights.items()}
    sizes |= {"norm": sizes["standard"] * vectors, "leverage": free[0], "value_norm": lengths}
    signed = {name: received(part) for name, part in weights.items()} | dict(zip(OF_KEYS, of_keys, strict=True))
    even = received(1 / pairs.sum(dim=-1, keepdim=True).clamp_min(1).double())
    return KeyMeasures(signed, sizes, sees, even, _excess(layer, for_each_head(by_query, layer.shape[1]), pairs))


def _mean_over(found: Tensor, pairs: Tensor, sees: Tensor) -> Tensor:
    """Average what a key is to each query over the queries that see it."""
    if found.shape[2] == 1:
        return found[:, :, 0].expand_as(sees)
    return torch.where(pairs, found, 0).sum(dim=-2) / sees.clamp_min(1)


def _relative(lengths: Tensor, real: Tensor) -> Tensor:
    """Divide by the mean over an example's keys, head by head."""
    mean = torch.where(real, lengths, 0).sum(dim=-1, keepdim=True) / real.sum(dim=-1, keepdim=True).clamp_min(1)
    return lengths / mean.clamp_min(torch.finfo(torch.float64).tiny)


def _excess(layer: Layer, by_query: Tensor, pairs: Tensor) -> Tensor:
    """Return the largest ``|A_effective| - ||a|| sqrt(h)`` over all entries, (batch, head)."""
    own = torch.where(pairs, layer.exact.attention, 0)
    bound = torch.linalg.vector_norm(own, dim=-1, keepdim=True, dtype=torch.float64) * by_query.sqrt()
    over = torch.where(pairs, layer.exact.effective.abs() - bound, -torch.inf)
    return over.flatten(2).amax(dim=-1)


def candidates(measures: KeyMeasures, mask: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch head key"]:
    """Tell which keys are seen by at least half of a text's queries: of the last few a mean says little."""
    queries = mask.sum(dim=-1)[:, None, None]
    return (2 * measures.sees >= queries) & mask[:, None]


def strongest(measures: KeyMeasures, among: Bool[Tensor, "batch head key"]) -> Bool[Tensor, "batch head key"]:
    """Mark the key that receives most attention in each head."""
    place = torch.where(among, measures.signed["standard"], -1).argmax(dim=-1, keepdim=True)
    return torch.zeros_like(among).scatter(-1, place, True)


def correlations(
    measures: KeyMeasures, among: Bool[Tensor, "batch head key"]
) -> Float[Tensor, "batch head measure measure"]:
    """Correlate the ranks of keys by any two of ``COMPARED`` (Spearman); NaN where one is the same for all keys."""
    scores = torch.stack([measures.sizes[name].expand_as(among).double() for name in COMPARED], dim=2)
    chosen = among[:, :, None].expand_as(scores)
    order = ranks(scores, chosen)
    count = chosen.sum(dim=-1, keepdim=True).clamp_min(1)
    centred = torch.where(chosen, order - order.sum(dim=-1, keepdim=True) / count, 0)
    size = centred.norm(dim=-1)
    both = size[..., :, None] * size[..., None, :]
    return torch.where(both > 1e-9, centred @ centred.mT / both.clamp_min(1e-9), torch.nan)
