"""``resamples=``: intervals of scores, of what chapters follow, and of tables."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from effective_attention.analyses.common.resampling import Resampling
from effective_attention.run.experiment import evaluate
from effective_attention.run.intervals import score_intervals


@pytest.fixture(scope="module")
def drawn(trained, composer, tmp_path_factory):
    options = ["analysis=[delimiters,timing]", "attention=all", "resamples=50", "seed=3"]
    cfg = composer("evaluate", tmp_path_factory.mktemp("drawn"), f"checkpoint={trained.folder}", *options)
    return cfg, evaluate(cfg)


def test_a_run_has_intervals_and_is_otherwise_the_same(drawn, trained, compose):
    cfg, metrics = drawn
    plain = evaluate(compose("evaluate", f"checkpoint={trained.folder}", "analysis=delimiters", "seed=3"))
    assert not any(name.startswith("interval/") for name in plain)
    for name in (
        "test/standard/accuracy",
        "test/padded/accuracy",
        "delimiters/effective/cls",
        "delimiters/standard/sep",
    ):
        low, high = (metrics[f"interval/{name}/{side}"] for side in ("low", "high"))
        assert low < high, name
        assert low <= metrics[name] <= high, name
    assert metrics["delimiters/effective/cls"] == pytest.approx(plain["delimiters/effective/cls"])
    change = metrics["delimiters/effective/cls"] - metrics["delimiters/standard/cls"]
    low, high = (metrics[f"interval/delimiters/effective/cls/change_{side}"] for side in ("low", "high"))
    assert low <= change <= high
    assert "interval/delimiters/standard/cls/change_low" not in metrics
    assert metrics["interval/test/effective/accuracy/change_low"] == 0  # no prediction changes
    assert json.loads((_folder(cfg) / "metrics.json").read_text(encoding="utf-8")) == pytest.approx(
        metrics, nan_ok=True
    )


def _folder(cfg):
    return Path(cfg.run_dir)


def test_tables_and_report_show_them(drawn):
    folder = _folder(drawn[0])
    table = pd.read_parquet(folder / "tables" / "delimiters.parquet")
    assert (table["value_low"] < table["value_high"]).all()
    assert "value_low" not in pd.read_parquet(folder / "tables" / "timing.parquet")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<caption><span>With 95") == 2  # of the scores, and of the delimiters


def test_scores_beside_a_naive_loop(make_task):
    from effective_attention.models.classifier import SequenceClassifier

    classifier = SequenceClassifier.__new__(SequenceClassifier)
    torch.nn.Module.__init__(classifier)
    classifier.task = make_task("mrpc")
    labels = [0, 1, 1, 0, 1, 1, 0, 1]
    logits = {place: torch.tensor([0.0, 1.0 if place % 3 else -1.0]) for place in range(8)}
    resampling = Resampling(draws=40, seed=2)
    found = score_intervals(classifier, {"standard": logits}, labels, resampling)
    right = np.array([label == (1 if place % 3 else 0) for place, label in enumerate(labels)])
    draws = torch.randint(8, (40, 8), generator=torch.Generator().manual_seed(2)).numpy()
    expected = np.quantile(right[draws].mean(axis=1), [0.025, 0.975])
    got = [found[f"interval/test/standard/accuracy/{side}"] for side in ("low", "high")]
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_few_examples_are_said(drawn, trained, compose, caplog):
    evaluate(compose("evaluate", f"checkpoint={trained.folder}", "analysis=timing", "resamples=2"))
    assert "16 examples: 95 % intervals of fewer than 30 are too short" in caplog.text
