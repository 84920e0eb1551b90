"""``train`` and ``evaluate`` from a composed config to the files in the run directory."""

import csv
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from omegaconf import OmegaConf

from effective_attention.errors import UserError
from effective_attention.models.checkpoints import read_checkpoint
from effective_attention.models.classifier import SequenceClassifier
from effective_attention.run import experiment as pipeline
from effective_attention.run.experiment import evaluate, train
from effective_attention.run.testing import AttentionComparison
from helpers.paths import GLUE
from helpers.same_run import same_run, scores

Compose = Callable[..., Any]


def read(path: Path) -> dict[str, Any]:
    return json.loads((path / "metrics.json").read_text(encoding="utf-8"))


# --- what a run leaves ---


def test_metrics_file_holds_what_train_returned(trained: Any) -> None:
    assert read(trained.folder) == trained.metrics
    assert all(not isinstance(value, dict | list) for value in trained.metrics.values()), "flat"


@pytest.mark.parametrize(
    "name",
    [
        *(f"run/{name}" for name in ("task", "model", "data", "seed", "embedded", "note")),
        *(f"data/{split}/{name}" for split in ("train", "validation") for name in ("examples", "truncated")),
        *(f"val/{name}" for name in ("accuracy", "f1", "loss")),
        *(
            f"test/{kind}/{name}"
            for kind in ("standard", "effective", "padded")
            for name in ("accuracy", "f1", "timed_batches")
        ),
        *(f"test/{kind}/max_logit_difference" for kind in ("effective", "padded")),
        *("run/precision", "test/effective/null_space_share", "test/padded/output_change"),
    ],
)
def test_names_that_others_rely_on(name: str, trained: Any) -> None:
    assert name in trained.metrics


def test_names_of_times_where_there_are_batches_enough(
    compose: Compose, trained: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check six batches; those of the trained run are two, which tell no time."""
    options = [f"checkpoint={trained.folder}", "attention=all", "data.batch_size=3"]
    metrics = evaluate(compose("evaluate", *options))
    kinds = ("standard", "effective", "affine", "padded")
    names = {f"test/{kind}/{name}" for kind in kinds for name in ("seconds", "examples_per_second")}
    ratios = ("seconds_ratio", "seconds_ratio_low", "seconds_ratio_high")
    names |= {f"test/{kind}/{name}" for kind in kinds[1:] for name in ratios}
    assert {name for name in metrics if "second" in name} == names
    assert all(metrics[name] > 0 for name in names)
    assert not any("second" in name for name in trained.metrics)
    out = capsys.readouterr().out
    assert all(word in out for word in ("seconds", "examples/s", "ratio", "quartiles"))
    with (tmp_path / "run" / "csv" / "metrics.csv").open(newline="") as file:
        assert names <= {name for row in csv.DictReader(file) for name, value in row.items() if value}


def test_values_make_sense(trained: Any) -> None:
    metrics = trained.metrics
    assert (metrics["run/task"], metrics["run/model"], metrics["run/data"], metrics["run/seed"]) == (
        "mrpc",
        "tiny",
        "sample",
        0,
    )
    assert (metrics["data/train/examples"], metrics["data/validation/examples"]) == (32, 16)
    assert metrics["test/effective/accuracy"] == metrics["test/standard/accuracy"] == metrics["val/accuracy"]
    assert metrics["test/effective/max_logit_difference"] < 1e-5


def test_config_file_holds_the_composed_config(trained: Any) -> None:
    text = (trained.folder / "config.yaml").read_text()
    assert OmegaConf.create(text) == OmegaConf.create(OmegaConf.to_container(trained.cfg, resolve=True))


def test_checkpoints(trained: Any, make_task: Callable[[str], Any]) -> None:
    folder = trained.folder / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["best.ckpt", "last.ckpt"]
    last = read_checkpoint(folder / "last.ckpt", make_task("mrpc"))
    assert (last["epoch"], last["global_step"]) == (0, 4)
    assert "optimizer_states" not in read_checkpoint(folder / "best.ckpt", make_task("mrpc"))


def test_csv_holds_every_scalar(trained: Any) -> None:
    with (trained.folder / "csv" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name for row in rows for name, value in row.items() if value}
    assert {"step", "val/accuracy", "val/loss", "test/standard/accuracy", "test/effective/f1"} <= columns
    (accuracy,) = {row["val/accuracy"] for row in rows if row["val/accuracy"]}
    assert float(accuracy) == pytest.approx(trained.metrics["val/accuracy"])


def test_console_shows_the_table_the_place_and_the_note(trained: Any) -> None:
    for word in ("standard", "effective", "padded", "accuracy", "f1", str(trained.folder)):
        assert word in trained.console
    last = trained.console.rstrip().splitlines()[-1]
    assert last == trained.metrics["run/note"]
    assert last.startswith("random model, embedded data: a small demonstration")
    assert last.endswith("not the paper's setting")  # the tests switch the hub off


def _local_files(folder: Path) -> Path:
    for split, count in (("train", 16), ("validation", 8)):
        rows = ["sentence1,sentence2,label"] + [f"word {'x ' * (3 * n)},another word,{n % 2}" for n in range(count)]
        (folder / f"{split}.csv").write_text("\n".join(rows) + "\n")
    return folder


def test_no_note_where_nothing_is_embedded(
    compose: Compose, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = [f"model.name={tiny_folder}", "data=local", f"data.dir={_local_files(tmp_path)}"]
    metrics = train(compose("train", "model=minilm", *overrides))
    assert metrics["run/embedded"] is False
    assert "run/note" not in metrics
    assert metrics["run/model"] == str(tiny_folder)
    assert "embedded" not in capsys.readouterr().out
    config = (tmp_path / "run" / "config.yaml").read_text()
    assert "${" not in config, "resolved"
    assert OmegaConf.create(config).data.source.dir == str(tmp_path)
    again = evaluate(
        compose("evaluate", *overrides[1:], f"checkpoint={tmp_path / 'run'}", f"run_dir={tmp_path / 'second'}")
    )
    assert again["run/model"] == str(tiny_folder), "the checkpoint decides on the model"
    assert "run/note" not in again


@pytest.mark.parametrize(
    ("model", "embedded", "note"),
    [("tiny", False, "random model: for dry runs"), ("minilm", True, "embedded model: a small one")],
)
def test_the_note_on_own_data_is_about_the_model(
    model: str, embedded: bool, note: str, compose: Compose, tmp_path: Path
) -> None:
    options = ["data=local", f"data.dir={_local_files(tmp_path)}", "attention=standard", "analysis=none"]
    metrics = evaluate(compose("evaluate", f"model={model}", *options))
    assert metrics["run/embedded"] is embedded
    assert metrics["run/note"].startswith(note)
    assert "demonstration" not in metrics["run/note"]


def test_over_long_texts_are_cut_counted_and_reported(compose: Compose, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = train(compose("train", "data.max_length=40", "attention=standard"))
    assert 0 < metrics["data/train/truncated"] <= 32
    assert metrics["data/train/max_length"] == 40
    counts = (metrics["data/validation/truncated"], metrics["data/train/truncated"])
    cut = f"cut at 40 tokens: {counts[0]} validation, {counts[1]} train examples"
    assert cut in capsys.readouterr().out


def test_nothing_is_said_of_cutting_where_nothing_was_cut(trained: Any) -> None:
    assert trained.metrics["data/train/truncated"] == 0
    assert "cut at" not in trained.console


def test_regression_task(compose: Compose) -> None:
    metrics = train(compose("train", "task=stsb"))
    assert metrics["test/effective/pearson"] == pytest.approx(metrics["test/standard/pearson"], abs=1e-3)
    assert math.isfinite(metrics["val/loss"])


def test_real_glue(compose: Compose) -> None:
    if not (GLUE / "MRPC").is_dir():
        pytest.skip(f"no GLUE files in {GLUE}")
    limits = ["data.limit_train=40", "data.limit_eval=40"]
    metrics = train(compose("train", "data=local", f"data.dir={GLUE}", *limits))
    assert metrics["run/data"] == "local"
    assert (metrics["data/train/examples"], metrics["data/validation/examples"]) == (40, 40)
    assert metrics["test/effective/accuracy"] == metrics["test/standard/accuracy"]
    assert metrics["test/effective/max_logit_difference"] < 1e-5


# --- seeds ---


def test_same_seed_same_run(compose: Compose, trained: Any, tmp_path: Path) -> None:
    metrics = train(compose("train", "attention=all"))
    assert scores(metrics) == scores(trained.metrics)
    one, other = (
        torch.load(place / "checkpoints/last.ckpt", weights_only=True) for place in (tmp_path / "run", trained.folder)
    )
    assert all(torch.equal(tensor, other["state_dict"][name]) for name, tensor in one["state_dict"].items())


def test_another_seed_another_run(compose: Compose, trained: Any) -> None:
    metrics = train(compose("train", "attention=standard", "seed=1"))
    assert metrics["run/seed"] == 1
    assert metrics["val/loss"] != trained.metrics["val/loss"]


@pytest.mark.parametrize("seed", [0, 7])
def test_every_seed_is_passed_on_also_zero(seed: int, compose: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    real = pl.seed_everything
    monkeypatch.setattr(
        pl, "seed_everything", lambda number, **options: (seen.append(number), real(number, **options))[1]
    )
    metrics = evaluate(compose("evaluate", f"seed={seed}", "attention=standard"))
    assert set(seen) == {seed}
    assert metrics["run/seed"] == seed


@pytest.fixture
def deterministic_off() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)


def test_deterministic_mode(compose: Compose, monkeypatch: pytest.MonkeyPatch, deterministic_off: None) -> None:
    seen: list[bool] = []
    real = SequenceClassifier.training_step
    monkeypatch.setattr(
        SequenceClassifier,
        "training_step",
        lambda self, *batch: (seen.append(torch.are_deterministic_algorithms_enabled()), real(self, *batch))[1],
    )
    train(compose("train", "trainer.deterministic=true"))
    assert set(seen) == {True}


# --- interrupting and resuming ---


class Watch:
    """A callback that records the examples of every training batch, and raises at a chosen place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[list[int]] = []
        self.stop_at: tuple[str, int] | None = None
        self.error: type[BaseException] = KeyboardInterrupt
        for name in ("training_step", "validation_step", "on_train_batch_end"):
            self._wrap(monkeypatch, SequenceClassifier, name)
        self._wrap(monkeypatch, AttentionComparison, "test_step")

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        real = getattr(owner, name)
        count = 0

        def step(module: Any, *args: Any) -> Any:
            nonlocal count
            count += 1
            if self.stop_at == (name, count):
                self.stop_at = None
                raise self.error("stopped by the test")
            if name == "training_step":
                self.batches.append(args[0]["index"].tolist())
            return real(module, *args)

        monkeypatch.setattr(owner, name, step)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


TWO = ("trainer.max_epochs=2", "attention=standard")  # 4 steps an epoch


@dataclass(frozen=True)
class Whole:
    """Two epochs without interruption."""

    metrics: dict[str, Any]
    batches: list[list[int]]
    folder: Path


@pytest.fixture(scope="module")
def whole(composer: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        watch = Watch(patch)
        metrics = train(composer("train", folder, *TWO))
    return Whole(metrics, watch.batches, folder / "run")


def test_epochs_are_shuffled_anew(whole: Whole) -> None:
    first, second = whole.batches[:4], whole.batches[4:]
    assert len(second) == 4
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(32))
    assert first != second


@pytest.mark.parametrize(
    ("place", "steps"),
    [
        pytest.param(("training_step", 3), 2, id="in a step"),
        pytest.param(("on_train_batch_end", 3), 3, id="after a step"),
        pytest.param(("training_step", 5), 4, id="at the start of an epoch"),
        pytest.param(("training_step", 7), 6, id="in the second epoch"),
        pytest.param(("validation_step", 2), 4, id="in the first validation"),
        pytest.param(("validation_step", 4), 8, id="in the last validation"),
    ],
)
def test_ctrl_c_leaves_a_checkpoint_from_which_the_run_goes_on(
    place: tuple[str, int], steps: int, whole: Whole, compose: Compose, tmp_path: Path, watch: Watch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    watch.stop_at = place
    with pytest.raises(SystemExit) as stop:
        train(compose("train", *TWO))
    assert stop.value.code == 130
    assert not (tmp_path / "run" / "metrics.json").exists()
    assert f"stopped at step {steps}; go on with resume=" in caplog.text
    assert torch.load(tmp_path / "run" / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] == steps

    done = watch.batches[:steps]
    watch.batches = []
    resumed = train(compose("train", *TWO, f"run_dir={tmp_path / 'resumed'}", f"resume={tmp_path / 'run'}"))
    assert done + watch.batches == whole.batches, "every batch once, in the order of the run that was not interrupted"
    assert scores(resumed) == scores(whole.metrics)
    same_run(tmp_path / "resumed", whole.folder)


def test_resume_a_finished_run_for_more_epochs(trained: Any, compose: Compose, watch: Watch, tmp_path: Path) -> None:
    metrics = train(compose("train", *TWO, f"resume={trained.folder}"))
    assert len(watch.batches) == 4
    last = torch.load(tmp_path / "run" / "checkpoints" / "last.ckpt", weights_only=True)
    assert (last["epoch"], last["global_step"]) == (1, 8)
    assert metrics["val/loss"] != trained.metrics["val/loss"]


def test_resume_a_finished_run_as_it_is(trained: Any, compose: Compose, watch: Watch) -> None:
    metrics = train(compose("train", f"resume={trained.folder}"))
    assert watch.batches == []
    for name in ("test/standard/accuracy", "test/effective/f1"):
        assert metrics[name] == trained.metrics[name]


def test_an_error_in_training_keeps_what_was_learnt(compose: Compose, tmp_path: Path, watch: Watch) -> None:
    watch.stop_at = ("training_step", 3)
    watch.error = ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        train(compose("train"))
    assert torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=True)["global_step"] == 2


def test_interrupted_before_the_first_step(compose: Compose, tmp_path: Path, watch: Watch) -> None:
    watch.stop_at = ("training_step", 1)
    with pytest.raises(SystemExit):
        train(compose("train"))
    assert not (tmp_path / "run" / "checkpoints" / "last.ckpt").exists()


def test_interrupted_in_testing_leaves_the_finished_checkpoint(compose: Compose, tmp_path: Path, watch: Watch) -> None:
    watch.stop_at = ("test_step", 1)
    with pytest.raises(SystemExit):
        train(compose("train"))
    last = torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=True)
    assert (last["epoch"], last["global_step"]) == (0, 4)


# --- evaluate ---


@pytest.mark.parametrize("place", ["", "checkpoints", "checkpoints/last.ckpt"])
def test_evaluate_reproduces_what_train_measured(place: str, trained: Any, compose: Compose) -> None:
    metrics = evaluate(compose("evaluate", "attention=all", f"checkpoint={trained.folder / place}"))
    names = [name for name in trained.metrics if name.startswith("test/") and "second" not in name]
    assert {name: metrics[name] for name in names} == pytest.approx(
        {name: trained.metrics[name] for name in names}, abs=1e-7
    )
    assert not any(name.startswith(("val/", "data/train")) for name in metrics)
    assert metrics["run/checkpoint"] == str(trained.folder / place)


def test_evaluate_reads_the_model_from_the_checkpoint(trained: Any, compose: Compose) -> None:
    metrics = evaluate(compose("evaluate", "model=minilm", f"checkpoint={trained.folder}", "attention=standard"))
    assert metrics["run/model"] == "tiny"


def test_evaluate_writes_its_own_folder_only(trained: Any, compose: Compose, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.folder.rglob("*")}
    evaluate(compose("evaluate", f"checkpoint={trained.folder}", "attention=standard"))
    assert {path: path.stat().st_mtime_ns for path in trained.folder.rglob("*")} == before
    assert {"metrics.json", "config.yaml", "csv"} <= {path.name for path in (tmp_path / "run").iterdir()}


def test_evaluate_without_a_checkpoint_warns(compose: Compose, caplog: pytest.LogCaptureFixture) -> None:
    metrics = evaluate(compose("evaluate"))
    assert metrics["run/checkpoint"] is None
    assert "classification head is random" in caplog.text
    assert "test/effective/accuracy" in metrics


# --- refused before anything is written ---


@pytest.mark.parametrize(
    ("command", "overrides", "message"),
    [
        ("train", ["seed=-1"], "seed must be a whole number from 0"),
        ("train", ["seed=null"], "seed must be a whole number from 0"),
        ("train", ["attention.kinds=[]"], r"attention\.kinds must be a list of one or more"),
        ("train", ["attention.repeats=0"], r"attention\.repeats must be .* at least 1 .*, got 0"),
        (
            "train",
            ["attention.kinds=[standard,special]"],
            r"attention\.kinds must be a list .*effective, affine, padded, got .*special",
        ),
        ("train", ["data.batch_size=many"], r"data\.batch_size must be a whole number"),
        ("train", ["data.max_length=1000"], r"add data\.max_length=512"),
        ("train", ["data.limit_train=0"], r"data\.limit_train"),
        ("train", ["task=cola"], "no validation sample for task cola; add data=hub"),
        ("train", ["split=test"], "no test sample for task mrpc"),
        ("train", ["resume=/no/such/run"], "resume=/no/such/run: no such file or folder"),
        ("evaluate", ["checkpoint=/no/such/run"], "checkpoint=/no/such/run: no such file or folder"),
    ],
)  # fmt: skip
def test_bad_options_write_nothing(
    command: str, overrides: list[str], message: str, compose: Compose, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        getattr(pipeline, command)(compose(command, *overrides))
    assert not (tmp_path / "run").exists()


def test_weights_alone_cannot_be_resumed(trained: Any, compose: Compose) -> None:
    with pytest.raises(UserError, match=r"best\.ckpt holds weights only; resume from checkpoints/last\.ckpt"):
        train(compose("train", f"resume={trained.folder / 'checkpoints' / 'best.ckpt'}"))


def test_resume_with_another_model(trained: Any, compose: Compose) -> None:
    with pytest.raises(UserError, match=r"model\.layers=3 contradicts resume="):
        train(compose("train", "model.layers=3", f"resume={trained.folder}"))


def test_resume_with_another_task(trained: Any, compose: Compose) -> None:
    with pytest.raises(UserError, match="was trained on mrpc, not on rte; add task=mrpc"):
        train(compose("train", "task=rte", f"resume={trained.folder}"))


@pytest.mark.parametrize(("keep", "kept"), [("best", ["best.ckpt"]), ("none", [])])
def test_checkpoints_of_a_finished_run_are_optional(
    keep: str, kept: list[str], compose: Callable[..., Any], tmp_path: Path
) -> None:
    train(compose("train", f"save.keep={keep}", "analysis=none"))
    assert [path.name for path in (tmp_path / "run").rglob("*.ckpt")] == kept
    if kept:  # what is left can be tested
        evaluate(compose("evaluate", f"checkpoint={tmp_path / 'run'}", "analysis=none"))
