"""One layer's attention: its weights, values and masks, and the parts they are split into when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.attention.call import AttentionCall, ScoredCall
from effective_attention.attention.decomposition import Decomposition, decompose, for_each_head, rank_of
from effective_attention.attention.long_weights import LongWeights, long_weights
from effective_attention.attention.readings import EXACT, Reading, Space
from effective_attention.attention.record import AttentionSwap, Mask
from effective_attention.attention.variants import PARTS, VARIANTS

Part = str
"""The name of an attention that a trace can show, one of ``variants.PARTS``."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer's attention.

    Attributes:
        weights: Attention after softmax, (batch, head, query, key); rows of padding are there too, see ``Trace.mask``.
            Of a long text, what makes its rows when they are asked for.
        value: One set of values per head (repeated under grouped-query attention).
        visible: What each query may see, (batch, 1 or head, 1 or query, key); None: everything.
        reading: What ``part`` means by effective attention; one that pads wants inputs of the maximum length.
        query: As the model compares them with keys, rotated where it rotates; None: not recorded.
        key: One set per head, as of values.
        scaling: The factor of query times key before the softmax; None: not known.
        groups: How many heads share a set of values, which is then split once for all of them.
        seen: The keys that count for the rank, (batch, 1 or head, key), where padding sees more (``record.Mask``).
    """

    weights: Float[Tensor, "batch head query key"] | LongWeights
    value: Float[Tensor, "batch head key d_head"]
    visible: Bool[Tensor, "batch heads queries key"] | None = None
    reading: Reading = EXACT
    query: Float[Tensor, "batch head query d_key"] | None = None
    key: Float[Tensor, "batch head key d_key"] | None = None
    scaling: float | None = None
    groups: int = 1
    seen: Bool[Tensor, "batch heads key"] | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return that of the attention: batch, head, query, key."""
        batch, head, query, key = self.weights.shape
        return batch, head, query, key

    @property
    def is_long(self) -> bool:
        """Tell whether the weights are too large to be kept; then ``rows`` is the way to read them."""
        return not isinstance(self.weights, Tensor)

    @property
    def attention(self) -> Float[Tensor, "batch head query key"]:
        """Return the whole matrix; of a long text it is made anew each time, and large."""
        return self.weights if isinstance(self.weights, Tensor) else self.weights.standard(slice(None))

    def blocks(self) -> list[slice]:
        """Divide the queries into blocks to be read one after the other: one, unless the text is long."""
        return [slice(0, self.shape[2])] if isinstance(self.weights, Tensor) else self.weights.blocks()

    def rows(self, name: str, queries: slice) -> Float[Tensor, "batch head some key"]:
        """Return some rows of ``part(name)``; of a long text no others are made."""
        if isinstance(self.weights, Tensor) or name not in PARTS:
            return self.part(name)[:, :, queries]
        standard = self.weights.standard(queries)
        if name == "standard":
            return standard
        record = VARIANTS[name]
        long = self.weights.affine if (record.space or self.reading.space) == "affine" else self.weights
        rows = Decomposition(standard, self.value, long.effective(queries), long.rank)
        return record.part(rows)  # type: ignore[misc]

    @property
    def rank(self) -> Int[Tensor, "batch head"]:
        """Return the rank of each head's values that are seen."""
        return self.exact.rank if isinstance(self.weights, Tensor) else self.weights.rank

    @cached_property
    def exact(self) -> Decomposition:
        """Split the attention into effective and null part, with padding removed before, as the papers define it."""
        return self._split("value")

    @cached_property
    def affine(self) -> Decomposition:
        """Split it in affine space, where effective rows sum to 1; padding is removed before here too."""
        return self._split("affine")

    def _split(self, space: Space, epsilon: float = 0.0) -> Decomposition:
        value = self.value[:, :: self.groups]
        parts = decompose(self.attention, value, self.visible, space=space, epsilon=epsilon)
        return parts if self.seen is None else replace(parts, rank=rank_of(value, self.seen, self.shape[1], space))

    @cached_property
    def _parts(self) -> Decomposition:
        """Split it as it is to be read."""
        if self.reading.pads:
            return decompose(self.attention, self.value, self.visible, reading="padded")
        if self.reading.epsilon > 0:
            return self._split(self.reading.space, self.reading.epsilon)
        return self.affine if self.reading.space == "affine" else self.exact

    def part(self, name: str) -> Float[Tensor, "batch head query key"]:
        """Return standard, effective, null or affine attention.

        Raises:
            ValueError: There is no such part.
        """
        if name == "standard":
            return self.attention  # without a split, and rows of hidden keys as the model has them
        if name not in PARTS:
            raise ValueError(f"attention must be one of {', '.join(PARTS)}, got {name!r}")
        record = VARIANTS[name]
        return record.part(self.affine if record.space == "affine" else self._parts)  # type: ignore[misc]


@dataclass(frozen=True, eq=False)
class CutLayer(Layer):
    """One example of a layer; its parts are cut out of those of the whole layer, which is split once for all examples.

    Attributes:
        whole: The layer of the batch.
        place: The example's row of the batch, and its real tokens: queries and keys.
    """

    whole: Layer | None = None
    place: tuple[int, Tensor, Tensor] | None = None

    @classmethod
    def out_of(cls, layer: Layer, row: int, queries: Tensor, keys: Tensor) -> Layer:
        """Cut one example's real tokens out of a layer."""
        visible = layer.visible
        if visible is not None:
            visible = visible.expand(layer.shape[0], *visible.shape[1:])[row : row + 1][..., keys]
            visible = visible if visible.shape[2] == 1 else visible[:, :, queries]
        own = slice(row, row + 1)
        return cls(
            layer.attention[own][:, :, queries][..., keys],
            layer.value[own][:, :, keys],
            visible,
            layer.reading,
            query=None if layer.query is None else layer.query[own][:, :, queries],
            key=None if layer.key is None else layer.key[own][:, :, keys],
            scaling=layer.scaling,
            groups=layer.groups,
            whole=layer,
            place=(row, queries, keys),
        )

    @cached_property
    def exact(self) -> Decomposition:
        """Cut the example out of the whole layer's split."""
        return self.whole.exact.example(*self.place)  # type: ignore[union-attr, misc]

    @cached_property
    def affine(self) -> Decomposition:
        """Cut it out of the whole layer's split in affine space."""
        return self.whole.affine.example(*self.place)  # type: ignore[union-attr, misc]

    @cached_property
    def _parts(self) -> Decomposition:
        return self.whole._parts.example(*self.place)  # type: ignore[union-attr, misc]


def run_layer(call: AttentionCall, record: AttentionSwap, reading: Reading) -> tuple[Tensor, Layer]:
    """Run the model's own attention; return what it hands on, (batch, query, head, d_value), and what it tells.

    Args:
        call: The layer's.
        record: Reads masks, once for all layers.
        reading: See ``Layer``.
    """
    mask = record.mask(call)
    by_blocks = not reading.pads and reading.epsilon == 0
    long = long_weights(call, mask) if by_blocks else None
    if long is not None:
        return long.output.transpose(1, 2).contiguous(), _layer(call, long, mask, reading)
    output, weights = call.eager()
    assert weights is not None
    return output, _layer(call, weights.detach(), mask, reading)


def _layer(call: AttentionCall, weights: Tensor | LongWeights, mask: Mask, reading: Reading) -> Layer:
    heads = weights.shape[1]
    value = for_each_head(call.value, heads).detach()
    groups = heads // call.value.shape[1]
    return Layer(
        weights, value, mask.visible, reading, groups=groups, seen=mask.seen_by_some, **_scores_of(call, heads)
    )


def _scores_of(call: AttentionCall, heads: int) -> dict[str, Any]:
    """Return the queries and keys that a layer compared; nothing where only their weights were seen."""
    if not isinstance(call, ScoredCall):
        return {}
    return {
        "query": call.query.detach(),
        "key": for_each_head(call.key, heads).detach(),
        "scaling": call.options.get("scaling"),
    }
