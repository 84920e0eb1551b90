"""How large is the null space, how much attention lies in it, and how much of the published effect is padding?

Brunner et al. (2020), Eq. 6 and Fig. 1a, per head and measured, not only the bound ``n - d_head``:

- ``rank`` of the values, ``nullity`` = visible keys - rank, ``nontrivial``: share of examples with nullity > 0;
- ``null_mass``: share of attention in the null part, ``||A_null||_F / ||A||_F``;
- ``pearson``: correlation of all weights of a head, standard against effective, also by length.

All sums run over real queries and keys. The published protocol (Sun & Marasovic 2021) pads to the maximum length first
and keeps the padding inside the null space. For a random subset of the examples the same quantities are therefore given
three times over: ``exact`` (all examples), ``exact_subset`` and ``padded`` (the same few, in both readings). How much
of ``padded`` is padding, two distances say: ``padding_shift``, ``||A_effective(padded) - A_effective|| /
||A_effective||``, and the ``output_change`` that the padded reading causes. (The difference of the two null masses says
less: norms do not add, so that two null parts of one size may be quite different maps.)

The paper's null space is that of ``T = E W^V H``, with ``H`` the head's rows of the output projection, ours that of
``V`` alone (``E W^V``, with the bias that the model adds). For another random subset ``projected`` therefore gives the
same quantities for ``T = V H``, the ``projection_rank`` of ``H`` and the ``effective_gap`` ``||A_effective(V) -
A_effective(T)||_F / ||A||_F``: where ``H`` has full row rank (``d_head``) the two null spaces are one and the gap is
rounding. ``T`` itself, as wide as the model, is never made: ``H^T = Q R`` with orthonormal ``Q``, so that ``T = (V R^T)
Q^T`` has the left null space of ``V R^T``.

Of a model that reads one text and writes another, its decoder and its cross-attention have the ``exact`` rows alone;
``length`` is how many keys there are.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import is_whole_number
from effective_attention.analyses.common.samples import in_sample, sample
from effective_attention.analyses.common.schema import (
    HEAD,
    LAYER,
    Block,
    Column,
    Schema,
    attention_column,
    count_column,
)
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.attention.decomposition import decompose
from effective_attention.attention.trace import Layer, Trace
from effective_attention.attributions.norms import head_blocks, output_projections
from effective_attention.errors import UserError

log = logging.getLogger(__name__)

QUANTITIES = (
    "rank",
    "nullity",
    "nontrivial",
    "null_mass",
    "pearson",
    "padding_shift",
    "output_change",
    "projection_rank",
    "effective_gap",
)
_CONSTANT = 1e-6  # of the sum of squares: a variance that float32 cannot tell from 0, so that no correlation is defined
_RTOL = 8 * torch.finfo(torch.float32).eps  # as ``decompose`` draws the line for values of float32
READINGS = ("exact", "exact_subset", "padded", "projected")
_SHARED = QUANTITIES[:5]  # quantities that every reading has
_BY_HEAD = ("layer", "head")
SCHEMA = Schema(
    (
        Column(
            "reading",
            "exact (all examples), exact_subset and padded (the same few), or projected: T = V H in place of V",
            "name",
            READINGS,
            key=True,
        ),
        attention_column("effective"),
        Column(
            "quantity",
            "rank of the values; nullity: keys minus rank; nontrivial: share of examples with nullity above 0; "
            "null_mass: norm of the null part divided by that of attention; pearson: correlation of standard and "
            "effective weights; padding_shift: distance of effective attention read padded and exactly, relative to "
            "the latter; output_change: relative change of the head's output by the padded reading; "
            "projection_rank: rank of H; effective_gap: distance of effective attention by V and by T, relative to "
            "attention",
            "name",
            QUANTITIES,
            key=True,
        ),
        replace(LAYER, missing=True),
        replace(HEAD, missing=True),
        Column("value", "mean over examples, or over heads of examples of one length"),
        count_column("examples, or heads of examples of one length,"),
        Column("length", "tokens of a text; missing: all lengths together", "whole", low=0, key=True, missing=True),
    ),
    blocks=(
        Block({"reading": ("exact", "exact_subset"), "attention": "effective", "quantity": _SHARED}, _BY_HEAD),
        Block(
            {"reading": "padded", "attention": "effective", "quantity": (*_SHARED, "padding_shift", "output_change")},
            _BY_HEAD,
        ),
        Block(
            {
                "reading": "projected",
                "attention": "effective",
                "quantity": (*_SHARED, "projection_rank", "effective_gap"),
            },
            _BY_HEAD,
        ),
        Block({"reading": "exact", "attention": "effective", "quantity": _SHARED}, ("length",)),
    ),
)


def compare_parts(
    attention: Float[Tensor, "batch head query key"],
    effective: Float[Tensor, "batch head query key"],
    mask: Bool[Tensor, "batch key"],
) -> tuple[Float[Tensor, "batch head"], Float[Tensor, "batch head"]]:
    """Return null mass and Pearson correlation over real queries and keys. Weights on padded keys must be 0."""
    return _compare(_row_sums(attention, effective), mask, mask.sum(dim=-1))


def _row_sums(attention: Tensor, effective: Tensor) -> Tensor:
    """Return (5, batch, head, query): row sums of A and A_effective, and of squares of A, A_effective and A_null."""
    matrices = attention, effective, attention - effective
    squares = [torch.linalg.vector_norm(matrix, dim=-1).square() for matrix in matrices]
    return torch.stack([attention.sum(dim=-1), effective.sum(dim=-1), *squares])


def _layer_sums(layer: Layer) -> Tensor:
    """Return ``_row_sums`` of a layer, (5, batch, head, query)."""
    if not layer.is_long:
        return _row_sums(layer.exact.attention, layer.exact.effective)
    blocks = [_row_sums(layer.rows("standard", rows), layer.rows("effective", rows)) for rows in layer.blocks()]
    return torch.cat(blocks, dim=-1)


def _compare(
    rows: Float[Tensor, "5 *layer batch head query"], mask: Bool[Tensor, "batch query"], keys: Tensor
) -> tuple[Tensor, Tensor]:
    """Return null mass and Pearson correlation, each (*layer, batch, head); ``keys``: how many are real, (batch,)."""
    sum_a, sum_e, square_a, square_e, square_null = (rows.double() * mask[:, None]).sum(dim=-1)
    count = (mask.sum(dim=-1) * keys).double()[:, None]
    covariance = (square_a + square_e - square_null) / 2 - sum_a * sum_e / count
    variances = square_a - sum_a**2 / count, square_e - sum_e**2 / count
    constant = (variances[0] < _CONSTANT * square_a) | (variances[1] < _CONSTANT * square_e)
    pearson = (covariance / (variances[0] * variances[1]).clamp_min(0).sqrt()).masked_fill(constant, torch.nan)
    return (square_null / square_a).sqrt(), torch.where(square_null == 0, 1.0, pearson)


def _stacked(rank: Tensor, keys: Tensor, compared: tuple[Tensor, Tensor], **more: Tensor) -> Tensor:
    """Stack quantities in the order of ``QUANTITIES``, NaN where not given; ``keys``: how many keys there are."""
    nullity = (keys - rank).double()
    found = {
        "rank": rank,
        "nullity": nullity,
        "nontrivial": nullity > 0,
        "null_mass": compared[0],
        "pearson": compared[1],
        **more,
    }
    missing = torch.full_like(nullity, torch.nan)
    return torch.stack([found.get(name, missing).double().expand_as(nullity) for name in QUANTITIES])


def projection_factor(
    blocks: Float[Tensor, "head d_head width"],
) -> tuple[Float[Tensor, "head d_head factor"], Float[Tensor, " head"]]:
    """Return ``R^T`` of ``H = R^T Q^T``, and the rank of ``H``: ``V H`` and ``V R^T`` have the same left null space."""
    blocks = blocks.detach().double()
    return torch.linalg.qr(blocks.mT).R.mT, torch.linalg.matrix_rank(blocks, rtol=_RTOL).double()


def compare_projected(
    layer: Layer,
    mask: Bool[Tensor, "batch key"],
    chosen: Bool[Tensor, " batch"],
    factor: Tensor,
    projection_rank: Tensor,
) -> Float[Tensor, "quantity example head"]:
    """Measure the chosen examples for ``T = V H``, in the order of ``QUANTITIES``; see ``projection_factor``."""
    real = mask[chosen]
    exact = layer.exact
    if layer.visible is None:
        visible = None
    else:  # a padding query may see everything, other padding too
        visible = layer.visible.expand(len(mask), -1, -1, -1)[chosen] & real[:, None, None]
    parts = decompose(exact.attention[chosen], layer.value[chosen].double() @ factor, visible, rtol=_RTOL)
    rows = real[:, None, :, None]
    gap = _distance(exact.effective[chosen], parts.effective, rows, size=parts.attention)
    compared = compare_parts(parts.attention, parts.effective, real)
    keys = real.sum(dim=-1, keepdim=True)
    return _stacked(parts.rank, keys, compared, projection_rank=projection_rank, effective_gap=gap)


def _distance(one: Tensor, other: Tensor, real: Tensor, *, size: Tensor | None = None) -> Float[Tensor, "batch head"]:
    """Return the norm of a difference over real places, relative to that of ``other``, or of ``size`` if given."""
    gap, whole = (
        (matrix * real).double().flatten(2).norm(dim=-1) for matrix in (one - other, other if size is None else size)
    )
    return gap / whole


class NullSpace(SplitAnalysis):
    """Table: reading, layer, head, quantity, length, value, count.

    Args:
        padded_examples: How many random examples to compare with the published protocol on; 0: none.
        projected_examples: On how many to compare ``V`` with ``T = V H``; 0: none.
    """

    schema = SCHEMA
    stacks = ("decoder", "cross")

    def __init__(self, *, padded_examples: int = 12, projected_examples: int = 4) -> None:
        super().__init__()
        for name, count in {"padded_examples": padded_examples, "projected_examples": projected_examples}.items():
            if not is_whole_number(count, 0):
                raise UserError(f"analysis.null_space.{name} must be 0 or more, got {count!r}")
        self.padded_examples = padded_examples
        self.projected_examples = projected_examples

    def setup(self, context: Context) -> Analysis:
        """Draw the two samples, and start sums by head and by length."""
        super().setup(context)
        self.compared = sample(context, self.padded_examples)
        self.projected = sample(context, self.projected_examples)
        self._factors: list[tuple[Tensor, Tensor]] | None = None  # one per layer; found when the first text comes
        heads = len(READINGS), len(QUANTITIES), context.layers, context.heads
        lengths = len(QUANTITIES), context.max_length + 1
        for name, shape in (("by_head", heads), ("by_length", lengths)):
            self.add_sum(name, *shape)
            self.add_sum(f"{name}_count", *shape)
        return self

    def update(self, trace: Trace) -> None:
        chosen = in_sample(self.compared, trace)
        values = self._exact(trace)  # (quantity, layer, batch, head)
        self._add("exact", values)
        self._add_lengths(values, trace.keys.lengths)
        # The two comparisons need whole matrices, and run the model again, which in a decoder needs the other text too.
        if trace.stack is not None or any(layer.is_long for layer in trace.layers):
            return
        self._add("exact_subset", values[:, :, chosen])
        if bool(chosen.any()):
            padded = trace.at_full_length(chosen)
            self._add("padded", torch.stack([self._padded(layer, padded.mask) for layer in padded.layers], dim=1))
        self._add_projected(trace)

    def _add_projected(self, trace: Trace) -> None:
        chosen = in_sample(self.projected, trace)
        if not bool(chosen.any()):
            return
        if self._factors is None:
            self._factors = _projection_factors(trace)
        if self._factors:
            pairs = zip(trace.layers, self._factors, strict=True)
            found = [compare_projected(layer, trace.mask, chosen, *factor) for layer, factor in pairs]
            self._add("projected", torch.stack(found, dim=1))

    @staticmethod
    def _exact(trace: Trace) -> Tensor:
        """Measure all layers at once, (quantity, layer, batch, head): what is left after sums over keys is small."""
        rows = torch.stack([_layer_sums(layer) for layer in trace.layers], dim=1)
        keys = trace.keys.lengths
        ranks = torch.stack([layer.rank for layer in trace.layers])
        return _stacked(ranks, keys[:, None], _compare(rows, trace.mask, keys))

    @staticmethod
    def _padded(layer: Layer, mask: Tensor) -> Tensor:
        """Measure (quantity, batch, head) with padding among the keys, as published; padded queries are left out."""
        longest = int(mask.sum(dim=-1).max())
        visible = None if layer.visible is None else layer.visible[:, :, :longest]
        parts = decompose(layer.attention[:, :, :longest], layer.value, visible, reading="padded")
        real = mask[:, :longest]
        effective = parts.effective[..., :longest]
        compared = compare_parts(parts.attention[..., :longest], effective, real)
        exact = layer.exact.effective[:, :, :longest, :longest]
        shift = _distance(effective, exact, real[:, None, :, None] & real[:, None, None])
        more = {"padding_shift": shift, "output_change": parts.output_change(real)}
        return _stacked(parts.rank, torch.tensor(mask.shape[1]), compared, **more)

    def _add(self, reading: str, values: Tensor) -> None:
        place = READINGS.index(reading)
        self.by_head[place] += values.nan_to_num(0).sum(dim=2)
        self.by_head_count[place] += values.isfinite().sum(dim=2)

    def _add_lengths(self, values: Tensor, lengths: Tensor) -> None:
        self.by_length.index_add_(1, lengths, values.nan_to_num(0).sum(dim=(1, 3)))
        self.by_length_count.index_add_(1, lengths, values.isfinite().sum(dim=(1, 3)).double())

    def compute(self) -> pd.DataFrame:
        heads = {
            "reading": READINGS,
            "quantity": QUANTITIES,
            "layer": range(self.context.layers),
            "head": range(self.context.heads),
        }
        lengths = {"reading": ["exact"], "quantity": QUANTITIES, "length": range(self.context.max_length + 1)}
        by_head = tidy(mean_over(self.by_head, self.by_head_count), heads, count=self.by_head_count.long())
        count = self.by_length_count[None]
        by_length = tidy(mean_over(self.by_length[None], count), lengths, count=count.long())
        table = pd.concat([by_head, by_length], ignore_index=True)
        table[["layer", "head", "length"]] = table[["layer", "head", "length"]].astype("Int64")
        table.insert(1, "attention", "effective")
        return table[table["count"] > 0].reset_index(drop=True)


def _projection_factors(trace: Trace) -> list[tuple[Tensor, Tensor]]:
    """Return the ``projection_factor`` of every layer; none where no output projection can be told apart by heads."""
    try:
        pairs = zip(trace.layers, output_projections(trace), strict=True)
        return [projection_factor(head_blocks(trace.model, projection, layer.value)) for layer, projection in pairs]
    except ValueError as error:
        log.warning("null_space leaves out the comparison with T = V H: %s", error)
        return []
