"""What the model answers is written down by name, an example a row."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from effective_attention.data.examples import Examples
from effective_attention.data.tasks import Task
from effective_attention.io import write_table
from effective_attention.reports.runs import collect_facts, collect_runs
from effective_attention.run.predictions import prediction_table

PAIRS = [("=1+1", "two"), ("a", "b")]


def make_task(**options: Any) -> Task:
    metrics = {"accuracy": {"_target_": "torchmetrics.classification.BinaryAccuracy"}}
    return Task("toy", ["text"], metrics, "accuracy", "toy", **options)


def test_classes() -> None:
    task = make_task(labels=["no", "yes"])
    logits = {1: torch.tensor([0.0, 0.0]), 0: torch.log(torch.tensor([0.25, 0.75]))}
    table = prediction_table(Examples([("one",), ("two",)], [1, 1], "here"), task, logits)
    assert list(table) == ["example", "text", "gold", "predicted", "probability", "correct"]
    assert table["text"].tolist() == ["one", "two"]
    assert table["gold"].tolist() == ["yes", "yes"]
    assert (table["predicted"].tolist(), table["correct"].tolist()) == (["yes", "no"], [True, False])
    assert table["probability"].tolist() == pytest.approx([0.75, 0.5])


def test_scores_have_no_probability_of_their_own() -> None:
    table = prediction_table(Examples([("one",)], [2.5], "here"), make_task(label_range=[0, 5]), {0: torch.tensor(2.0)})
    row = table.iloc[0]
    assert (row["gold"], row["predicted"], row["probability"], row["correct"]) == (2.5, 2.0, 2.0, None)


def test_pairs_are_written_safely_and_are_no_analysis(tmp_path: Path) -> None:
    metrics = {"accuracy": {"_target_": "torchmetrics.classification.BinaryAccuracy"}}
    task = Task("toy", ["a", "b"], metrics, "accuracy", "toy", labels=["no", "yes"])
    table = prediction_table(Examples(PAIRS, [0, 1], "here"), task, {n: torch.zeros(2) for n in range(2)})
    assert list(table)[1:3] == ["text", "text_pair"]
    write_table(tmp_path / "tables" / "predictions", table)
    assert pd.read_csv(tmp_path / "tables" / "predictions.csv")["text"].tolist() == ["'=1+1", "a"]
    (tmp_path / "metrics.json").write_text('{"run/task": "toy", "run/model": "tiny", "run/data": "local"}')
    (run,) = collect_runs(collect_facts(tmp_path), to=tmp_path)
    assert run.tables == {}
