"""Made-up tables in the shape the analyses write, for figures and the report."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from helpers.fake_a import fake_tables_a
from helpers.identifiability_tables import WHOLE, alternative, identity, mixing, type_profile
from helpers.structure_tables import structure_tables

PAPER_TASKS = ("rte", "mrpc", "qnli", "sst2", "stsb")
METRICS = {"stsb": "pearson"}


def fake_tables(task: str = "mrpc", *, layers: int = 2, heads: int = 3, seed: int = 0, **front: Any) -> dict[str, Any]:
    """Every analysis' table for one task, with plausible values; ``front`` overrides the columns in front."""
    import numpy as np
    from pandas import DataFrame

    random = np.random.default_rng([seed, *task.encode()])
    first = {
        "task": task,
        "model": "minilm",
        "data": "local",
        "split": "validation",
        "checkpoint": f"runs/{task}",
        "examples": 408,
    }
    first |= front

    def table(rows: list[dict[str, Any]], reading: str | None = "exact") -> DataFrame:
        given = {} if reading is None else {"reading": reading}
        frame = DataFrame([{**first, **given, **row} for row in rows])
        whole = [name for name in WHOLE if name in frame]
        return frame.astype(dict.fromkeys(whole, "Int64"))

    def uniform(low: float, high: float) -> float:
        return float(random.uniform(low, high))

    return {
        **fake_tables_a(first, task, seed=seed, layers=layers, heads=heads),
        "attention_graph": table(_attention_graph(random, layers)),
        "pronouns": table(_pronouns(uniform, layers)).assign(checkpoint=""),
        "faithfulness": table(_faithfulness(uniform, layers)),
        "alternative_attention": table(alternative(random, layers, heads)),
        "token_type_profile": table(type_profile(random, layers, heads)),
        "token_identity": table(identity(random, layers)),
        "token_mixing": table(mixing(random, layers)),
        **structure_tables(first, seed, layers, heads),
    }


HEATMAP_TOKENS = ("[CLS]", "new", "anti", "##biotics", "cost", "$5", "[SEP]", "<script>alert(1)</script>", "[SEP]")


def _attention_graph(random: Any, layers: int, tokens: tuple[str, ...] = HEATMAP_TOKENS) -> list[dict[str, Any]]:
    """Raw attention of all tokens; rollout and flow of the second."""
    rows = []
    for kind, method in product(("standard", "effective"), ("raw", "rollout", "flow")):
        queries = range(len(tokens)) if method == "raw" else [1]
        for layer, query in product(range(layers), queries):
            for key, value in enumerate(random.dirichlet([0.4] * len(tokens))):
                place = {"query": query, "key": key, "query_token": tokens[query], "key_token": tokens[key]}
                rows.append(
                    {
                        "attention": kind,
                        "method": method,
                        "layer": layer,
                        **place,
                        "value": value,
                        "convention": "absolute",
                    }
                )
    return rows


PRONOUN_TEXT = "The author talked to Sara about [MASK] $5 book ."


def _pronouns(uniform: Callable[[float, float], float], layers: int) -> list[dict[str, Any]]:
    chances = {"his": 0.06, "her": 0.18}
    rows: list[dict[str, Any]] = [
        {"attention": None, "method": None, "layer": None, "name": name, "quantity": quantity, "value": chance / whole}
        for name, chance in chances.items() for quantity, whole in (("probability", 1.0), ("relative_probability", 0.24))
    ]  # fmt: skip
    rows += [
        {"attention": kind, "method": method, "layer": layer, "name": name, "quantity": "attention", "value": uniform(0.01, 0.2)}
        for kind, method, layer, name in product(
            ("standard", "effective"), ("raw", "rollout", "flow"), range(layers), ("author", "Sara"))
    ]  # fmt: skip
    return [{**row, "text": PRONOUN_TEXT, "convention": "absolute"} for row in rows]


WITH_ATTENTION = ("raw", "rollout", "flow", "gradient_attention", "gradient_rollout", "norm", "norm_rollout")
WITHOUT_ATTENTION = ("input_gradient", "gradient_x_input", "integrated_gradients", "blank_out", "random")
RANKED = ("spearman_blank_out", "spearman_gradients", "subject_first")


def _faithfulness(uniform: Callable[[float, float], float], layers: int) -> list[dict[str, Any]]:
    places: list[tuple[str | None, str, int | None, str]] = []
    for kind, method in product(("standard", "effective"), WITH_ATTENTION):
        places += [(kind, method, layer, measure) for layer, measure in product(range(layers), RANKED)]
        places += [(kind, method, layers - 1, measure) for measure in ("comprehensiveness", "sufficiency")]
        places.append((kind, method, None, "milliseconds"))
    for method in WITHOUT_ATTENTION:
        own = {"input_gradient": "spearman_gradients", "blank_out": "spearman_blank_out"}.get(method)
        measures = (*RANKED, "comprehensiveness", "sufficiency", "milliseconds")
        places += [(None, method, None, measure) for measure in measures if measure != own]
    rows = []
    for kind, method, layer, measure in places:
        row = {
            "attention": kind,
            "method": method,
            "layer": layer,
            "measure": measure,
            "value": uniform(0.05, 0.8),
            "count": 100,
        }
        if measure == "milliseconds":
            rows.append({**row, "value": 10 ** uniform(-1, 3), "std": None, "low": None, "high": None})
        else:
            rows.append({**row, "std": 0.2, "low": row["value"] - 0.04, "high": row["value"] + 0.05})  # type: ignore[operator]
    return rows


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
            prefix + "seconds": 3 * (ratio or 1),
            prefix + "examples_per_second": 136 / (ratio or 1),
        }
        if ratio is not None:
            facts |= {
                prefix + "seconds_ratio": ratio,
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
