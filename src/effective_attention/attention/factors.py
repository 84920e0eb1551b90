"""Effective attention without the attention matrix: two thin factors, and what can be asked of them.

``A_effective = A V V^+ = O V^+``, and ``O = A V`` is what a head hands on, which every fast kernel returns. So it is
the product of a *left* factor (query x d_head) and a *right* one (key x d_head), and its rows, columns, sums and means
follow without a matrix of queries by keys:

- all queries see the same keys: left = O R, right = Q, an orthonormal basis ``Q = V R`` of the column space of V;
- each query sees keys of its own (``intervals``): left = the coefficients W of ``interval_split``, right = V; a query's
  row is 0 outside its interval.

A row that is known better than its factors, because V is ill-conditioned there, is kept whole (``rows_kept``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from effective_attention.attention.intervals import Intervals
from effective_attention.attention.precision import without_autocast

Places = Tensor | Sequence[int] | int | slice
"""Which queries, or which keys."""
_NUMBERS = 2**24  # of a block of rows, in all heads


@dataclass(frozen=True, eq=False)
class WholeRows:
    """Rows of effective attention that are kept as they are.

    Attributes:
        queries: Which.
        weights: Their rows, (batch, head, row, key); keys behind the last of them are left out.
    """

    queries: Int[Tensor, " row"]
    weights: Float[Tensor, "batch head row some_keys"]


@dataclass(frozen=True, eq=False)
class Factors:
    """Effective attention of one layer as ``left right^T``.

    Attributes:
        left: One row of d_head numbers for each query.
        right: One for each key; under grouped queries one set for each group of heads.
        output: Effective attention times the values, computed from the factors: what the head hands on.
        error: How far an entry may be off, at most, (batch, head, 1 or query): the rounding of the head's output, times
            ``1 / smallest singular value of V``. An estimate of the first order; infinite where V could not be judged.
        rank: Rank of the values that are seen, (batch, head); with intervals the largest of any query's.
        intervals: The keys each query sees; None: all see the same, and hidden keys are 0 in ``right``.
        rows_kept: Rows known better.
    """

    left: Float[Tensor, "batch head query d_head"]
    right: Float[Tensor, "batch shared key d_head"]
    output: Float[Tensor, "batch head query d_head"]
    error: Float[Tensor, "batch head queries"]
    rank: Int[Tensor, "batch head"]
    intervals: Intervals | None = None
    rows_kept: tuple[WholeRows, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return that of the matrix (batch, head, query, key)."""
        return (*self.left.shape[:3], self.right.shape[2])

    def dense(self) -> Float[Tensor, "batch head query key"]:
        """Return the whole matrix."""
        return self._block(slice(0, self.shape[2]))

    def rows(self, queries: Places) -> Float[Tensor, "batch head some key"]:
        """Return the rows of some queries."""
        return self._block(_as_index(queries, self.shape[2], self.left.device))

    def columns(self, keys: Places) -> Float[Tensor, "batch head query some"]:
        """Return the columns of some keys: what every query gives them."""
        index = _as_index(keys, self.shape[3], self.left.device)
        with without_autocast(self.left.device):
            found = self._product(self.left, self.right[:, :, index])
        if self.intervals is not None:
            found = found * self.intervals.visible(keys=index)
        for rows in self.rows_kept:
            kept = torch.nn.functional.pad(rows.weights, (0, self.shape[3] - rows.weights.shape[-1]))
            found = found.index_copy(2, rows.queries, kept[..., index].to(found.dtype))
        return found.to(self.output.dtype)

    def entry(self, query: int, key: int) -> Float[Tensor, "batch head"]:
        """Return what one query gives one key."""
        return self.rows(query)[:, :, 0, _checked(key, self.shape[3], "key")]

    def row_sums(self) -> Float[Tensor, "batch head query"]:
        """Return the sum of each row: 1 for standard attention, not for the effective part."""
        if self.intervals is None:
            return self._product(self.left, self.right.sum(dim=2, keepdim=True))[..., 0].to(self.output.dtype)
        return torch.cat([block.sum(dim=-1) for _, block in self.blocks()], dim=2)

    def column_means(self) -> Float[Tensor, "batch head key"]:
        """Return how much attention each key gets on average over all queries."""
        if self.intervals is None:
            mean = self.left.mean(dim=2, keepdim=True)
            return self._product(mean, self.right)[..., 0, :].to(self.output.dtype)
        total = sum(block.double().sum(dim=2) for _, block in self.blocks())
        assert isinstance(total, Tensor)
        return (total / self.shape[2]).to(self.output.dtype)

    def top(self, count: int) -> tuple[Float[Tensor, "batch head query some"], Int[Tensor, "batch head query some"]]:
        """Return the largest weights of each row, and whose they are; all of them where there are fewer keys."""
        _at_least_one(count, "count")
        most = min(count, self.shape[3])
        found = [block.topk(most, dim=-1) for _, block in self.blocks()]
        return torch.cat([one.values for one in found], dim=2), torch.cat([one.indices for one in found], dim=2)

    def squared_norm(self) -> Float[Tensor, "batch head"]:
        """Return the sum of squares of all entries."""
        total = sum(block.double().square().sum(dim=(-2, -1)) for _, block in self.blocks())
        assert isinstance(total, Tensor)
        return total

    def blocks(self, size: int | None = None) -> Iterator[tuple[slice, Float[Tensor, "batch head some key"]]]:
        """Go over the rows, some at a time, so that never all are in memory.

        Args:
            size: How many queries at a time; None: as many as fit 64 MB or so.
        """
        batch, head, query, key = self.shape
        if size is not None:
            _at_least_one(size, "size")
        step = max(1, _NUMBERS // max(1, batch * head * key)) if size is None else size
        for first in range(0, query, step):
            rows = slice(first, min(first + step, query))
            yield rows, self._block(rows)

    def _block(self, queries: slice | Tensor) -> Tensor:
        with without_autocast(self.left.device):
            found = self._product(self.left[:, :, queries], self.right).to(self.output.dtype)
        if self.intervals is not None:  # in place from here on: a large matrix takes longer to copy than to compute
            self.intervals.hide_(found, queries)
        for rows in self.rows_kept:
            _put_whole_rows(found, queries, rows, self.shape[2])
        return found

    def _product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return ``left right^T``; heads of a group share ``right``."""
        batch, head, query, width = left.shape
        shared, keys = right.shape[1:3]
        wide = torch.promote_types(left.dtype, right.dtype)
        folded = left.reshape(batch, shared, head // shared * query, width).to(wide)
        return (folded @ right.to(wide).mT).view(batch, head, query, keys)


def _as_index(places: Places, count: int, device: torch.device) -> Tensor:
    """Return places as a tensor of numbers from 0; refuse one that is not there."""
    if isinstance(places, slice):
        return torch.arange(count, device=device)[places]
    index = torch.as_tensor(places, device=device)
    whole = not (index.is_floating_point() or index.is_complex() or index.dtype == torch.bool)
    if index.ndim > 1 or (not whole and index.numel() > 0):
        raise ValueError(f"queries and keys are one number, a row of them or a slice, got {places!r}")
    index = index.reshape(-1).long()
    if len(index) > 0:
        _checked(int(index.min()), count, "query or key")
        _checked(int(index.max()), count, "query or key")
    return index


def _at_least_one(number: int, name: str) -> None:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")


def _checked(place: int, count: int, what: str) -> int:
    if not 0 <= place < count:
        raise ValueError(f"{what} must be from 0 to {count - 1}, got {place}")
    return place


def _put_whole_rows(found: Tensor, queries: slice | Tensor, rows: WholeRows, count: int) -> None:
    """Put rows that are kept whole into a block of rows."""
    wanted = torch.arange(count, device=found.device)[queries]
    places = torch.full((count,), -1, device=found.device)
    places[rows.queries] = torch.arange(len(rows.queries), device=found.device)
    source = places[wanted]
    target = (source >= 0).nonzero()[:, 0]
    weights = rows.weights[:, :, source[target]].to(found.dtype)
    found[:, :, target, : weights.shape[-1]] = weights  # further keys are hidden from these queries
