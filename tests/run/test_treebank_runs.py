"""``evaluate`` on a treebank, with the pretrained encoder or a checkpoint of another task; ``train`` refuses it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from effective_attention.errors import UserError
from effective_attention.run.analysing import PlannedAnalyses
from effective_attention.run.experiment import evaluate, train
from effective_attention.run.setup import prepare

Compose = Callable[..., Any]
TREES = [
    "The/DET/2/det cat/NOUN/3/nsubj sat/VERB/0/root on/ADP/6/case the/DET/6/det mat/NOUN/3/obl ./PUNCT/3/punct",
    "I/PRON/2/nsubj know/VERB/0/root it/PRON/2/obj ./PUNCT/2/punct",
    "Two/NUM/2/nummod dogs/NOUN/3/nsubj barked/VERB/0/root loudly/ADV/3/advmod and/CCONJ/6/cc ran/VERB/3/conj",
    "No/INTJ/0/root",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data") / "treebank" / "toy-ud-test.conllu"
    place.parent.mkdir()
    blocks = []
    for tree in TREES:
        cells = [word.split("/") for word in tree.split()]
        rows = [
            f"{n}\t{form}\t_\t{upos}\t_\t_\t{head}\t{relation}\t_\t_"
            for n, (form, upos, head, relation) in enumerate(cells, 1)
        ]
        blocks.append("\n".join(rows) + "\n")
    place.write_text("\n".join(blocks))
    return place.parent.parent


@pytest.fixture
def options(folder: Path) -> list[str]:
    return ["task=treebank", "data=local", f"data.dir={folder}", "split=test"]


def test_the_pretrained_encoder(compose: Compose, options: list[str], tmp_path: Path, capsys: Any, caplog: Any) -> None:
    metrics = evaluate(compose("evaluate", *options, "analysis=[token_types,null_space,delimiters]"))
    assert (metrics["run/task"], metrics["run/words"], metrics["run/checkpoint"]) == ("treebank", "gold", None)
    assert metrics["data/test/examples"] == 4
    assert metrics["test/effective/max_logit_difference"] < 1e-5
    tested = {name.split("/")[2] for name in metrics if name.startswith("test/")}
    rest = {"timed_batches", "max_logit_difference", "null_space_share"}
    assert tested == rest, "no scores, no predictions to change, and too few batches to time"
    out = capsys.readouterr().out
    assert "words:   gold annotation, no tagger" in out
    assert metrics["run/note"].startswith("random model: for dry runs")
    assert "scores mean nothing" not in caplog.text
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == metrics
    table = pd.read_parquet(tmp_path / "run" / "tables" / "token_types.parquet")
    assert (set(table["task"]), set(table["checkpoint"]), set(table["examples"])) == ({"treebank"}, {""}, {4})
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_checkpoint_of_another_task(compose: Compose, options: list[str], trained: Any, tmp_path: Path) -> None:
    metrics = evaluate(
        compose("evaluate", *options, f"checkpoint={trained.folder}", "analysis=[finetuning_shift,delimiters]")
    )
    assert metrics["run/checkpoint"] == str(trained.folder)
    assert "run/words" not in metrics, "no analysis asked for words"
    table = pd.read_parquet(tmp_path / "run" / "tables" / "finetuning_shift.parquet")
    assert set(table["checkpoint"]) == {str(trained.folder)}


def test_the_model_keeps_its_own_head(compose: Compose, options: list[str], tmp_path: Path) -> None:
    train(compose("train", "task=stsb", "attention=standard"))
    again = [*options, f"checkpoint={tmp_path / 'run'}", f"run_dir={tmp_path / 'second'}"]
    metrics = evaluate(compose("evaluate", *again))
    assert metrics["test/effective/max_logit_difference"] < 1e-5
    run = prepare(compose("evaluate", *again), str(tmp_path / "run"))
    for model in (run.classifier.model, run.pretrained_start()):
        assert model.config.num_labels == model.classifier.out_features == 1


def test_a_checkpoint_of_another_task_is_still_refused_where_there_are_labels(compose: Compose, trained: Any) -> None:
    with pytest.raises(UserError, match="was trained on mrpc, not on rte; add task=mrpc"):
        evaluate(compose("evaluate", "task=rte", f"checkpoint={trained.folder}"))


def test_batches_have_no_labels(compose: Compose, options: list[str]) -> None:
    data = prepare(compose("evaluate", *options), None).datamodule
    split = data.split("test")
    assert set(data.collate(split, [0, 3])) == {"input_ids", "attention_mask", "token_type_ids", "index"}
    assert split.examples.words is not None


def test_gold_words_reach_the_analyses_whatever_the_tagger(compose: Compose, options: list[str]) -> None:
    no_such = ["analysis=token_types", "tagger=spacy", "tagger.name=no_such_pipeline"]
    cfg = compose("evaluate", *options, *no_such, "data.limit_eval=${limit}", "limit=2")
    run = prepare(cfg, None)
    planned = PlannedAnalyses.plan(cfg, run)
    annotated = planned.annotated
    assert planned.tagger is None
    assert [annotated.relations[number] for number in annotated.relation[annotated.span(0)][1:-1]] == [
        "det", "nsubj", "root", "case", "det", "obl", "punct",
    ]  # fmt: skip
    assert annotated.head[annotated.span(0)][1:-1].tolist() == [1, 2, 2, 5, 5, 2, 2]
    assert len(annotated) == 2


def test_the_taggers_name_is_a_fact_where_it_is_asked(compose: Compose) -> None:
    cfg = compose("evaluate", "analysis=token_types", "data.limit_eval=2")
    run = prepare(cfg, None)
    assert "run/words" not in run.facts
    PlannedAnalyses.plan(cfg, run)
    assert run.facts["run/words"] == "embedded"


def test_what_needs_labels_is_left_out(compose: Compose, options: list[str], caplog: Any) -> None:
    for overrides, kept in ((options, ["delimiters"]), ([], ["head_ablation", "delimiters"])):
        cfg = compose("evaluate", *overrides, "analysis=[head_ablation,delimiters]")
        assert list(PlannedAnalyses.plan(cfg, prepare(cfg, None)).chosen) == kept
    assert [record.message for record in caplog.records] == ["left out, because the task has no labels: head_ablation"]


@pytest.mark.parametrize("data", ["sample", "hub", "local"])
def test_there_is_nothing_to_learn(data: str, compose: Compose, options: list[str], tmp_path: Path) -> None:
    place = options[1:] if data == "local" else [f"data={data}"]
    with pytest.raises(
        UserError,
        match=r"^task=treebank has no labels, so there is nothing to learn; .* task=mrpc, then .* checkpoint=<run>$",
    ):
        train(compose("train", "task=treebank", *place))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("data", ["sample", "hub"])
def test_it_is_neither_embedded_nor_on_the_hub(data: str, compose: Compose, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=f"^data={data}: task treebank is not available there; add data=local data.dir=<folder>$"
    ):
        evaluate(compose("evaluate", "task=treebank", f"data={data}"))
    assert not (tmp_path / "run").exists()
