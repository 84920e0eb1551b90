"""The explorer as an analysis: which texts and models are on its page, and what is said of mistakes."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from effective_attention.analyses.common.base import OtherModels, UserText
from effective_attention.analyses.common.run import run_analyses
from effective_attention.attention.trace import trace
from effective_attention.errors import UserError
from effective_attention.explorer.analysis import ExplorerPage
from effective_attention.reports.paths import without_folders
from effective_attention.run.cli import explain
from effective_attention.run.experiment import evaluate
from effective_attention.run.options.texts import quoted
from helpers.explorer_page import header_of, numbers_of


@pytest.fixture(scope="module")
def whole(subject, context):
    """Make a context that can show examples of a finetuned model."""
    return dataclasses.replace(
        context,
        models=OtherModels(pretrained=lambda: subject.reference),
        facts={"run/model": "tiny", "run/checkpoint": "runs/x"},
    )


def shown(subject, context, **options):
    analysis = ExplorerPage(**options).setup(context)
    table = run_analyses(subject, {"explorer": analysis})["explorer"]
    return table, dict(analysis.pages())["explorer.html"]


def assert_shows(page, side, seen):
    """Assert that every number of a side is that of a trace of one text."""
    for number, layer in enumerate(seen.layers):
        for part in ("standard", "effective"):
            found = numbers_of(page, side, part, number) / 1e5
            np.testing.assert_allclose(found, layer.part(part)[0].numpy(), atol=6e-6)


def test_an_example_of_the_split(subject, whole, singles):
    table, page = shown(subject, whole, example=5)
    assert_shows(page, 0, singles[5])
    (side,) = header_of(page)["sides"]
    assert side["texts"] == list(subject.split.examples.texts[5])
    assert (side["name"], side["model"], side["checkpoint"]) == ("", "tiny", "runs/x")
    chances = torch.softmax(singles[5].logits[0], 0).tolist()
    assert table["label"].tolist() == ["not_equivalent", "equivalent"]
    assert table["value"].tolist() == pytest.approx(chances, abs=1e-6)
    assert [chance for _, chance in side["prediction"]["probabilities"]] == table["value"].tolist()
    gold = ("not_equivalent", "equivalent")[subject.split.examples.labels[5]]
    best = table.loc[table["value"].idxmax(), "label"]
    assert (side["gold"], side["right"]) == (gold, bool(best == gold))
    assert (table["gold"].tolist(), table["example"].tolist()) == ([gold] * 2, [5, 5])
    assert table[["side", "layers", "heads", "tokens"]].drop_duplicates().values.tolist() == [
        [0, 2, 4, int(singles[5].lengths)]
    ]


def test_padding_is_left_out(subject, whole, singles):
    before = subject.data.padding
    subject.data.padding = "max_length"
    try:
        _, page = shown(subject, whole, example=2)
    finally:
        subject.data.padding = before
    assert_shows(page, 0, singles[2])


def test_a_text_of_the_users(subject, whole):
    texts = ("A cat sat.", "It purred.")
    own = trace(subject.model, whole.tokenizer(*texts, return_tensors="pt"))
    _, page = shown(subject, dataclasses.replace(whole, text=UserText(texts, own)), example=99)
    (side,) = header_of(page)["sides"]
    assert (side["gold"], side["right"]) == (None, None)
    assert (side["texts"], side["segments"]) == (list(texts), own.inputs["token_type_ids"][0].tolist())
    np.testing.assert_allclose(numbers_of(page, 0, "standard", 1) / 1e5, own.layers[1].attention[0].numpy(), atol=6e-6)


def test_beside_the_pretrained_start(subject, whole):
    table, page = shown(subject, whole, example=3, beside="pretrained")
    header = header_of(page)
    assert header["same_tokens"] is True
    assert [(side["name"], side["checkpoint"]) for side in header["sides"]] == [
        ("finetuned", "runs/x"),
        ("pretrained", None),
    ]
    assert_shows(page, 1, subject.trace([3], subject.reference))
    assert header["sides"][1]["prediction"] is None, "its head is random"
    assert table[table["side"] == 1]["value"].isna().all()


def test_beside_another_text(subject, whole):
    table, page = shown(subject, whole, beside_text="A bird sang.", beside_text_pair="So?", neurons=False)
    assert [side["name"] for side in header_of(page)["sides"]] == ["first text", "second text"]
    seen = trace(subject.model, whole.tokenizer("A bird sang.", "So?", return_tensors="pt"))
    np.testing.assert_allclose(numbers_of(page, 1, "standard", 0) / 1e5, seen.layers[0].attention[0].numpy(), atol=6e-6)
    assert table[table["side"] == 1]["value"].tolist() == pytest.approx(
        torch.softmax(seen.logits[0], 0).tolist(), abs=1e-6
    )


def test_a_pretrained_model_predicts_nothing(subject, whole):
    table, page = shown(subject, dataclasses.replace(whole, models=OtherModels()))
    (side,) = header_of(page)["sides"]
    assert (side["prediction"], side["right"]) == (None, None)
    assert side["gold"] in ("not_equivalent", "equivalent")
    assert table[["label", "value"]].fillna("none").values.tolist() == [["", "none"]]


def test_a_model_finetuned_elsewhere_predicts(subject, whole):
    elsewhere = dataclasses.replace(whole, models=OtherModels(), facts={"run/head": "finetuned"})
    _, page = shown(subject, elsewhere)
    (side,) = header_of(page)["sides"]
    assert side["prediction"] is not None
    with pytest.raises(UserError, match="beside=pretrained: its start is not known"):
        shown(subject, elsewhere, beside="pretrained")


def test_a_score(make_subject):

    subject = make_subject(task="stsb")
    context = subject.context(task=subject.data.task, models=OtherModels(pretrained=lambda: subject.reference))
    table, page = shown(subject, context)
    score = float(subject.trace([0]).logits[0, 0])
    assert (table["label"].tolist(), table["value"].tolist()) == (["score"], pytest.approx([score]))
    (side,) = header_of(page)["sides"]
    assert side["prediction"] == {"kind": "score", "score": pytest.approx(score)}
    assert (side["gold"], side["right"]) == (pytest.approx(subject.split.examples.labels[0]), None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"example": 9}, r"analysis\.explorer\.example must be from 0 to 8, got 9"),
        ({"beside": "no/such/run"}, r"analysis\.explorer\.beside=no/such/run: no such file or folder"),
        ({"beside": 7}, r"analysis\.explorer\.beside must be pretrained, a run directory or a \.ckpt file, got 7"),
        ({"beside": "pretrained", "beside_text": "x"}, "exclude each other"),
        ({"beside_text": " "}, r"analysis\.explorer\.beside_text must be a text, got ' '"),
        ({"beside_text": 7}, r"analysis\.explorer\.beside_text must be a text, got 7"),
        ({"beside_text_pair": "x"}, r"beside_text_pair is given without analysis\.explorer\.beside_text"),
        ({"examples": 0}, r"analysis\.explorer\.examples must be at least 1, or null for one page, got 0"),
        ({"neurons": "yes"}, r"analysis\.explorer\.neurons must be true or false, got 'yes'"),
    ],
)
def test_bad_options(whole, options, message):
    with pytest.raises(UserError, match=message):
        ExplorerPage(**options).setup(whole)


def test_bad_texts_and_models(subject, whole, context):
    with pytest.raises(UserError, match="text is empty; add text=<some words>"):
        ExplorerPage().setup(dataclasses.replace(whole, text=UserText((" ",), subject.trace([0]))))
    with pytest.raises(UserError, match="beside=pretrained: this is the pretrained model; add checkpoint=<run>"):
        ExplorerPage(beside="pretrained").setup(context)
    with pytest.raises(UserError, match="beside=runs/x: there is no task"):
        ExplorerPage(beside="runs/x").setup(dataclasses.replace(whole, task=None))
    unknown = dataclasses.replace(context, split=dataclasses.replace(context.split, texts=None))
    with pytest.raises(ValueError, match="needs to know the split's texts"):
        shown(subject, unknown)


# --- through the command ---


def test_the_command_writes_the_page(trained, compose, tmp_path: Path, capsys):
    text = [quoted("text=Well, a <b>cat</b> sat."), quoted("text_pair=Did it?")]
    options = ["analysis=explorer", "analysis.explorer.beside=pretrained", *text]
    evaluate(compose("evaluate", f"checkpoint={trained.folder}", *options))
    path = tmp_path / "run" / "explorer.html"
    page = path.read_text(encoding="utf-8")
    assert f"explorer: {path} ({len(page.encode()) / 1000:.0f} kB)" in capsys.readouterr().out
    first, second = header_of(page)["sides"]
    place = without_folders(str(trained.folder))
    assert first["texts"] == second["texts"] == ["Well, a <b>cat</b> sat.", "Did it?"]
    assert (first["model"], first["checkpoint"], first["name"]) == ("tiny", place, "finetuned")
    assert (second["model"], second["checkpoint"], second["name"]) == ("tiny", None, "pretrained")
    table = pd.read_parquet(tmp_path / "run" / "tables" / "explorer.parquet")
    assert table["checkpoint"].tolist() == [str(trained.folder)] * 2 + [""]
    assert (tmp_path / "run" / "report.html").is_file()
    assert str(tmp_path) not in page  # people send it away
    assert str(trained.folder) not in page


def test_beside_another_run(trained, compose, tmp_path: Path):
    evaluate(compose("evaluate", "analysis=explorer", f"analysis.explorer.beside={trained.folder}", "seed=5"))
    page = (tmp_path / "run" / "explorer.html").read_text(encoding="utf-8")
    header = header_of(page)
    assert [side["name"] for side in header["sides"]] == ["pretrained", without_folders(str(trained.folder))]
    assert [side["prediction"] is None for side in header["sides"]] == [True, False]
    assert header["same_tokens"] is True
    assert not np.array_equal(numbers_of(page, 0, "standard", 0), numbers_of(page, 1, "standard", 0))


def test_a_mistake_is_one_line_and_leaves_nothing(compose, tmp_path: Path):
    with pytest.raises(UserError) as caught:
        evaluate(compose("evaluate", "analysis=explorer", "analysis.explorer.beside=nonsense"))
    assert "analysis.explorer.beside=nonsense" in explain(caught.value)
    assert not (tmp_path / "run").exists()


def test_wandb_gets_pages_of_bearable_size(caplog):
    from types import SimpleNamespace

    from effective_attention.run.analysing import AnalysisResults
    from effective_attention.run.loggers import ForgivingWandbLogger

    logged = []
    fake = SimpleNamespace(experiment=SimpleNamespace(log=logged.append))
    ForgivingWandbLogger._log_results(
        fake, AnalysisResults({}, {"explorer": "<p>small</p>", "other": "x" * 20_000_001})
    )
    ((name, page),) = logged[0].items()
    assert (name, page.html) == ("pages/explorer", "<p>small</p>")
    assert caplog.messages == ["W&B: left out, because larger than 20 MB: other.html"]
