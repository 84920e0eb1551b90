"""Maximum flow with a logarithmic barrier: of all flows near the maximum the one that stays away from every bound.

A maximum flow is rarely unique, so that what goes through one node is not defined. Azarkhalili & Libbrecht (2025,
"Generalized Attention Flow", arXiv 2502.15765) take the flow through a graph of layers that maximises

    F + mu * sum over edges of [log f + log (u - f)],

with F what goes from the top layer to the tokens, f and u an edge's flow and capacity. It is unique; its F falls short
of the maximum by at most 2 m mu, with m edges. All tokens of the top layer are sources, all input tokens sinks, without
bounds of their own.

With a potential for each node, 1 at the sources and 0 at the sinks, the flow of an edge is a function of the difference
of its ends alone, and the potentials minimise a smooth convex function: Newton's method, with mu made smaller step by
step.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

SHORT = 1e-3  # of the least capacity between two layers: how far the flow may fall short of the maximum
_SHRINK = 0.2  # of mu, from one step to the next
_NEWTON = 50  # steps at most for each mu
_DONE = 1e-10  # of the least capacity: how much flow may get lost in a node


def barrier_flow(
    capacities: Float[Tensor, "layer query key"], *, short: float = SHORT
) -> Float[Tensor, "layer query key"]:
    """Compute the flow of every edge, from the top layer's queries down to the first layer's keys.

    Args:
        capacities: Of each layer's edges, not negative; the first layer first. Edges of none carry nothing.
        short: How far the flow may fall short of the maximum, as a share of the least capacity between two layers.

    Raises:
        ValueError: ``short`` is not above 0, or a capacity is negative or not finite.

    >>> barrier_flow(torch.tensor([[[1.0, 3.0]]]).expand(1, 2, 2))[0].sum(dim=-2).round(decimals=2)
    tensor([2., 6.], dtype=torch.float64)
    """
    if not short > 0:
        raise ValueError(f"short must be above 0, got {short!r}")
    given = capacities.double()
    if not bool(torch.isfinite(given).all()) or bool((given < 0).any()):
        raise ValueError("capacities must be finite and not negative")
    used = _connected(given > 0)
    given = given * used
    least = float(given.sum(dim=(-2, -1)).min()) if used.numel() else 0.0
    if least == 0:
        return torch.zeros_like(given)
    return _best(given / least, short / (2 * int(used.sum()))) * least


def _best(scaled: Float[Tensor, "layer query key"], last: float) -> Float[Tensor, "layer query key"]:
    """Make mu smaller until it is the last, and find the flow of each on the way."""
    inner, mu = _start(scaled), 1.0
    while True:
        mu = max(mu * _SHRINK, last)
        inner = _settle(inner, scaled, mu)
        if mu == last:
            return _flows(_drops(inner), scaled, mu)


def _connected(edges: Bool[Tensor, "layer query key"]) -> Bool[Tensor, "layer query key"]:
    """Keep the edges that lie on a way from the top to the bottom."""
    down = [torch.ones_like(edges[0, :, 0])]
    for layer in edges.flip(0)[:-1]:
        down.append((layer & down[-1][:, None]).any(dim=0))  # keys that can be reached from the top
    up = [torch.ones_like(edges[0, 0])]
    for layer in edges[:-1]:
        up.append((layer & up[-1]).any(dim=1))  # queries that reach the bottom
    return edges & torch.stack(down).flip(0)[:, :, None] & torch.stack(up)[:, None]


def _start(scaled: Float[Tensor, "layer query key"]) -> Float[Tensor, "inner node"]:
    """Spread the potentials evenly from the bottom, 0, to the top, 1."""
    layers, nodes = scaled.shape[:2]
    steps = torch.arange(1, layers, dtype=scaled.dtype, device=scaled.device) / layers
    return steps[:, None].expand(-1, nodes).clone()


def _drops(inner: Float[Tensor, "inner node"]) -> Float[Tensor, "layer query key"]:
    """Return the difference of potential along each edge."""
    nodes = inner.shape[1]
    levels = torch.cat([inner.new_zeros(1, nodes), inner, inner.new_ones(1, nodes)])
    return levels[1:, :, None] - levels[:-1, None, :]


def _flows(drop: Tensor, capacity: Tensor, mu: float) -> Tensor:
    """Return the flow f at which drop + mu / f - mu / (capacity - f) is 0; half the capacity where nothing drops."""
    root = torch.hypot(drop * capacity, torch.full_like(drop, 2 * mu))
    forth = capacity / 2 + drop * capacity.square() / (2 * (root + 2 * mu))
    back = 2 * mu * capacity / (2 * mu - drop * capacity + root)  # the same, without cancelling where it is small
    return torch.where(drop > 0, forth, back)


def _value(drop: Tensor, capacity: Tensor, mu: float) -> Tensor:
    """Return the sum over edges of what the flow is worth at this drop, barrier included."""
    used = capacity > 0
    flow = _flows(drop, capacity, mu)
    rest = _flows(-drop, capacity, mu)  # capacity - flow
    logs = torch.where(used, flow, 1.0).log() + torch.where(used, rest, 1.0).log()
    return (drop * flow + mu * logs).sum()


def _settle(inner: Float[Tensor, "inner node"], capacity: Tensor, mu: float) -> Float[Tensor, "inner node"]:
    """Find the potentials at which nothing gets lost, by Newton's method with halved steps."""
    if inner.numel() == 0:
        return inner
    for _ in range(_NEWTON):
        drop = _drops(inner)
        lost = _lost(_flows(drop, capacity, mu))
        if float(lost.abs().amax()) <= _DONE:
            break
        step = torch.linalg.solve(_stiffness(drop, capacity, mu), -lost.flatten()).view_as(inner)
        inner = _descend(inner, step, capacity, mu, float((lost * step).sum()))
    return inner


def _descend(inner: Tensor, step: Tensor, capacity: Tensor, mu: float, slope: float) -> Tensor:
    """Go as far along a step as the value falls."""
    start = _value(_drops(inner), capacity, mu)
    share = 1.0
    while share > 1e-8:
        if _value(_drops(inner + share * step), capacity, mu) <= start + 1e-4 * share * slope + 1e-15 * start.abs():
            break
        share /= 2
    return inner + share * step


def _lost(flow: Float[Tensor, "layer query key"]) -> Float[Tensor, "inner node"]:
    """Return what leaves each inner node downwards and has not come in from above."""
    return flow[1:-1].new_zeros(0) if len(flow) < 2 else flow[:-1].sum(dim=2) - flow[1:].sum(dim=1)


def _stiffness(drop: Tensor, capacity: Tensor, mu: float) -> Float[Tensor, "nodes nodes"]:
    """Return how what gets lost in each inner node changes with each potential."""
    layers, nodes = capacity.shape[:2]
    flow, rest = _flows(drop, capacity, mu), _flows(-drop, capacity, mu)
    squares = flow.square() + rest.square()
    slope = torch.where(capacity > 0, (flow * rest).square() / (mu * squares.where(squares > 0, 1.0)), 0.0)
    found = torch.zeros(layers - 1, nodes, layers - 1, nodes, dtype=drop.dtype, device=drop.device)
    each = torch.arange(nodes, device=drop.device)
    for level in range(layers - 1):
        found[level, each, level, each] = slope[level].sum(dim=1) + slope[level + 1].sum(dim=0)
        if level > 0:
            found[level, :, level - 1] = -slope[level]
            found[level - 1, :, level] = -slope[level].T
    matrix = found.view((layers - 1) * nodes, -1)
    alone = matrix.diagonal() == 0  # nodes that no way leads through
    return matrix + torch.diag(alone.to(matrix.dtype))
