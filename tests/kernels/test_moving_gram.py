"""Coefficients along moving keys against the pseudo-inverse of each query's own values, compiled and plain."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from effective_attention.kernels import moving_gram, moving_gram_reference
from effective_attention.kernels.solution import LIMIT, Solution, State

Solve = Callable[..., Solution]
KEYS = 60


def compiled(value: Tensor, seen: Tensor, start: Tensor, stop: Tensor, output: Tensor) -> Solution:
    state = State.empty(len(value), value.shape[2])
    return moving_gram.solve_along(value.double(), seen, start, stop, output, state=state)


@pytest.fixture(params=[compiled, moving_gram_reference.solve_along], ids=["compiled", "plain"])
def solve(request: pytest.FixtureRequest) -> Solve:
    found: Solve = request.param
    return found


def moving(kind: str) -> tuple[Tensor, Tensor]:
    """Return first key, and one behind the last, of each query."""
    place = torch.arange(KEYS)
    windows = {"causal": (KEYS, 0), "window": (20, 0), "around": (4, 4), "wide": (15, 15)}
    before, after = windows[kind]
    return (place - before).clamp(min=0), (place + 1 + after).clamp(max=KEYS)


def values(width: int, *, repeated: bool = False, problems: int = 3) -> Tensor:
    """Values, perhaps with many keys that are the same: as of a word that occurs again, in the first layer."""
    value = torch.randn(problems, KEYS, width, generator=torch.Generator().manual_seed(width))
    words = torch.randint(0, KEYS // 3, (KEYS,), generator=torch.Generator().manual_seed(1))
    return value[:, words] if repeated else value


def naive(value: Tensor, seen: Tensor, start: Tensor, stop: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``o V^+`` of every query, 0 where it sees nothing, and the rank of its values."""
    problems, group, queries, _ = output.shape
    effective = torch.zeros(problems, group, queries, value.shape[1], dtype=torch.float64)
    rank = torch.zeros(problems, queries, dtype=torch.long)
    for p in range(problems):
        for q in range(queries):
            own = seen[p] & (torch.arange(value.shape[1]) >= start[p, q]) & (torch.arange(value.shape[1]) < stop[p, q])
            if own.any():
                visible = value[p, own].double()
                rank[p, q] = torch.linalg.matrix_rank(visible, rtol=1e-6)
                effective[p, :, q, own] = output[p, :, q] @ torch.linalg.pinv(visible, rtol=1e-6)
    return effective, rank


def check(
    solve: Solve, value: Tensor, seen: Tensor, start: Tensor, stop: Tensor, group: int = 1, *, relative: bool = False
) -> Solution:
    """Compare with ``naive``, on outputs that are sums of values; ``relative`` to the size of each, where they vary."""
    problems, keys, _ = value.shape
    place = torch.arange(keys)
    mask = (place >= start[..., None]) & (place < stop[..., None]) & seen[:, None]  # (problem, query, key)
    weights = torch.rand(problems, group, *mask.shape[1:], dtype=torch.float64) * mask[:, None]
    output = weights @ value.double()[:, None]
    found = solve(value, seen, start, stop, output)
    effective, rank = naive(value, seen, start, stop, output)
    assert torch.equal(found.rank, rank)
    assert (found.bound <= LIMIT).all()
    ours = found.coefficients @ value.double()[:, None].mT * mask[:, None]
    torch.testing.assert_close(ours, effective, atol=1e-6, rtol=0)
    size = output.abs().amax(dim=-1, keepdim=True) if relative else torch.ones(())
    torch.testing.assert_close(found.output / size, output / size, atol=1e-6, rtol=1e-6)
    return found


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("kind", ["causal", "window", "around", "wide"])
@pytest.mark.parametrize("width", [1, 3, 8, 12, 24])
def test_against_the_pseudo_inverse(width: int, kind: str, repeated: bool, solve: Solve) -> None:
    value = values(width, repeated=repeated)
    start, stop = (part.expand(3, -1) for part in moving(kind))
    check(solve, value, torch.ones(3, KEYS, dtype=torch.bool), start, stop)


def test_keys_that_nobody_sees_and_queries_that_see_nothing(solve: Solve) -> None:
    seen = torch.rand(3, KEYS, generator=torch.Generator().manual_seed(2)) < 0.7
    seen[:, :5] = False
    start, stop = (part.expand(3, -1) for part in moving("causal"))
    found = check(solve, values(8), seen, start, stop)
    assert not found.coefficients[:, :, :5].any()
    assert not found.rank[:, :5].any()


def test_queries_of_a_group_share_their_keys(solve: Solve) -> None:
    start, stop = (part.expand(3, -1) for part in moving("causal"))
    check(solve, values(8), torch.ones(3, KEYS, dtype=torch.bool), start, stop, group=4)


def test_intervals_may_jump(solve: Solve) -> None:
    """Prefixes, blocks, backwards: slower then, but the same."""
    start = torch.tensor([[0, 0, 30, 30, 5, 0, 50]])
    stop = torch.tensor([[20, 20, 45, 60, 25, 60, 60]])
    check(solve, values(8, problems=1), torch.ones(1, KEYS, dtype=torch.bool), start, stop)


def test_values_that_never_span_all_dimensions(solve: Solve) -> None:
    value = values(12)
    value[..., 7:] = value[..., :5] * 2
    for kind in ("causal", "window"):
        start, stop = (part.expand(3, -1) for part in moving(kind))
        found = check(solve, value, torch.ones(3, KEYS, dtype=torch.bool), start, stop)
        assert found.rank.max() == 7


@pytest.mark.parametrize("kind", ["causal", "window"])
def test_what_cannot_be_proved_is_marked(kind: str, solve: Solve) -> None:
    value = values(8)
    value[..., 7] = value[..., 0] + 3e-6 * torch.randn(3, KEYS)  # neither independent nor not
    start, stop = (part.expand(3, -1) for part in moving(kind))
    output = value.double().cumsum(dim=1)[:, None]
    found = solve(value, torch.ones(3, KEYS, dtype=torch.bool), start, stop, output)
    assert (found.rank[:, 20:] == -1).all()
    assert found.bound[:, 20:].isinf().all()


def test_a_thin_direction_that_later_keys_fill_is_solved_again(solve: Solve) -> None:
    value = values(8)
    value[:, :30, 7] = value[:, :30, 0] + 3e-6 * torch.randn(3, 30)
    start, stop = (part.expand(3, -1) for part in moving("causal"))
    seen = torch.ones(3, KEYS, dtype=torch.bool)
    output = torch.cumsum(value.double(), dim=1)[:, None]
    found = solve(value, seen, start, stop, output)
    assert (found.rank[:, 20:30] == -1).all()
    assert (found.rank[:, 40:] == 8).all()
    effective, _ = naive(value, seen, start, stop, output)
    ours = found.coefficients @ value.double()[:, None].mT
    torch.testing.assert_close(ours[:, :, -1], effective[:, :, -1], atol=1e-7, rtol=0)


def test_a_heavy_key_that_has_gone_leaves_nothing_behind(solve: Solve) -> None:
    value = values(8)
    value[:, 10] *= 1e3
    start, stop = (part.expand(3, -1) for part in moving("window"))
    check(solve, value, torch.ones(3, KEYS, dtype=torch.bool), start, stop)


@pytest.mark.parametrize("factor", [0.5, 0.6, 0.8])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_values_that_fade_leave_no_rounding_of_those_before(width: int, factor: float, solve: Solve) -> None:
    value = values(width) * factor ** torch.arange(KEYS)[:, None]
    place = torch.arange(KEYS)
    start = (place - 4 * width).clamp(min=0).expand(3, -1)
    check(solve, value, torch.ones(3, KEYS, dtype=torch.bool), start, (place + 1).expand(3, -1), relative=True)


def test_dimensions_that_are_the_same_but_for_rounding(solve: Solve) -> None:
    left, right = torch.randn(3, KEYS, 4), torch.randn(3, 4, 12)
    start, stop = (part.expand(3, -1) for part in moving("window"))
    found = check(solve, left @ right, torch.ones(3, KEYS, dtype=torch.bool), start, stop)
    assert found.rank.max() == 4


@pytest.mark.parametrize("kind", ["causal", "window", "around"])
def test_queries_with_independent_keys_may_be_skipped(kind: str) -> None:
    value = values(24)
    value[0, 3] = value[0, 1]  # of the first problem, the first keys are not independent
    seen = torch.ones(3, KEYS, dtype=torch.bool)
    start, stop = (part.expand(3, -1) for part in moving(kind))
    output = torch.randn(3, 2, KEYS, 24, dtype=torch.float64)
    whole = compiled(value, seen, start, stop, output)
    state = State.empty(3, 24)
    found = moving_gram.solve_along(value.double(), seen, start, stop, output, state=state, skip_independent=True)
    assert torch.equal(found.rank, whole.rank)
    skipped = (found.coefficients == 0).all(dim=-1).all(dim=1)  # (problem, query)
    assert (found.rank == stop - start)[skipped].all()
    assert skipped[1:, :20].all()
    assert not skipped[0, 3:5].any()
    assert torch.equal(found.output[skipped[:, None].expand(3, 2, KEYS)], output[skipped[:, None].expand(3, 2, KEYS)])
    kept = ~skipped[:, None, :, None]
    torch.testing.assert_close(found.coefficients * kept, whole.coefficients * kept, atol=1e-9, rtol=1e-6)
    for p, q in ((1, 5), (2, 19)):
        own = value[p, start[p, q] : stop[p, q]].double()
        assert torch.linalg.cond(own) <= found.bound[p, q] <= LIMIT


@pytest.mark.parametrize("kind", ["causal", "window"])
@pytest.mark.parametrize("repeated", [False, True])
def test_a_stream_is_the_same_as_all_at_once(kind: str, repeated: bool) -> None:
    value = values(8, repeated=repeated)
    seen = torch.ones(3, KEYS, dtype=torch.bool)
    start, stop = (part.expand(3, -1) for part in moving(kind))
    output = torch.randn(3, 2, KEYS, 8, dtype=torch.float64)
    whole = compiled(value, seen, start, stop, output)
    state = State.empty(3, 8)
    for q in range(KEYS):
        one = slice(q, q + 1)
        arrays = value[:, : q + 1].double(), seen[:, : q + 1], start[:, one], stop[:, one], output[:, :, one]
        part = moving_gram.solve_along(*arrays, state=state)
        assert torch.equal(part.rank, whole.rank[:, one])
        torch.testing.assert_close(part.coefficients, whole.coefficients[:, :, one], atol=1e-9, rtol=1e-6)


def test_threads_change_nothing() -> None:
    value = values(16, problems=5)
    seen = torch.ones(5, KEYS, dtype=torch.bool)
    start, stop = (part.expand(5, -1) for part in moving("causal"))
    output = torch.randn(5, 1, KEYS, 16, dtype=torch.float64)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(compiled(value, seen, start, stop, output))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0].coefficients, found[1].coefficients)
    assert torch.equal(found[0].bound, found[1].bound)
