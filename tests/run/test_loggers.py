"""W&B gets everything when it works, and never ends a run when it does not."""

import csv
import json
import logging
import os
import runpy
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import wandb
from pytorch_lightning.loggers import CSVLogger

from effective_attention.models.classifier import SequenceClassifier
from effective_attention.run import loggers as tracking
from effective_attention.run.experiment import evaluate, train
from effective_attention.run.loggers import ForgivingWandbLogger, build_loggers
from helpers.paths import ROOT
from helpers.wandb_files import RunFile

WATCHED = ("analysis=[token_types,finetuning_shift]", "drift.examples=4", "trainer.max_epochs=2")
OPTIONS = {"project": "test-project", "group": "some-group", "tags": ["mine", 7]}


@pytest.fixture(autouse=True)
def _nobody_is_logged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    yield
    if wandb.run is not None:
        type(wandb.run).finish(wandb.run)  # not what a test put in its place


# --- a run that works ---


def test_an_offline_run_holds_everything(compose: Callable[..., Any], tmp_path: Path, caplog: Any) -> None:
    options = ["logger=wandb", "logger.wandb.tags=[mine]", "trainer.log_every_n_steps=1"]
    metrics = train(compose("train", *options))
    found = RunFile(tmp_path / "run")
    assert (found.run.project, found.run.display_name, found.run.run_group, found.run.job_type) == (
        "effective-attention",
        "mrpc-tiny-seed0-train",
        "mrpc",
        "train",
    )
    assert found.config["run/trained_in"] == f"{tmp_path.name}/run"
    assert list(found.run.tags) == ["mrpc", "tiny", "standard", "effective", "seed=0", "mine"]
    assert found.config["seed"] == 0
    assert found.config["task"]["name"] == "mrpc"
    assert found.config["optimizer"]["lr"] == 5e-5
    assert found.config["run/note"] == metrics["run/note"]
    assert [entry["train/loss"] for entry in found.history if "train/loss" in entry] == [
        pytest.approx(0.69, abs=0.1)
    ] * 4
    rates = [entry[name] for entry in found.history for name in entry if name.startswith("learning_rate")]
    assert rates == pytest.approx([5e-5 * share for share in (1, 0.75, 0.5, 0.25)])
    assert any("val/accuracy" in entry for entry in found.history)
    summary = found.summary
    assert {name: summary[name] for name in metrics} == pytest.approx(metrics), "all of metrics.json"
    table = found.table
    assert [row[table["columns"].index("attention")] for row in table["data"]] == ["standard", "effective"]
    assert table["data"][1][table["columns"].index("accuracy")] == f"{metrics['test/effective/accuracy']:.3f}"
    assert len(found.of("exit")) == 1, "the run was ended"
    assert wandb.run is None
    assert [record.message for record in caplog.records if "W&B" in record.message] == []


def test_an_offline_run_holds_what_was_found(compose: Callable[..., Any], tmp_path: Path, caplog: Any) -> None:
    """Check for scalars from the start on and at the end, tables, figures, and the report as an artifact."""
    metrics = train(compose("train", "logger=wandb", *WATCHED))
    found = RunFile(tmp_path / "run")
    names = [f"cosine/{kind}/layer_{layer:02d}" for kind in ("standard", "effective") for layer in range(2)]
    types = ("cls", "sep", "punctuation", "noun", "pronoun", "verb")
    names += [f"token_attention/{kind}/{name}" for kind in ("standard", "effective") for name in types]
    for name in names:
        assert [step for step, _ in found.curve(name)] == [0, 4, 8], f"{name}: the start and two validations"
        assert found.curve(f"final/{name}") == [(8, pytest.approx(metrics[name]))], "of the whole split"
        assert found.summary[name] == pytest.approx(metrics[name])
        if name.startswith("cosine/"):
            assert found.curve(name)[0][1] == pytest.approx(1, abs=1e-6)
    media = {name: value for entry in found.history for name, value in entry.items() if name.endswith("/_type")}
    for analysis in ("token_types", "finetuning_shift"):
        assert media[f"tables/{analysis}/_type"] == "table-file"
        assert media[f"figures/{analysis}/_type"] == "image-file"
    (table,) = found.path.parent.glob("files/media/table/tables/finetuning_shift*.table.json")
    content = json.loads(table.read_text())
    assert content["columns"][:3] == ["task", "model", "data"]
    assert len(content["data"]) == 2 * 2 * 4
    reports = [one for one in found.of("artifact") if one.type == "report"]
    assert [entry.path for one in reports for entry in one.manifest.contents] == ["report.html"]
    assert [record.message for record in caplog.records if "W&B" in record.message] == []


def test_nothing_is_logged_twice(compose: Callable[..., Any], tmp_path: Path) -> None:
    """Check every name at every step, in both logs; the steps that validations and training share, too."""
    train(compose("train", "logger=wandb", "trainer.log_every_n_steps=1", "+trainer.val_check_interval=1", *WATCHED))
    axes = {"step", "epoch", "trainer/global_step"}
    history = RunFile(tmp_path / "run").history
    with (tmp_path / "run" / "csv" / "metrics.csv").open(newline="") as file:
        rows = [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]
    for log, axis in ((history, "trainer/global_step"), (rows, "step")):
        logged = [(entry[axis], name) for entry in log for name in entry.keys() - axes if not name.startswith("_")]
        assert len(logged) > 100
        assert [found for found, times in Counter(logged).items() if times > 1] == []


def test_an_evaluation_is_found_from_the_run_that_trained(
    compose: Callable[..., Any], trained: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(compose("evaluate", "logger=wandb", "attention=standard", f"checkpoint={trained.folder}"))
    found = RunFile(tmp_path / "run")
    assert (found.run.display_name, found.run.run_group, found.run.job_type) == (
        "mrpc-tiny-seed0-evaluate",
        "mrpc",
        "evaluate",
    )
    assert found.config["checkpoint"] == str(trained.folder)
    assert found.config["run/trained_in"] == "/".join(trained.folder.parts[-2:]), "as in the training run's config"
    folder = found.path.parent
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith(("look:", "send:"))] == [
        f"look:    wandb leet {folder}",
        f"send:    wandb sync {folder}",
    ]


def test_the_log_of_a_resumed_run_is_whole(compose: Callable[..., Any], tmp_path: Path) -> None:
    """Check that the new W&B run of a resumed training begins where that began, with the start logged once."""
    own = [*WATCHED, "attention=standard", "trainer.max_epochs=2", "trainer.log_every_n_steps=1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SequenceClassifier, "training_step", _stopped_at(6, SequenceClassifier.training_step))
        with pytest.raises(SystemExit):
            train(compose("train", *own))
    train(compose("train", "logger=wandb", *own, f"resume={tmp_path / 'run'}", f"run_dir={tmp_path / 'on'}"))
    found = RunFile(tmp_path / "on")
    assert [step for step, _ in found.curve("cosine/effective/layer_01")] == [0, 4, 8]
    assert [step for step, _ in found.curve("train/loss")] == list(range(8))
    assert [step for step, _ in found.curve("val/accuracy")] == [4, 8]


def _stopped_at(number: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """Make a training step that Ctrl-C ends when it is called so many times."""
    calls = count(1)

    def step(module: Any, *batch: Any) -> Any:
        if next(calls) == number:
            raise KeyboardInterrupt
        return real(module, *batch)

    return step


def test_runs_of_a_sweep_share_a_group_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    handlers = logging.getLogger().handlers[:]
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    small = "model=tiny analysis=none trainer=cpu trainer.max_epochs=1 trainer.enable_progress_bar=false"
    small += " data.limit_train=8 data.limit_eval=8"
    places = [f"hydra.sweep.dir={tmp_path / 'my-sweep'}", f"data.token_cache={tmp_path / 'tokens'}"]
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", "seed=1,2", "attention=standard", *small.split(), *places])
    try:
        runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
    finally:
        logging.getLogger().handlers[:] = handlers
    first, second = (RunFile(tmp_path / "my-sweep" / f"{job}_seed={job + 1}") for job in range(2))
    assert first.run.run_group == second.run.run_group == "my-sweep"
    assert first.run.run_id != second.run.run_id
    assert [run.run.display_name for run in (first, second)] == ["mrpc-tiny-seed1-train", "mrpc-tiny-seed2-train"]
    assert list(first.run.tags) == ["mrpc", "tiny", "standard", "seed=1"]
    assert list(second.run.tags) == ["mrpc", "tiny", "standard", "seed=2"]
    assert (first.summary["run/seed"], second.summary["run/seed"]) == (1, 2)
    assert "wandb:" not in capfd.readouterr().err


def test_csv_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("started"))
    (logger,) = build_loggers(tmp_path, None, config={}, tags=[])
    assert isinstance(logger, CSVLogger)
    assert Path(logger.log_dir) == tmp_path / "csv"


# --- online, offline, or not at all ---


class FakeInit:
    """A stand-in for ``wandb.init`` that notes how it was called, and fails in the modes it is told to."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, fails: tuple[str, ...] = (), logged_in: bool | Exception = False
    ) -> None:
        self.calls: list[dict[str, Any]] = []
        self.fails = fails
        self.real = wandb.init
        self.logged_in = logged_in
        monkeypatch.setattr(wandb, "init", self)
        monkeypatch.setattr(wandb, "login", self.login)

    def login(self, **options: Any) -> bool:
        assert options == {"prompt": False, "verify": False}, "neither asks nor waits"
        if isinstance(self.logged_in, Exception):
            raise self.logged_in
        return self.logged_in

    def __call__(self, **options: Any) -> Any:
        self.calls.append(options)
        if options["mode"] in self.fails:
            raise wandb.errors.CommError("no answer\nfrom the server")
        return self.real(**(options | {"mode": "disabled"}))

    @property
    def modes(self) -> list[str]:
        return [call["mode"] for call in self.calls]


def start(tmp_path: Path) -> list[Any]:
    return build_loggers(tmp_path, OPTIONS, config={"a": 1}, tags=["mrpc"])


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == tracking.__name__]


def test_not_logged_in_means_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    fake = FakeInit(monkeypatch)
    loggers = start(tmp_path)
    assert [type(logger) for logger in loggers] == [CSVLogger, ForgivingWandbLogger]
    (call,) = fake.calls
    assert (call["mode"], call["project"], call["group"], call["dir"]) == (
        "offline",
        "test-project",
        "some-group",
        str(tmp_path),
    )
    assert call["tags"] == ["mrpc", "mine", "7"]
    assert warned(caplog) == []


def test_really_not_logged_in() -> None:
    assert tracking._wants_online() is False


def test_logged_in_means_online(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    fake = FakeInit(monkeypatch, logged_in=True)
    assert len(start(tmp_path)) == 2
    assert fake.modes == ["online"]
    assert warned(caplog) == []


def test_logged_in_but_the_server_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    fake = FakeInit(monkeypatch, logged_in=True, fails=("online",))
    assert len(start(tmp_path)) == 2
    assert fake.modes == ["online", "offline"]
    (line,) = warned(caplog)
    assert "W&B online failed" in line
    assert line.endswith("no answer from the server"), "one line"


def test_login_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    fake = FakeInit(monkeypatch, logged_in=ValueError("bad key"))
    assert len(start(tmp_path)) == 2
    assert fake.modes == ["offline"]
    assert len(warned(caplog)) == 1


@pytest.mark.parametrize("mode", ["online", "offline", "disabled"])
def test_the_users_mode_is_respected(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", mode)
    fake = FakeInit(monkeypatch, logged_in=True)
    start(tmp_path)
    assert fake.modes == [mode]


def test_nothing_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    FakeInit(monkeypatch, fails=("offline",))
    (logger,) = start(tmp_path)
    assert isinstance(logger, CSVLogger)
    assert len(warned(caplog)) == 1


def test_not_even_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    (logger,) = start(tmp_path)
    assert isinstance(logger, CSVLogger)
    assert len(warned(caplog)) == 1, "said once"


# --- a whole run ---


def complete(folder: Path) -> bool:
    return (folder / "metrics.json").is_file() and (folder / "csv" / "metrics.csv").is_file()


def test_a_run_survives_without_wandb(
    compose: Callable[..., Any], tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    FakeInit(monkeypatch, fails=("offline",))
    metrics = train(compose("train", "logger=wandb", "attention=standard"))
    assert "test/standard/accuracy" in metrics
    assert complete(tmp_path / "run")
    (line,) = warned(caplog)
    assert "the run goes on without it" in line


@pytest.mark.parametrize("broken", ["log", "define_metric", "finish"])
def test_a_run_survives_a_failure_in_its_middle(
    broken: str, compose: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    calls: list[str] = []

    def fail(*_: Any, **__: Any) -> None:
        calls.append(broken)
        raise ConnectionError("the line is cut")

    fake = FakeInit(monkeypatch)
    real = fake.real

    def init(**options: Any) -> Any:
        run = real(**(options | {"mode": "disabled"}))
        monkeypatch.setattr(run, broken, fail)
        return run

    fake.real = init
    train(compose("train", "logger=wandb", "attention=standard"))
    assert complete(tmp_path / "run")
    assert len(warned(caplog)) == 1
    assert len(calls) == (2 if broken == "finish" else 1), (
        "it gives up after the first failure; only ending is tried again"
    )


def test_a_disabled_run_leaves_no_files(
    compose: Callable[..., Any], tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    train(compose("train", "logger=wandb", "attention=standard"))
    assert complete(tmp_path / "run")
    assert not list((tmp_path / "run").glob("wandb/*run-*"))
    assert warned(caplog) == []


@pytest.mark.parametrize("mode", ["online", "disabled"])
def test_no_advice_where_nothing_is_kept(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", mode)
    FakeInit(monkeypatch, logged_in=True)
    assert start(tmp_path)[1].advice() == []


def test_advice_fits_the_installed_wandb_and_any_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a W&B without the command that shows runs, and a folder with a space in its name."""
    from wandb.cli.cli import cli

    folder = tmp_path / "my runs"
    folder.mkdir()
    logger = build_loggers(folder, OPTIONS, config={}, tags=[])[1]
    monkeypatch.delitem(cli.commands, "leet")
    (line,) = logger.advice()
    logger.finish()
    (place,) = folder.glob("wandb/offline-run-*")
    assert line == f"send:    wandb sync '{place}'"


def test_gives_up_once_and_still_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    FakeInit(monkeypatch)
    logger = start(tmp_path)[1]
    ended: list[bool] = []
    monkeypatch.setattr(logger.experiment, "log", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(logger.experiment, "finish", lambda *_, **__: ended.append(True))
    logger.log_metrics({"a": 1.0}, step=0)
    logger.log_metrics({"a": 1.0}, step=1)
    logger.log_summary({"a": 1.0})
    logger.log_rows("attention", [{"a": "1"}])
    logger.finish()
    assert ended == [True], "else the next run of a sweep would be logged into this one"
    assert len(warned(caplog)) == 1
