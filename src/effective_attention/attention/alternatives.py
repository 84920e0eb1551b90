"""Other attention weights with the same output: how far from the model's own can they be?

Brunner et al. (2020), section 3.3. A row ``a`` of attention and any ``p = a + N z`` have the same sum and the same
output, when the columns of ``N`` span the left null space of ``[V, 1]``; ``p`` is attention again where ``p >= 0``. How
far apart the two are is measured by their total variation distance ``|p - a|_1 / 2``, the share of the weight that
stands elsewhere: from 0 to 1.

- ``largest_step`` is the paper's construction: a direction in the null space, followed until a weight becomes 0. The
  paper takes any direction; here towards and away from every key, and away from ``a`` itself, of which the best is
  kept.
- ``furthest`` looks for the largest distance of all. That is maximising a convex function, hard in general, so it
  climbs: for the keys S that are to lose weight, a linear program finds the ``p`` with least weight on S; S becomes the
  keys that did lose; and again, as long as the distance grows. Each round's distance is at least the last one's.
  Several starts, the best is kept.
- ``distance_bound`` is what no alternative can exceed: each weight has a smallest and a largest possible value (two
  programs a key), ``|p_i - a_i|`` lies under the line between its values at the two, and one more program maximises the
  sum of the lines.

All in double precision on the visible keys only. What counts as 0 among the singular values is much less than in
``decomposition``, whose line suits float32: here a direction that reaches the output ever so little is not used, so
that outputs agree to 1e-9.

Notation: key is a visible key; rank is that of ``[V, 1]``; freedom is the dimension of the null space, ``key - rank``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from jaxtyping import Bool, Float64
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

_RTOL = 1e-10  # of the largest singular value
_ROUNDING = 1e-9  # how much weight a whole row may lose where rounding left it below 0
_GAIN = 1e-9  # of distance: less is no progress
# a row's weight as the solver sees it: its tolerance of 1e-7 is then 1e-10, at which it otherwise gives up at times
_UNIT = 1e3

Row = Float64[np.ndarray, " key"]


@dataclass(frozen=True, eq=False)
class Space:
    """What ``[V, 1]`` makes of weights on some keys.

    Attributes:
        null: Orthonormal columns that span its left null space: what can be added to weights unseen.
        reached: Orthonormal columns that span its column space: what the output and the sum depend on.
    """

    null: Float64[np.ndarray, "key freedom"]
    reached: Float64[np.ndarray, "key rank"]

    @property
    def freedom(self) -> int:
        return self.null.shape[1]

    @cached_property
    def pulls(self) -> Float64[np.ndarray, "key key"]:
        """Row i: the direction in the null space that is nearest to key i."""
        return np.asarray(self.null @ self.null.T)


def space_of(value: Float64[np.ndarray, "key d_head"]) -> Space:
    """Find the two spaces by the singular vectors of ``[V, 1]``.

    >>> np.abs(space_of(np.array([[0.0], [1.0], [2.0]])).null).round(3).tolist()
    [[0.408], [0.816], [0.408]]
    """
    keys = len(value)
    size = np.linalg.norm(value)  # both sides of [V, 1] at the same size, so that neither decides the other's rank
    augmented = np.column_stack([value / size if size > 0 else value, np.full(keys, keys**-0.5)])
    left, singular, _ = np.linalg.svd(augmented)
    rank = int((singular > _RTOL * singular[0]).sum())
    return Space(left[:, rank:], left[:, :rank])


def distance(
    weights: Float64[np.ndarray, "*#rows key"], others: Float64[np.ndarray, "*#rows key"]
) -> NDArray[np.float64]:
    """Return the total variation distance of each row: the share of the weight that stands elsewhere."""
    return np.asarray(np.abs(weights - others).sum(axis=-1) / 2)


def largest_step(weights: Row, space: Space) -> Row:
    """Go as far as one can in the best direction: towards or away from a key, or away from ``weights``."""
    if space.freedom == 0:
        return weights.copy()
    pulls = space.pulls
    directions = np.concatenate([pulls, -pulls, -(pulls @ weights)[None]])
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(directions < 0, weights / -directions, np.inf).min(axis=1)
    steps[~np.isfinite(steps)] = 0  # a direction of nothing but rounding
    best = int((steps * np.abs(directions).sum(axis=1)).argmax())
    return _inside(weights, steps[best] * directions[best])


def furthest(
    weights: Row, space: Space, *, starts: int, rounds: int | None = None, generator: np.random.Generator | None = None
) -> Row:
    """Return the most distant alternative that was found; never nearer than ``largest_step``.

    Args:
        weights: One query's attention, visible keys only, of sum 1.
        space: From ``space_of``.
        starts: From how many sets of keys to climb: the heaviest key, the keys above the mean, the heaviest that hold
            half of the weight, what the largest step takes from, then random ones.
        rounds: How many programs from each start at most; None: as long as the distance grows.
        generator: Of the random sets; None: seeded with 0.
    """
    best = largest_step(weights, space)
    if space.freedom == 0:
        return best
    chosen = _starts(weights, best, np.random.default_rng(0) if generator is None else generator)
    for _, losing in zip(range(starts), chosen, strict=False):
        *_, found = islice(climb(weights, space, losing), rounds)
        best = found if distance(found, weights) > distance(best, weights) else best
    return best


def climb(weights: Row, space: Space, losing: Bool[np.ndarray, " key"]) -> Iterator[Row]:
    """Yield alternatives from one start, each further than the one before; at least one."""
    reached = -np.inf
    while True:
        found = _least(weights, space, losing.astype(float))
        gained = float(distance(found, weights))
        if gained > reached + _GAIN or np.isneginf(reached):
            yield found
        if gained <= reached + _GAIN:
            return
        reached = gained
        losing = found < weights


def _starts(weights: Row, step: Row, generator: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    order = np.argsort(-weights, kind="stable")
    rank = np.argsort(order, kind="stable")
    yield rank == 0
    yield weights > 1 / len(weights)
    yield rank <= int((np.cumsum(weights[order]) < 0.5).sum())
    yield step < weights
    while True:
        yield generator.random(len(weights)) < generator.random()  # a few of the keys, or nearly all


def distance_bound(weights: Row, space: Space) -> float:
    """Return a distance that no alternative exceeds; see the module's docstring."""
    if space.freedom == 0:
        return 0.0
    keys = np.eye(len(weights))
    least = np.full(len(weights), np.inf)
    most = weights.copy()
    for key in range(len(weights)):
        found = _least(weights, space, -keys[key])
        least = np.minimum(least, found)
        most[key] = found[key]
    for key in np.flatnonzero(least > 0).tolist():  # most are known to reach 0 by now
        least[key] = _least(weights, space, keys[key])[key]
    loss = np.maximum(weights - least, 0)
    gain = np.maximum(most - weights, 0)
    reach = np.where(loss + gain > 0, loss + gain, 1)
    slope = (gain - loss) / reach
    furthest_point = _least(weights, space, -slope)
    lines = loss + slope * (furthest_point - weights + loss)
    return float(min(lines.sum() / 2, 1))


def _least(weights: Row, space: Space, cost: Row) -> Row:
    """Return the alternative of least cost: ``min cost . p`` with ``p >= 0`` that reaches what ``weights`` do."""
    if space.freedom == 0:
        return weights.copy()
    reached = _UNIT * (weights @ space.reached)
    same = LinearConstraint(space.reached.T, reached, reached)
    positive = Bounds(0, np.inf)
    for presolve in (True, False):  # the second was never needed
        # without whole numbers it is a linear program, asked for with less ceremony than ``linprog``'s
        answer = milp(cost, constraints=same, bounds=positive, options={"presolve": presolve})
        if answer.status == 0:
            return _inside(weights, space.pulls @ (answer.x / _UNIT - weights))
    raise ArithmeticError(f"the linear program over {len(weights)} keys was not solved: {answer.message}")


def _inside(weights: Row, move: Row) -> Row:
    """Return ``weights + move``, shortened until nothing but rounding is below 0, and that made 0."""
    slack = _ROUNDING / len(weights)
    falling = move < 0
    step = np.min((weights[falling] + slack) / -move[falling], initial=1.0)
    return np.maximum(weights + step * move, 0)


# --- whole maps ---


@dataclass(frozen=True, eq=False)
class AlternativeMaps:
    """One head's alternatives, row by row; hidden keys are 0.

    Attributes:
        step: By ``largest_step``.
        program: By ``furthest``.
        freedom: Of the query that has most of it.
    """

    step: Float64[np.ndarray, "query key"]
    program: Float64[np.ndarray, "query key"]
    freedom: int


def alternative_maps(
    attention: Float64[np.ndarray, "query key"],
    value: Float64[np.ndarray, "key d_head"],
    visible: Bool[np.ndarray, "query key"],
    *,
    starts: int,
    rounds: int | None = None,
    generator: np.random.Generator | None = None,
) -> AlternativeMaps:
    """Find alternatives of every query's row, over the keys that it sees."""
    step = attention * visible
    program = attention * visible
    freedom = 0
    for query, seen, space in _spaces(value, visible):
        row = attention[query, seen]
        step[query, seen] = largest_step(row, space)
        program[query, seen] = furthest(row, space, starts=starts, rounds=rounds, generator=generator)
        freedom = max(freedom, space.freedom)
    return AlternativeMaps(step, program, freedom)


def bounds(
    attention: Float64[np.ndarray, "query key"],
    value: Float64[np.ndarray, "key d_head"],
    visible: Bool[np.ndarray, "query key"],
) -> Iterator[float]:
    """Yield ``distance_bound`` of every query's row, one after the other."""
    for query, seen, space in _spaces(value, visible):
        yield distance_bound(attention[query, seen], space)


def _spaces(value: NDArray[np.float64], visible: NDArray[np.bool_]) -> Iterator[tuple[int, NDArray[np.bool_], Space]]:
    """Yield each query, what it sees and its null space, which queries that see the same share."""
    before: NDArray[np.bool_] | None = None
    for query, seen in enumerate(visible):
        if before is None or not np.array_equal(before, seen):
            space = space_of(value[seen])
            before = seen
        yield query, seen, space
