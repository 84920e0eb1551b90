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

- ``furthest_proved`` finds the largest distance and proves it, where there is time enough: a program with one whole
  number a key, whether it gains or loses.

The programs are those of ``polytope``; for the spaces and the notation see ``row_space``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Bool, Float64
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from effective_attention.attention.polytope import RowPolytope, row_intervals
from effective_attention.attention.row_space import Row, Space, space_of, spaces

__all__ = [
    "AlternativeMaps",
    "Proof",
    "alternative_maps",
    "bounds",
    "climb",
    "distance",
    "distance_bound",
    "furthest",
    "furthest_proved",
    "largest_step",
    "space_of",
]

_ROUNDING = 1e-9  # how much weight a whole row may lose where rounding left it below 0
_GAIN = 1e-9  # of distance: less is no progress
_MEET = 1e-6  # a distance that is less below what is proved is the largest


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
    polytope = RowPolytope(weights, space.reached)
    chosen = _starts(weights, best, np.random.default_rng(0) if generator is None else generator)
    for _, losing in zip(range(starts), chosen, strict=False):
        *_, found = islice(climb(polytope, space, losing), rounds)
        best = found if distance(found, weights) > distance(best, weights) else best
    return best


def climb(polytope: RowPolytope, space: Space, losing: Bool[np.ndarray, " key"]) -> Iterator[Row]:
    """Yield alternatives from one start, each further than the one before; at least one."""
    weights, reached = polytope.weights, -np.inf
    while True:
        found = _inside(weights, space.pulls @ (polytope.least(losing.astype(float)) - weights))
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
    low, high = row_intervals(weights, space.reached)
    loss, gain = weights - low, high - weights
    reach = np.where(loss + gain > 0, loss + gain, 1)
    slope = (gain - loss) / reach
    furthest_point = RowPolytope(weights, space.reached).least(-slope)
    lines = loss + slope * (furthest_point - weights + loss)
    return float(min(lines.sum() / 2, 1))


@dataclass(frozen=True, eq=False)
class Proof:
    """The most distant alternative that was found in some time, and what is proved of all.

    Attributes:
        weights: The alternative.
        distance: Its distance.
        bound: A distance that no alternative exceeds, to the solver's 1e-6.
    """

    weights: Row
    distance: float
    bound: float

    @property
    def is_largest(self) -> bool:
        """Tell whether the two meet, so that no alternative is further."""
        return self.bound <= self.distance + _MEET


def furthest_proved(weights: Row, space: Space, *, seconds: float) -> Proof:
    """Find the most distant alternative by a mixed-integer program, and prove it, as far as ``seconds`` allow.

    A key gains or loses, a whole number says which; it gains at most up to the upper end of its interval and loses at
    most down to the lower, so the program without whole numbers is already as good as ``distance_bound``. What the
    distance is made of is the sum of all losses.
    """
    best = furthest(weights, space, starts=4)
    if space.freedom == 0:
        return Proof(best, 0.0, 0.0)
    keys, rank = space.reached.shape
    low, high = row_intervals(weights, space.reached)
    one, none = np.eye(keys), np.zeros((keys, keys))  # columns: what keys gain, what they lose, whether they gain
    same = LinearConstraint(np.hstack([space.reached.T, -space.reached.T, np.zeros((rank, keys))]), 0, 0)
    gains = LinearConstraint(np.hstack([one, none, -np.diag(high - weights)]), -np.inf, 0)
    losses = LinearConstraint(np.hstack([none, one, np.diag(weights - low)]), -np.inf, weights - low)
    most = np.concatenate([high - weights, weights - low, np.ones(keys)])
    answer = milp(
        np.concatenate([np.zeros(keys), -np.ones(keys), np.zeros(keys)]),
        integrality=np.repeat([0, 0, 1], keys),
        bounds=Bounds(0, most),
        constraints=[same, gains, losses],
        options={"time_limit": seconds, "mip_rel_gap": 0},
    )
    if answer.x is not None:
        found = _inside(weights, space.pulls @ (answer.x[:keys] - answer.x[keys : 2 * keys]))
        best = found if distance(found, weights) > distance(best, weights) else best
    reached = float(distance(best, weights))
    known = getattr(answer, "mip_dual_bound", None)
    bound = distance_bound(weights, space) if known is None else min(-float(known), 1.0)
    return Proof(best, reached, max(bound, reached))


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
    for query, seen, space in spaces(value, visible):
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
    for query, seen, space in spaces(value, visible):
        yield distance_bound(attention[query, seen], space)
