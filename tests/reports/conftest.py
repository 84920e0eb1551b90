"""Made-up tables in the shape the analyses write, for figures and the report."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from helpers.fake_a import fake_tables_a
from helpers.fake_b import fake_b
from helpers.fake_c import fake_tables_c
from helpers.fakes import FRONT, with_facts
from helpers.schema_tables import plain_tables

PAPER_TASKS = ("rte", "mrpc", "qnli", "sst2", "stsb")
METRICS = {"stsb": "pearson"}


def fake_tables(task: str = "mrpc", *, layers: int = 2, heads: int = 3, seed: int = 0, **front: Any) -> dict[str, Any]:
    """Every analysis' table for one task, with plausible values; ``front`` overrides the columns in front."""
    made = _made(task, layers, heads, seed, tuple(front.items()))
    return {name: table.copy() for name, table in made.items()}


@cache
def _made(task: str, layers: int, heads: int, seed: int, front: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Make them once; hundreds of tests ask for the same ones."""
    first = {**FRONT, "task": task, "checkpoint": f"runs/{task}", **dict(front)}
    made = {
        **fake_tables_a(first, task, seed=seed, layers=layers, heads=heads),
        **{name: with_facts(body, first) for name, body in fake_b(task, seed, layers, heads).items()},
        **fake_tables_c(first, task, seed=seed, layers=layers, heads=heads),
    }
    return made | plain_tables(made, first, seed, layers, heads)


def fake_facts(task: str = "mrpc", **more: Any) -> dict[str, Any]:
    """What ``metrics.json`` of a run holds."""
    metric = METRICS.get(task, "accuracy")
    facts: dict[str, Any] = {
        "run/task": task,
        "run/model": "minilm",
        "run/data": "local",
        "run/seed": 0,
        "run/checkpoint": f"runs/{task}",
    }
    facts |= {"data/validation/examples": 408}
    for name, ratio in (("standard", None), ("effective", 1.31), ("padded", 2.47)):
        prefix = f"test/{name}/"
        facts |= {
            prefix + metric: 0.804,
            prefix + "timed_batches": 51,
            prefix + "seconds": 3 * (ratio or 1),
            prefix + "examples_per_second": 136 / (ratio or 1),
        }
        if ratio is not None:
            facts |= {
                prefix + "seconds_ratio": ratio,
                prefix + "seconds_ratio_low": ratio - 0.05,
                prefix + "seconds_ratio_high": ratio + 0.1,
                prefix + "max_logit_difference": 8.7e-06,
                prefix + "null_space_share": 0.9,
            }
            facts |= {} if task == "stsb" else {prefix + "changed_predictions": 3 if name == "padded" else 0}
    return facts | more


@pytest.fixture
def make_tables() -> Callable[..., dict[str, Any]]:
    return fake_tables


@pytest.fixture
def make_facts() -> Callable[..., dict[str, Any]]:
    return fake_facts


@pytest.fixture(scope="session")
def makers() -> tuple[Callable[..., dict[str, Any]], Callable[..., dict[str, Any]]]:
    """Both, for what outlives a test: tables, facts."""
    return fake_tables, fake_facts


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report over RTE, MRPC and STS-B. Shared: do not change it."""
    from effective_attention.reports.report import write_report
    from effective_attention.reports.runs import RunResults

    path = tmp_path_factory.mktemp("report") / "report.html"
    tasks = ("rte", "mrpc", "stsb")
    write_report(
        path,
        [RunResults(fake_facts(task), fake_tables(task, seed=index), str(index)) for index, task in enumerate(tasks)],
    )
    return path
