"""Made-up tables in the shape the analyses write, for figures and the report."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from helpers.fake_c import fake_tables_c
from helpers.identifiability_tables import WHOLE, alternative, type_profile
from helpers.schema_tables import plain_tables

PAPER_TASKS = ("rte", "mrpc", "qnli", "sst2", "stsb")
TYPES = ("noun", "pronoun", "verb", "sep", "cls", "punctuation")
PATTERNS = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
METRICS = {"stsb": "pearson"}


def fake_tables(task: str = "mrpc", *, layers: int = 2, heads: int = 3, seed: int = 0, **front: Any) -> dict[str, Any]:
    """Every analysis' table for one task, with plausible values; ``front`` overrides the columns in front."""
    import numpy as np
    from pandas import DataFrame

    random = np.random.default_rng([seed, *task.encode()])
    cells = list(product(range(layers), range(heads)))
    kinds = ("standard", "effective")
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

    level = {"sep": 0.45, "cls": 0.2, "punctuation": 0.25, "noun": 0.1, "pronoun": 0.04, "verb": 0.06}
    token_types = [
        {"attention": kind, "layer": layers - 1, "head": head, "token_type": name, "statistic": statistic, "count": 300,
         "value": scale * uniform(0.2, 1.6) * level[name] * (0.6 if kind == "effective" and name == "sep" else 1)}
        for kind, head, name, (statistic, scale) in product(
            kinds, range(heads), TYPES, (("largest", 1.0), ("mean", 0.6), ("lift", 8.0)))
    ]  # fmt: skip
    low = -uniform(0.3, 0.6)
    delimiters = [
        {"attention": kind, "layer": layer, "head": head, "delimiter": name, "value": uniform(0, 0.7),
         "scale_min": 0.0 if kind == "standard" else low, "scale_max": 1.0 if kind == "standard" else 1.32}
        for kind, name, (layer, head) in product(kinds, ("cls", "sep"), cells)
    ]  # fmt: skip
    shift = [
        {"attention": kind, "layer": layer, "head": head, "value": 1 - uniform(0.01, 0.5) * ((layer + 1) / layers) ** 2}
        for kind, (layer, head) in product(kinds, cells)
    ]
    made = {
        "token_types": table(token_types),
        "delimiters": table(delimiters),
        "finetuning_shift": table(shift),
        "patterns": table(_patterns(random, layers)),
        "null_space": table(_null_space(uniform, cells), None),
        "timing": table(_timing(task), None).assign(reading="exact"),
        "heatmap": table(_heatmap(random)),
        "head_ablation": table(_ablation(task, uniform, cells, layers)),
        "attention_graph": table(_attention_graph(random, layers)),
        "pronouns": table(_pronouns(uniform, layers)).assign(checkpoint=""),
        "faithfulness": table(_faithfulness(uniform, layers)),
        "alternative_attention": table(alternative(random, layers, heads)),
        "token_type_profile": table(type_profile(random, layers, heads)),
        **fake_tables_c(first, task, seed=seed, layers=layers, heads=heads),
    }
    return made | plain_tables(made, first, seed, layers, heads)


def _patterns(random: Any, layers: int) -> list[dict[str, Any]]:
    rows = []
    for kind in ("standard", "effective"):
        for layer in (None, *range(layers)):
            for name, share in zip(PATTERNS, random.dirichlet([4, 2, 1.4, 2, 6]), strict=True):
                rows.append(
                    {"attention": kind, "layer": layer, "head": None, "pattern": name, "value": share, "count": 1000}
                )
    return rows


def _null_space(uniform: Callable[[float, float], float], cells: list[tuple[int, int]]) -> list[dict[str, Any]]:
    rows = []
    for layer, head in cells:
        for reading, scale in (("exact", 1.0), ("exact_subset", 1.0), ("padded", 2.5), ("projected", 1.1)):
            values = {
                "pearson": 1 - 0.08 * scale,
                "null_mass": 0.1 * (layer + 1) ** 0.5 * scale * uniform(0.8, 1.2),
                "nullity": 20 * scale,
            }
            values |= {"rank": 31.6, "nontrivial": 0.9} if reading == "exact" else {}
            values |= {"output_change": 0.07} if reading == "padded" else {}
            values |= {"rank": 31.2, "projection_rank": 32, "effective_gap": 2e-7} if reading == "projected" else {}
            place = {
                "attention": "effective",
                "reading": reading,
                "layer": layer,
                "head": head,
                "length": None,
                "count": 408,
            }
            rows += [{**place, "quantity": name, "value": value} for name, value in values.items()]
    for length in range(8, 120):
        beyond = max(0, length - 32)
        values = {
            "rank": min(length, 32),
            "nullity": beyond,
            "pearson": 1 - 0.002 * beyond * uniform(0.8, 1.2),
            "null_mass": 0.006 * beyond,
        }
        place = {
            "attention": "effective",
            "reading": "exact",
            "layer": None,
            "head": None,
            "length": length,
            "count": 1 + length % 5,
        }
        rows += [{**place, "quantity": name, "value": value} for name, value in values.items()]
    return rows


def _timing(task: str) -> list[dict[str, Any]]:
    ratios = {"standard": 1.0, "effective": 1.31, "padded": 2.47}
    paper = {"rte": 2.0, "mrpc": 1.93, "qnli": 1.92, "sst2": 1.98, "stsb": 2.03}
    return [
        {"attention": name, "seconds": 3 * ratio, "examples_per_second": 136 / ratio, "ratio": ratio,
         "paper_ratio": {"standard": 1.0, "effective": paper.get(task, float("nan"))}.get(name, float("nan"))}
        for name, ratio in ratios.items()
    ]  # fmt: skip


HEATMAP_TOKENS = ("[CLS]", "new", "anti", "##biotics", "cost", "$5", "[SEP]", "<script>alert(1)</script>", "[SEP]")


def _heatmap(random: Any, tokens: tuple[str, ...] = HEATMAP_TOKENS) -> list[dict[str, Any]]:
    standard = random.dirichlet([0.3] * len(tokens), size=len(tokens))
    null = random.normal(0, 0.05, standard.shape)
    parts = {"standard": standard, "effective": standard - null, "null": null}
    return [
        {"attention": kind, "layer": 1, "head": 2, "query": i, "key": j, "query_token": tokens[i], "key_token": tokens[j],
         "value": float(values[i, j])}
        for kind, values in parts.items() for i, j in product(range(len(tokens)), repeat=2)
    ]  # fmt: skip


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


def _ablation(
    task: str, uniform: Callable[[float, float], float], cells: list[Any], layers: int
) -> list[dict[str, Any]]:
    metric = METRICS.get(task, "accuracy")
    places = [*cells, *((layer, None) for layer in range(layers))]
    changes = [uniform(-0.04, 0.015) * (2 if head is None else 1) for _, head in places]
    return [
        {
            "attention": "standard",
            "layer": layer,
            "head": head,
            "metric": metric,
            "value": 0.8 + change,
            "change": change,
        }
        for (layer, head), change in zip(places, changes, strict=True)
    ]


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
