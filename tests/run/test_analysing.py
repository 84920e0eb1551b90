"""Analyses through the two commands: from options to tables, figures and the report."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf

from effective_attention.errors import UserError
from effective_attention.models.encoders import TinyEncoder
from effective_attention.run import experiment
from effective_attention.run.cli import explain
from effective_attention.run.experiment import evaluate, train
from effective_attention.run.options.texts import quoted

Compose = Callable[..., Any]
COMMON = ["task", "model", "data", "split", "checkpoint", "examples"]


@pytest.fixture(scope="module")
def evaluated(trained: Any, composer: Compose, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run ``evaluate`` once on the trained run, with every analysis of the paper."""
    few = ["analysis.head_ablation.limit=4", "analysis.patterns.maps=60", "analysis.null_space.padded_examples=4"]
    few += ["data.batch_size=3"]  # 6 batches: enough to time
    cfg = composer(
        "evaluate", tmp_path_factory.mktemp("evaluated"), f"checkpoint={trained.folder}", "analysis=paper", *few
    )
    evaluate(cfg)
    return Path(cfg.run_dir)


PAPER = [
    "delimiters",
    "finetuning_shift",
    "head_ablation",
    "heatmap",
    "null_space",
    "patterns",
    "timing",
    "token_types",
]


@pytest.mark.parametrize("name", PAPER)
def test_tables_are_tidy_and_say_what_they_were_measured_on(evaluated: Path, trained: Any, name: str) -> None:
    table = pd.read_parquet(evaluated / "tables" / f"{name}.parquet")
    assert list(table.columns[:6]) == COMMON
    assert {"attention", "reading"} <= set(table.columns)
    first = table.iloc[0]
    assert (first["task"], first["model"], first["data"], first["split"]) == ("mrpc", "tiny", "sample", "validation")
    looked_at = {"head_ablation": 4, "heatmap": 1}.get(name, 16)  # a sample, one text, or the whole split
    assert (first["checkpoint"], first["examples"]) == (str(trained.folder), looked_at)
    text = pd.read_csv(evaluated / "tables" / f"{name}.csv", keep_default_na=False, na_values=[""])
    assert list(text.columns) == list(table.columns)
    assert len(text) == len(table) > 0


@pytest.mark.parametrize("name", PAPER)
def test_figures(evaluated: Path, name: str) -> None:
    assert (evaluated / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (evaluated / "figures" / f"{name}.svg").read_bytes()[:1000]


def test_report_has_a_section_for_each(evaluated: Path) -> None:
    page = (evaluated / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") or page.startswith("<!doctype html>")
    for name in PAPER:
        assert f'id="{name}"' in page, name


def test_scalars_are_in_the_metrics(evaluated: Path) -> None:
    metrics = json.loads((evaluated / "metrics.json").read_text())
    table = pd.read_parquet(evaluated / "tables" / "finetuning_shift.parquet")
    layer = table[(table["attention"] == "effective") & (table["layer"] == 1)]["value"].mean()
    assert metrics["cosine/effective/layer_01"] == pytest.approx(layer)
    types = pd.read_parquet(evaluated / "tables" / "token_types.parquet")
    chosen = types[
        (types["attention"] == "standard") & (types["token_type"] == "sep") & (types["statistic"] == "largest")
    ]
    assert metrics["token_attention/standard/sep"] == pytest.approx(chosen["value"].mean())


def test_timing_is_what_was_measured(evaluated: Path) -> None:
    metrics = json.loads((evaluated / "metrics.json").read_text())
    table = pd.read_parquet(evaluated / "tables" / "timing.parquet").set_index("attention")
    assert table.loc["effective", "seconds"] == metrics["test/effective/seconds"]
    for end in ("", "_low", "_high"):
        assert table.loc["effective", f"ratio{end}"] == metrics[f"test/effective/seconds_ratio{end}"]
    assert table.loc["standard", ["ratio", "ratio_low", "ratio_high"]].tolist() == [1, 1, 1]
    assert table["batches"].tolist() == [6, 6]


def test_the_pretrained_start_is_the_one_the_model_had(trained: Any, compose: Compose) -> None:
    """Check that the seed brings back the start of a tiny encoder, which is random."""
    from effective_attention.run.setup import prepare

    run = prepare(compose("evaluate", f"checkpoint={trained.folder}"), str(trained.folder))
    torch.manual_seed(run.classifier.origin["seed"])
    expected = TinyEncoder().classifier(2).state_dict()
    state = torch.get_rng_state()
    start = run.pretrained_start().state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(start[name], expected[name]) for name in expected)
    fresh = prepare(compose("train"), None)
    assert all(torch.equal(start[name], tensor) for name, tensor in fresh.classifier.model.state_dict().items())


def test_without_a_checkpoint_nothing_is_compared_with_itself(compose: Compose, tmp_path: Path, caplog: Any) -> None:
    evaluate(compose("evaluate", "analysis=[finetuning_shift,delimiters]"))
    found = sorted(path.stem for path in (tmp_path / "run" / "tables").glob("*.parquet"))
    assert found == ["delimiters", "predictions"]
    said = [record.message for record in caplog.records if "left out" in record.message]
    assert said == ["left out, because there is no finetuned model: finetuning_shift; add checkpoint=<run>"]


def test_no_analysis_leaves_predictions_only(trained: Any) -> None:
    assert not any((trained.folder / name).exists() for name in ("figures", "report.html"))
    assert {path.stem for path in (trained.folder / "tables").iterdir()} == {"predictions"}


def test_a_text_of_the_users(trained: Any, compose: Compose, tmp_path: Path) -> None:
    texts = [quoted("text=Well, a <b>cat</b> sat."), quoted("text_pair=It purred, didn't it?")]
    evaluate(compose("evaluate", f"checkpoint={trained.folder}", "analysis=heatmap", *texts))
    table = pd.read_parquet(tmp_path / "run" / "tables" / "heatmap.parquet")
    first = table[(table["attention"] == "standard") & (table["query"] == 0)]
    tokens = TinyEncoder().tokenizer()("Well, a <b>cat</b> sat.", "It purred, didn't it?").tokens()
    assert first.sort_values("key")["key_token"].tolist() == tokens
    assert "<b>cat" not in (tmp_path / "run" / "report.html").read_text()


def test_a_text_that_is_cut_says_so(compose: Compose, tmp_path: Path, caplog: Any) -> None:
    text = quoted(f"text={'cat ' * 30}")
    options = ["analysis=heatmap", "limit=1", "attention=standard", "data.max_length=10"]
    evaluate(compose("evaluate", text, *options))
    said = [record.message for record in caplog.records if "cut" in record.message]
    assert said == ["text has 32 tokens, 22 of them are cut; add data.max_length=32 to keep them"]
    table = pd.read_parquet(tmp_path / "run" / "tables" / "heatmap.parquet")
    assert table["key"].max() == 9


def test_a_text_that_the_model_cannot_take_is_refused(compose: Compose, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^text has 602 tokens, and the model takes 512; shorten it$"):
        evaluate(compose("evaluate", quoted(f"text={'cat ' * 600}"), "analysis=heatmap", "limit=1"))
    assert not (tmp_path / "run").exists()


def test_a_text_and_a_secret_in_what_is_written_down(
    compose: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    told: dict[str, Any] = {}
    monkeypatch.setattr(experiment, "build_loggers", lambda *_, config, **__: told.update(config) or [])
    options = ["analysis=none", "limit=1", "attention=standard", "logger=wandb", "logger.wandb.entity=${oc.env:SECRET}"]
    evaluate(compose("evaluate", quoted("text=${oc.env:SECRET}, it said"), *options))
    written = (tmp_path / "run" / "config.yaml").read_text(encoding="utf-8")
    assert "hunter2" not in written
    assert OmegaConf.create(written).text == "${oc.env:SECRET}, it said"
    assert (told["logger"]["wandb"]["entity"], told["text"]) == ("${oc.env:SECRET}", "${oc.env:SECRET}, it said")


@pytest.mark.parametrize("name", ["attention_graph", "alternative_attention", "token_mixing"])
def test_an_analysis_of_the_users_text_alone(trained: Any, compose: Compose, tmp_path: Path, name: str) -> None:
    """Check that the split is not read, and what cannot be drawn without it is left out."""
    evaluate(compose("evaluate", f"checkpoint={trained.folder}", f"analysis={name}", quoted("text=Well, a cat sat.")))
    folder = tmp_path / "run"
    assert len(pd.read_parquet(folder / "tables" / f"{name}.parquet")) > 0
    assert list((folder / "figures").glob(f"{name}*.png"))
    assert f'id="{name}"' in (folder / "report.html").read_text()


def test_the_published_reading_is_named_in_the_tables(trained: Any, compose: Compose, tmp_path: Path) -> None:
    evaluate(
        compose(
            "evaluate",
            f"checkpoint={trained.folder}",
            "analysis=[delimiters,timing]",
            "reading=padded",
            "attention=all",
        )
    )
    assert set(pd.read_parquet(tmp_path / "run" / "tables" / "delimiters.parquet")["reading"]) == {"padded"}
    timing = pd.read_parquet(tmp_path / "run" / "tables" / "timing.parquet").set_index("attention")
    assert timing["reading"].to_dict() == {
        "standard": "exact",
        "effective": "exact",
        "affine": "affine",
        "padded": "padded",
    }


def test_another_space_is_named_in_tables_and_report(trained: Any, compose: Compose, tmp_path: Path) -> None:
    evaluate(compose("evaluate", f"checkpoint={trained.folder}", "analysis=delimiters", "space=affine", "epsilon=0.01"))
    assert set(pd.read_parquet(tmp_path / "run" / "tables" / "delimiters.parquet")["reading"]) == {"affine within 0.01"}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "effective attention read in affine space, where its rows sum to 1, as the smallest one that" in page


def test_limit_and_split(trained: Any, compose: Compose, tmp_path: Path) -> None:
    cfg = compose(
        "evaluate", f"checkpoint={trained.folder}", "analysis=delimiters", "data.limit_eval=${limit}", "limit=5"
    )
    metrics = evaluate(cfg)
    table = pd.read_parquet(tmp_path / "run" / "tables" / "delimiters.parquet")
    assert set(table["examples"]) == {5} == {metrics["data/validation/examples"]}
    limits = ["data.limit_train=${limit}", "limit=7"]
    train_split = compose("evaluate", f"checkpoint={trained.folder}", "analysis=delimiters", "split=train", *limits)
    evaluate(train_split)
    table = pd.read_parquet(tmp_path / "run" / "tables" / "delimiters.parquet")
    assert (set(table["split"]), set(table["examples"])) == ({"train"}, {7})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["analysis=token_types", "analysis.token_types.layer=9"],
            "analysis.token_types.layer must be last, all or a layer",
        ),
        (["analysis=heatmap", "analysis.heatmap.head=9"], "analysis.heatmap.head must be from 0 to 3"),
        (["analysis=heatmap", "+analysis.heatmap.colour=red"], "colour"),
        (["analysis=heatmap", "text_pair=alone"], "text_pair is given without text"),
        (["analysis=heatmap", "reading=loud"], "reading must be one of exact, padded, got 'loud'"),
        (["analysis=token_types", "tagger=spacy", "tagger.name=no_such_pipeline"], "tagger.name"),
    ],
)
def test_bad_options_are_one_line_and_leave_nothing(
    compose: Compose, tmp_path: Path, options: list[str], message: str
) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        evaluate(compose("evaluate", *options))
    line = explain(caught.value)
    assert line is not None, repr(caught.value)
    assert message in line
    assert "\n" not in line
    assert not (tmp_path / "run").exists()


# --- while the model learns ---


def rows(path: Path) -> list[dict[str, str]]:
    with (path / "csv" / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_drift_is_logged_from_the_pretrained_start_on(compose: Compose, tmp_path: Path) -> None:
    options = [
        "analysis=[token_types,finetuning_shift]",
        "drift.examples=5",
        "trainer.max_epochs=2",
        "optimizer.lr=1e-2",
    ]
    train(compose("train", *options))
    found = [row for row in rows(tmp_path / "run") if row.get("cosine/effective/layer_01")]
    assert [row["step"] for row in found] == ["0", "4", "8"], "the start, and two validations"
    assert all(row["token_attention/standard/sep"] for row in found)
    logged = [float(row["cosine/effective/layer_01"]) for row in found]
    assert logged[0] == pytest.approx(1, abs=1e-6)
    assert 1 - 1e-6 > logged[1] > logged[2], "it drifts away from where it started"


def test_a_validation_after_the_first_step_is_not_the_start(compose: Compose, tmp_path: Path) -> None:
    train(compose("train", "analysis=[token_types]", "drift.examples=2", "data.limit_train=8"))
    found = [row["step"] for row in rows(tmp_path / "run") if row.get("token_attention/standard/sep")]
    assert found == ["0", "1"]


def test_watching_does_not_change_what_is_learnt(compose: Compose, tmp_path: Path) -> None:
    weights = []
    for watched in ("3", "0"):
        cfg = compose(
            "train", "analysis=[token_types,finetuning_shift]", f"drift.examples={watched}", "trainer.max_epochs=2"
        )
        cfg.run_dir = str(tmp_path / f"run{watched}")
        train(cfg)
        state = torch.load(tmp_path / f"run{watched}" / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        weights.append(state)
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
