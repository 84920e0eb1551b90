"""Project rows of attention onto the column space of the values that each query sees.

``A_effective = (A Q) Q^T``, Q an orthonormal basis of the column space of V, where all queries see the same keys.
Where they do not, ``interval_split`` finds the rows one after the other; what it cannot prove, and masks without its
order, are done here, with a basis for each set of keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from effective_attention.attention.column_space import column_space, has_full_row_rank, index_of
from effective_attention.attention.interval_split import SMALLEST_RTOL, IntervalSplit
from effective_attention.attention.intervals import intervals_of

_MOST = 2**24  # numbers of values that are gathered at once for rows that are done one by one


def by_query_mask(attention: Tensor, value: Tensor, visible: Tensor, rtol: float) -> tuple[Tensor, Tensor]:
    """Split each query's row over its own keys, by a mask (batch, 1 or head, query, key).

    Returns:
        The effective part, and the rank of all keys seen by any query, (batch, head).
    """
    seen = visible.any(dim=-2)  # (batch, 1 or head, key)
    by_svd = value.dtype == torch.float64 or rtol < SMALLEST_RTOL  # as exact as its type
    if by_svd or int(seen.sum(dim=-1).max()) <= value.shape[-1]:
        _, rank = by_key_mask(attention[:, :, :1], value, seen, rtol)
        if bool((rank == seen.sum(dim=-1)).all()):  # then every subset of the keys has full row rank too
            return attention, rank
    if by_svd:
        every = torch.ones(visible.shape[2], dtype=torch.bool, device=visible.device)
        return _by_groups(attention, attention, value, visible, every, rtol), rank
    intervals = intervals_of(visible)
    groups = attention.shape[1] // value.shape[1]
    grouped = torch.unflatten(attention, 1, (-1, groups))
    effective, found = IntervalSplit.apply(grouped, value, intervals, rtol)  # type: ignore[no-untyped-call]
    effective = effective.flatten(1, 2)
    regular = intervals.regular.flatten(0, 1).all(dim=0)
    if not bool(regular.all()):
        effective = _by_groups(effective, attention, value, visible, ~regular, rtol)
    unsolved = ((found < 0) & regular).repeat_interleave(groups, dim=1)
    rank = found.amax(dim=-1).repeat_interleave(groups, dim=1)
    if bool((rank < value.shape[-1]).any()):  # all keys together may have more dimensions than those of any query
        _, rank = by_key_mask(attention[:, :, :1], value, seen, rtol)
    return _one_by_one(effective, attention, value, visible, unsolved, rtol), rank


def _by_groups(
    effective: Tensor, attention: Tensor, value: Tensor, visible: Tensor, chosen: Tensor, rtol: float
) -> Tensor:
    """Replace the rows of chosen queries: those that see the same keys share a basis."""
    places = chosen.nonzero()[:, 0]
    masks = visible[:, :, places].movedim(2, 0).flatten(1)  # (query, batch * heads * key)
    _, group = torch.unique(masks, dim=0, return_inverse=True)
    done = []
    order = []
    for number in range(int(group.max()) + 1):
        rows = places[group == number]
        done.append(by_key_mask(attention[:, :, rows], value, visible[:, :, rows[0]], rtol)[0])
        order.append(rows)
    return effective.index_copy(2, torch.cat(order), torch.cat(done, dim=2))


def _one_by_one(
    effective: Tensor, attention: Tensor, value: Tensor, visible: Tensor, chosen: Tensor, rtol: float
) -> Tensor:
    """Replace the rows at ``chosen`` (batch, head, query), each with a basis of its own."""
    if not bool(chosen.any()):
        return effective
    batch, head, query = chosen.nonzero(as_tuple=True)
    own = visible.expand(-1, attention.shape[1], -1, -1)
    shared = head // (attention.shape[1] // value.shape[1])
    seen = own[batch, head, query]  # (row, key)
    most = int(seen.sum(dim=-1).max())
    order = seen.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)  # those that are seen come first
    keys = order[:, :most]
    done = []
    for rows in torch.split(torch.arange(len(batch), device=batch.device), max(1, _MOST // (most * value.shape[3]))):
        some = keys[rows]
        weights = attention[batch[rows], head[rows], query[rows]].gather(1, some)
        values = value[batch[rows, None], shared[rows, None], some]  # (row, some, d_head)
        visible_here = seen[rows].gather(1, some)
        done.append(by_key_mask(weights[:, None, None], values[:, None], visible_here[:, None], rtol)[0][:, 0, 0])
    whole = torch.zeros_like(seen, dtype=attention.dtype).scatter(1, keys, torch.cat(done))
    return effective.index_put((batch, head, query), whole)


def by_key_mask(
    attention: Tensor, value: Tensor, seen: Tensor, rtol: float, *, overwrite: bool = False
) -> tuple[Tensor, Tensor]:
    """Split by one set of keys seen, (batch, 1 or head, key), for all queries of a head.

    Args:
        attention: (batch, head, query, key), 0 where hidden.
        value: (batch, shared, key, d_head): of several heads the same under grouped queries, ``seen`` too then.
        seen: Bool.
        rtol: See ``decomposition``.
        overwrite: Whether ``attention`` may be written over.

    Returns:
        The effective part, and the rank (batch, head).
    """
    batch, head, query, key = attention.shape
    groups = head // value.shape[1]
    if groups > 1:
        folded = attention.reshape(batch, head // groups, groups * query, key)
        effective, rank = by_key_mask(folded, value, seen[:, ::groups], rtol, overwrite=overwrite)
        return effective.view_as(attention), rank.repeat_interleave(groups, dim=1)
    seen = seen.expand(batch, head, key).reshape(batch * head, key)
    flat = attention.flatten(0, 1)
    value = value.flatten(0, 1)  # (problem = batch * head, query or key, ...)
    rank = seen.sum(dim=-1)
    proved = has_full_row_rank(value, seen, rtol)
    if bool(proved.all()):
        return attention, rank.view(batch, head)
    index = index_of(~proved)
    value = value[index]
    seen = seen[index]
    length = rank[index].clone()
    differentiated = torch.is_grad_enabled() and value.requires_grad
    space = column_space(value, seen, rtol, whitener=differentiated)
    rank[index] = space.rank
    moved = torch.where(seen[:, :, None], value - value.detach(), 0) if differentiated else None
    change = None if moved is None else moved.double() @ space.whitener
    full = rank[index] == length  # not proved, but found by SVD: then not even rounding may change A
    some_full = bool(full.any())
    effective = _project(flat[index], space.basis, change, overwrite=overwrite and not some_full)
    if some_full:
        effective = torch.where(full[:, None, None], flat[index], effective)
    if isinstance(index, Tensor):
        effective = flat.index_put((index,), effective)
    return effective.view_as(attention), rank.view(batch, head)


def _project(attention: Tensor, basis: Tensor, change: Tensor | None, *, overwrite: bool) -> Tensor:
    """Return (A Q) Q^T, computed in at least float32.

    Q is orthonormal, so nothing is amplified, however ill-conditioned V is. Q was computed without a graph. ``change``
    is dV R: 0, but differentiable. Q + dV R, with (Q^T Q)^-1 to first order, has the derivative of the projection.
    """
    dtype, wide = attention.dtype, torch.promote_types(attention.dtype, basis.dtype)
    attention = attention.to(wide)
    basis = basis.to(wide)
    if change is None:
        reached = attention @ basis  # (problem, query, d_head)
        if overwrite:
            return torch.bmm(reached, basis.mT, out=attention).to(dtype)
    else:
        basis = basis + change.to(wide)
        identity = torch.eye(basis.shape[-1], dtype=wide, device=basis.device)
        reached = attention @ basis @ (2 * identity - basis.mT @ basis)
    return (reached @ basis.mT).to(dtype)
