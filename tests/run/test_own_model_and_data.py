"""A user's own classifier and own data, from the command's options to its results."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from effective_attention.errors import UserError
from effective_attention.models.encoders import TinyEncoder
from effective_attention.run.experiment import evaluate, train

Compose = Callable[..., Any]
LABELS = ("good", "bad", "so-so")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = [(f"The film was {LABELS[n % 3]}, number {n}.", LABELS[n % 3]) for n in range(60)]
    with (folder / "train.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return folder


def own(data: Path) -> list[str]:
    return ["task=custom", "data=local", f"data.dir={data}", "task.text_columns=[text]", "attention=standard"]


def save_classifier(folder: Path, labels: tuple[str, ...], *, turned: bool = False) -> Path:
    """Write a random classifier, always the same one; ``turned``: with its outputs the other way round."""
    torch.manual_seed(0)
    model = TinyEncoder().classifier(len(labels))
    with torch.no_grad():
        model.classifier.bias.copy_(torch.linspace(-0.01, 0.01, len(labels)))
        for tensor in (model.classifier.weight, model.classifier.bias):
            tensor.copy_(tensor.flip(0) if turned else tensor)
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {name: number for number, name in enumerate(labels)}
    model.save_pretrained(folder)
    TinyEncoder().tokenizer().save_pretrained(folder)
    return folder


def test_train_on_own_data_then_evaluate_the_run(data: Path, compose: Compose, tmp_path: Path) -> None:
    trained = train(compose("train", *own(data), "seed=1"))
    assert {"test/standard/accuracy", "test/standard/macro_f1"} <= trained.keys()
    assert (trained["run/head"], trained["run/main_metric"]) == ("trained here", "accuracy")
    assert trained["run/note"].startswith("random model: for dry runs")
    again = evaluate(
        compose("evaluate", *own(data), f"checkpoint={tmp_path / 'run'}", f"run_dir={tmp_path / 'second'}")
    )
    assert again["test/standard/accuracy"] == trained["test/standard/accuracy"]
    first, second = (pd.read_parquet(tmp_path / name / "tables" / "predictions.parquet") for name in ("run", "second"))
    pd.testing.assert_frame_equal(first, second)
    assert set(first["gold"]) <= set(LABELS)


def test_a_runs_labels_stay_in_their_order(data: Path, compose: Compose, tmp_path: Path) -> None:
    train(compose("train", *own(data), "task.labels=[so-so,good,bad]"))
    options = [f"checkpoint={tmp_path / 'run'}", f"run_dir={tmp_path / 'second'}"]
    evaluate(compose("evaluate", *own(data), *options))
    first, second = (pd.read_parquet(tmp_path / name / "tables" / "predictions.parquet") for name in ("run", "second"))
    pd.testing.assert_frame_equal(first, second)
    (data / "train.csv").write_text("text,label\n" + "a,good\nb,excellent\n" * 5)
    with pytest.raises(UserError, match=r"its labels are excellent, good, those of checkpoint=.*so-so, good, bad"):
        evaluate(compose("evaluate", *own(data), *options))


def test_a_classifier_in_a_folder(
    data: Path, compose: Compose, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save_classifier(tmp_path / "classifier", ("So So", "GOOD", "bad"))
    options = [*own(data), f"checkpoint={folder}", "analysis=[finetuning_shift]"]
    metrics = evaluate(compose("evaluate", *options))
    assert (metrics["run/head"], metrics["run/checkpoint"]) == ("finetuned", str(folder))
    assert "run/note" not in metrics
    assert "head is random" not in caplog.text
    assert "left out, because the model was finetuned elsewhere" in caplog.text
    table = pd.read_parquet(tmp_path / "run" / "tables" / "predictions.parquet")
    assert set(table["gold"]) == {"So So", "GOOD", "bad"}
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["run/head"] == "finetuned"


@pytest.mark.parametrize("option", ["checkpoint", "model.name"])
def test_its_outputs_come_in_the_tasks_order(
    option: str, compose: Compose, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The sample's labels are not_equivalent and equivalent: a classifier that counts the other way scores the same."""
    caplog.set_level("INFO")
    tables = []
    for name, labels in (("a", ("not_equivalent", "equivalent")), ("b", ("Equivalent", "Not-Equivalent"))):
        folder = save_classifier(tmp_path / name, labels, turned=name == "b")
        chosen = [] if option == "checkpoint" else ["model=minilm"]
        evaluate(compose("evaluate", *chosen, f"{option}={folder}", "attention=standard"))
        found = pd.read_parquet(tmp_path / "run" / "tables" / "predictions.parquet")
        tables.append(found.drop(columns=["model", "checkpoint"]))
    pd.testing.assert_frame_equal(*tables)
    assert "are put into the task's order: not_equivalent, equivalent" in caplog.text
    assert "head is random" not in caplog.text


def test_a_folder_without_a_head_is_no_checkpoint(tiny_folder: Path, compose: Compose) -> None:
    with pytest.raises(UserError, match=r"checkpoint=.*: its files have no classification head; .*model\.name="):
        evaluate(compose("evaluate", f"checkpoint={tiny_folder}"))
    metrics = evaluate(compose("evaluate", "model=minilm", f"model.name={tiny_folder}", "attention=standard"))
    assert metrics["run/head"] == "random"


def test_a_name_that_is_neither_here_nor_on_the_hub(compose: Compose) -> None:
    with pytest.raises(UserError, match="checkpoint=some/thing: no such file or folder; taken for a name on") as no:
        evaluate(compose("evaluate", "checkpoint=some/thing"))
    assert str(no.value).endswith("; check the name and the network, or name another with checkpoint=<run or folder>")
    with pytest.raises(UserError, match=r"or add model=minilm \(embedded\) or model\.name=<folder>$"):
        evaluate(compose("evaluate", "model=minilm", "model.name=some/thing"))


def test_a_run_whose_model_is_gone_is_not_to_be_given_another(
    data: Path, tiny_folder: Path, compose: Compose, tmp_path: Path
) -> None:
    place = tmp_path / "model"
    shutil.copytree(tiny_folder, place)
    train(compose("train", *own(data), "model=minilm", f"model.name={place}", "analysis=none"))
    shutil.rmtree(place)
    with pytest.raises(UserError, match=rf"model '{place}' is neither .*name another with checkpoint=<run or folder>$"):
        evaluate(compose("evaluate", *own(data), f"checkpoint={tmp_path / 'run'}", f"run_dir={tmp_path / 'second'}"))


def test_training_goes_on_from_a_classifier_or_begins_a_new_head(
    data: Path, compose: Compose, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    folder = save_classifier(tmp_path / "classifier", ("no", "yes"))
    options = ["model=minilm", f"model.name={folder}", "analysis=[finetuning_shift]"]
    train(compose("train", *own(data), *options))
    assert "its labels are no, yes, those of the task bad, good, so-so; its head is replaced" in caplog.text
    assert (tmp_path / "run" / "tables" / "finetuning_shift.parquet").is_file(), "its start is known"


def test_a_text_is_read_by_a_classifier_for_its_own_question(compose: Compose, tmp_path: Path) -> None:
    """Neither a task nor data need be named: the model's own labels are what may be answered."""
    folder = save_classifier(tmp_path / "classifier", LABELS)
    asked = ["task=custom", f"checkpoint={folder}", "analysis=[explain]", "text=The film was good."]
    found = evaluate(compose("evaluate", *asked))
    assert found["text/predicted"] in LABELS
    assert found["run/head"] == "finetuned"
    assert not [name for name in found if name.startswith("test/")]
    named = evaluate(compose("evaluate", "task=mrpc", *asked[1:], f"run_dir={tmp_path / 'second'}"))
    assert named["text/predicted"] == found["text/predicted"]


def test_a_text_of_a_custom_task_needs_a_model_with_labels(compose: Compose) -> None:
    with pytest.raises(UserError, match=r"^task=custom: model tiny does not say which labels it has; add checkpoint="):
        evaluate(compose("evaluate", "task=custom", "analysis=[explain]", "text=The film was good."))


def test_the_report_shows_what_the_model_answers(data: Path, compose: Compose, tmp_path: Path) -> None:
    train(compose("train", *own(data), "analysis=[distance]"))
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert 'id="predictions"' in page
    assert page.index('id="scores"') < page.index('id="predictions"') < page.index('id="distance"')
