"""Generated tensors: ``decompose`` refuses them in one line, or its parts are finite and ``A V = A_effective V``."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from effective_attention import decompose
from fuzz.lines import problem_with

Case = dict[str, Any]
"""Choices by name, and the seed of the numbers: short enough to be printed, and enough to make the tensors again."""
KINDS = (
    torch.float32,
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.bool,
    torch.complex64,
)
SPECIAL = (None,) * 8 + (float("nan"), float("inf"), -float("inf"), 1e30, 1e-30, 0.0)
MASKS = (
    "none", "none", "keys", "keys", "causal", "full", "heads", "numbers", "floats", "additive", "two", "wrong",
    "nothing", "one axis",
)  # fmt: skip
OPTIONS: tuple[dict[str, Any], ...] = (
    *({},) * 8, {"reading": "padded"}, {"reading": "nothing"}, {"rtol": 1e-3}, {"rtol": 0.0}, {"rtol": 1.0},
    {"rtol": -1.0}, {"rtol": float("nan")}, {"space": "affine"}, {"space": "affine"}, {"space": "nowhere"},
    {"epsilon": 0.1}, {"epsilon": 1e-9}, {"epsilon": 0.3, "space": "affine"}, {"epsilon": 1.0},
    {"epsilon": float("nan")}, {"epsilon": "much"},
)  # fmt: skip


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield choices."""
    draw = random.Random(seed)
    for number in range(count):
        sizes = {
            name: draw.randrange(least, most)
            for name, least, most in (("batch", 0, 4), ("head", 0, 4), ("query", 0, 8))
        }
        sizes |= {"key": draw.randrange(0, 10), "width": draw.randrange(0, 7)}
        kind = draw.choice(KINDS)
        yield {
            **sizes,
            "seed": f"{seed}.{number}",
            "attention": kind,
            "value": kind if draw.random() < 0.9 else draw.choice(KINDS),
            "rank": draw.choice((None, None, 1, 2)),
            "special": (draw.choice(SPECIAL), draw.choice(("attention", "value"))),
            "mask": draw.choice(MASKS),
            "options": draw.choice(OPTIONS),
            "strided": draw.random() < 0.2,
            "misfit": draw.random() < 0.05,
        }


def check(case: Case) -> str | None:
    """Say what is wrong with a split."""
    attention, value, mask = _tensors(case)
    try:
        parts = decompose(attention, value, mask, **case["options"])
    except (ValueError, TypeError) as error:
        return problem_with(error)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if parts.effective.shape != attention.shape or parts.effective.dtype != attention.dtype:
        return f"shape or type: {tuple(parts.effective.shape)} {parts.effective.dtype}"
    if not all(bool(part.isfinite().all()) for part in (parts.attention, parts.effective, parts.null)):
        return "not finite"
    if case["options"].get("reading") == "padded" or {"rtol", "epsilon"} & case["options"].keys():
        return None  # the output is allowed to change
    return _same_output(parts.attention, parts.effective, parts.value)


def _same_output(attention: Tensor, effective: Tensor, value: Tensor) -> str | None:
    """Compare in double precision, on the scale of a head's sums: below it, a singular value counts as 0."""
    wide = [tensor.double() for tensor in (attention, effective, value)]
    change = (wide[0] @ wide[2] - wide[1] @ wide[2]).abs()
    scale = wide[0].abs() @ wide[2].abs() + wide[1].abs() @ wide[2].abs()
    precision = max(torch.finfo(tensor.dtype).eps for tensor in (attention, value))
    if not change.numel():
        return None
    worst = float((change.amax(dim=(-2, -1)) / scale.amax(dim=(-2, -1)).clamp_min(1e-300)).max())
    return (
        None if worst <= 64 * max(precision, torch.finfo(torch.float32).eps) else f"the output changes by {worst:.1e}"
    )


def _tensors(case: Case) -> tuple[Tensor, Tensor, Tensor | None]:
    numbers = torch.Generator().manual_seed(random.Random(case["seed"]).getrandbits(40))
    batch, head, query, key, width = (case[name] for name in ("batch", "head", "query", "key", "width"))
    attention = torch.randn(batch, head, query, key, generator=numbers).softmax(-1)
    value = torch.randn(batch, head, key, width, generator=numbers)
    if case["rank"] is not None:
        value = value[..., : case["rank"]] @ torch.randn(min(case["rank"], width), width, generator=numbers)
    special, where = case["special"]
    chosen = {"attention": attention, "value": value}[where]
    if special is not None and chosen.numel():
        chosen.view(-1)[int(torch.randint(chosen.numel(), (1,), generator=numbers))] = special
    attention, value = attention.to(case["attention"]), value.to(case["value"])
    if case["strided"]:
        attention, value = attention.mT.contiguous().mT, value.mT.contiguous().mT
    if case["misfit"]:
        value = value[..., :-1, :] if key else value[0:0]
    return attention, value, _mask(case["mask"], (batch, head, query, key), numbers)


def _mask(kind: str, shape: tuple[int, ...], numbers: torch.Generator) -> Tensor | None:
    batch, head, query, key = shape
    seen = torch.rand(batch, key, generator=numbers) < 0.7
    makers: dict[str, Tensor | None] = {
        "none": None,
        "keys": seen,
        "causal": torch.ones(query, key, dtype=torch.bool).tril(),
        "full": torch.rand(batch, 1, query, key, generator=numbers) < 0.7,
        "heads": torch.rand(1, head, 1, key, generator=numbers) < 0.7,
        "numbers": seen.long(),
        "floats": seen.float(),
        "additive": torch.where(seen, 0.0, -1e9),
        "two": 2 * seen.long(),
        "wrong": torch.ones(batch + 1, key + 1, dtype=torch.bool),
        "nothing": torch.zeros(batch, key, dtype=torch.bool),
        "one axis": torch.ones(key, dtype=torch.bool),
    }
    return makers[kind]
