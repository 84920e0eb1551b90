"""``text=`` means that text: nothing of the split is loaded or tested, and what looks at the split says so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from effective_attention.data.sources import SampleSource
from effective_attention.errors import UserError
from effective_attention.models.encoders import TinyEncoder
from effective_attention.run import experiment
from effective_attention.run.experiment import evaluate, train
from effective_attention.run.options.texts import quoted

Compose = Callable[..., Any]
TEXT = quoted("text=The unbelievably old cat didn't purr.")


@pytest.fixture
def _no_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where the split is loaded or tested."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the split is not asked for")

    monkeypatch.setattr(experiment, "compare_attentions", refuse)
    monkeypatch.setattr(SampleSource, "load", refuse)


@pytest.mark.usefixtures("_no_split")
def test_the_text_takes_the_place_of_the_split(trained: Any, compose: Compose, tmp_path: Path, capsys: Any) -> None:
    found = evaluate(compose("evaluate", f"checkpoint={trained.folder}", "analysis=explain", TEXT))
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert not [name for name in metrics if name.startswith("test/")]
    assert (metrics["run/data"], metrics["data/text/examples"]) == ("text", 1)
    table = pd.read_parquet(tmp_path / "run" / "tables" / "explain.parquet")
    assert table["word"].tolist() == ["The", "unbelievably", "old", "cat", "didn't", "purr", "."]
    assert set(table["split"]) == set(table["data"]) == {"text"}
    assert (found["text/predicted"], found["text/probability"]) == (
        table["predicted"].iloc[0],
        pytest.approx(table["probability"].iloc[0]),
    )
    said = capsys.readouterr().out
    assert " on the text given with text=\n" in said
    assert f"predicted: {found['text/predicted']}, probability {found['text/probability']:.3f}\n" in said
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert 'id="scores"' not in page
    assert 'id="explain"' in page
    assert (tmp_path / "run" / "figures" / "explain.png").is_file()


@pytest.mark.usefixtures("_no_split")
def test_analyses_of_the_split_are_left_out_and_named(compose: Compose, tmp_path: Path, caplog: Any) -> None:
    evaluate(compose("evaluate", "analysis=[token_types,heatmap,timing]", TEXT))
    assert [path.stem for path in (tmp_path / "run" / "tables").glob("*.parquet")] == ["heatmap"]
    said = [record.message for record in caplog.records if "text=" in record.message]
    assert said == ["left out, because they look at the split and not at text=: token_types, timing"]


@pytest.mark.usefixtures("_no_split")
def test_where_all_look_at_the_split_the_text_is_refused(compose: Compose, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^text: analysis=token_types, timing is of the split, not of a text; "):
        evaluate(compose("evaluate", "analysis=[token_types,timing]", TEXT))
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("_no_split")
def test_without_analyses_the_prediction_alone_is_told(trained: Any, compose: Compose, capsys: Any) -> None:
    metrics = evaluate(compose("evaluate", f"checkpoint={trained.folder}", "analysis=none", TEXT))
    assert metrics["text/predicted"] in ("equivalent", "not_equivalent")
    assert "predicted: " in capsys.readouterr().out


@pytest.mark.usefixtures("_no_split")
def test_a_regression_tells_a_score(compose: Compose) -> None:
    metrics = evaluate(compose("evaluate", "task=stsb", "analysis=explain", TEXT, quoted("text_pair=It did.")))
    assert isinstance(metrics["text/score"], float)
    assert "text/predicted" not in metrics


@pytest.mark.usefixtures("_no_split")
def test_a_task_without_labels_predicts_nothing(compose: Compose, tmp_path: Path, caplog: Any) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n", encoding="utf-8")
    options = ["task=text", "data=local", f"data.file={file}", "analysis=[explain,heatmap]"]
    metrics = evaluate(compose("evaluate", *options, TEXT))
    assert not [name for name in metrics if name.startswith("text/")]
    assert "left out, because the task has no labels: explain" in [record.message for record in caplog.records]


def test_an_empty_text_is_refused_in_one_line(compose: Compose) -> None:
    with pytest.raises(UserError, match=r"^text=: it is empty"):
        evaluate(compose("evaluate", "analysis=explain", quoted("text=")))


def test_a_text_without_a_word_is_refused_in_one_line(compose: Compose, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^text has no words that the model's tokenizer knows; "):
        evaluate(compose("evaluate", "analysis=[heatmap]", quoted("text=\u200b")))
    assert not (tmp_path / "run" / "metrics.json").exists()


PAIR = quoted("text_pair=It slept.")


@pytest.mark.parametrize("task", ["sst2", "cola", "agreement"])
def test_a_pair_is_refused_where_the_task_has_single_texts(task: str, compose: Compose, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"^text_pair: task={task} has single texts; leave text_pair out"):
        evaluate(compose("evaluate", f"task={task}", "analysis=none", TEXT, PAIR))
    assert not (tmp_path / "run").exists()


def test_a_pair_is_refused_where_the_run_learnt_single_texts(compose: Compose, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(compose("train", "task=sst2", "trainer.max_epochs=1", "analysis=none", "attention=standard"))
    for task in ("sst2", "text"):  # a task without labels takes the model of any task
        options = [f"task={task}", f"checkpoint={run}", "analysis=explorer", f"run_dir={tmp_path / task}"]
        with pytest.raises(UserError, match=r"^text_pair: the task of checkpoint=\S+ has single texts; "):
            evaluate(compose("evaluate", *options, TEXT, PAIR))


def test_whether_a_classifier_made_elsewhere_takes_pairs_nobody_knows(compose: Compose, tmp_path: Path) -> None:
    """Unless the user says so, by its task or its text column."""
    folder = tmp_path / "classifier"
    model = TinyEncoder().classifier(2)
    model.config.id2label = {0: "negative", 1: "positive"}
    model.save_pretrained(folder)
    TinyEncoder().tokenizer().save_pretrained(folder)
    options = ["analysis=none", f"checkpoint={folder}", TEXT, PAIR]
    for task in ("custom", "rte"):  # rte: not its labels
        assert evaluate(compose("evaluate", f"task={task}", *options))["text/predicted"] in ("negative", "positive")
    for known in (["task=sst2"], ["task=custom", "task.text_columns=[review]"]):
        with pytest.raises(UserError, match=r"^text_pair: task\S+ has single texts; "):
            evaluate(compose("evaluate", *known, *options))
