"""Bad input: one line on stderr, exit code 2, no traceback, nothing half-written, earlier results untouched.

Most runs are made in this process by running the very script; importing torch anew for each would take minutes.
"""

import errno
import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from omegaconf.errors import ConfigKeyError

from effective_attention.errors import UserError
from effective_attention.run.cli import BAD_INPUT, command, explain, one_line_errors
from helpers.paths import ROOT

SMALL = (
    "model=tiny", "trainer=cpu", "trainer.max_epochs=1", "trainer.enable_progress_bar=false", "data.limit_train=8",
    "data.limit_eval=8", "logger=csv", "attention=standard",
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    def refused(self) -> str:
        """Return the error line, after checking that it is the only one."""
        assert self.code == BAD_INPUT == 2, self.err
        (line,) = self.err.splitlines()
        assert line.startswith("error: ")
        assert "Traceback" not in self.out
        return line


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], logging_restored: None
) -> Callable[..., Ended]:
    """Return ``run("train", *overrides)``, which runs the script in this process, in ``tmp_path / "run"``."""

    def go(name: str, *overrides: str, small: bool = True) -> Ended:
        places = [f"hydra.run.dir={tmp_path / 'runs' / 'run'}", f"data.token_cache={tmp_path / 'tokens'}"]
        given = {override.split("=")[0] for override in overrides}
        options = [option for option in (*SMALL * small, *places) if option.split("=")[0] not in given]
        monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *overrides, *options])
        capfd.readouterr()
        code: Any = 0
        try:
            runpy.run_path(str(ROOT / f"{name}.py"), run_name="__main__")
        except SystemExit as stop:
            code = stop.code
        out, err = capfd.readouterr()
        return Ended(code, out, err)

    return go


Run = Callable[..., Ended]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_good_run_says_nothing_on_stderr(run: Run, tmp_path: Path) -> None:
    ended = run("train")
    progress = re.compile(r"(\w+: \d+ of \d+ \w+, \d+ s.*|\w+: \d+ rows, \d+ s|epoch \d+/\d+, .*)")
    assert ended.code == 0
    assert [line for line in ended.err.splitlines() if not progress.fullmatch(line)] == []
    folder = tmp_path / "runs" / "run"
    found = {"figures", "report.html", "tables"}
    assert {".hydra", "checkpoints", "config.yaml", "csv", "metrics.json", "train.log", *found} == names(folder)
    assert str(folder) in ended.out


@pytest.mark.parametrize(
    ("name", "overrides", "words"),
    [
        ("train", ["task=nonsense"], ["task=nonsense does not exist", "mrpc"]),
        (
            "train",
            ["model=nonsense"],
            ["model=nonsense does not exist", "bert_base, minilm, mpnet_base, smollm2, tiny"],
        ),
        ("evaluate", ["attention=nonsense"], ["attention=nonsense does not exist", "padded"]),
        ("train", ["nonsense=3"], ["nonsense", "--help"]),
        ("train", ["data.nonsense=3"], ["nonsense", "--help"]),
        ("train", ["task=[broken"], ["task=[broken cannot be read"]),
        ("train", ["data=local"], ["data.dir is not set; add data.dir=<value>"]),
        ("train", ["data=local", "data.dir=/no/such/glue"], ["data.dir=/no/such/glue", "no such folder"]),
        ("train", ["model=minilm", "model.name=no/such-bert"], ["no/such-bert", "add model=minilm"]),
        ("train", ["task=wnli"], ["no validation sample for task wnli", "add data=hub"]),
        ("evaluate", ["checkpoint=/no/such/run"], ["checkpoint=/no/such/run", "no such file or folder"]),
        ("train", ["resume=/no/such/run"], ["resume=/no/such/run", "no such file or folder"]),
        ("train", ["data.batch_size=0"], ["data.batch_size"]),
        ("train", ["+trainer.nonsense=1"], ["trainer.nonsense is not an option of pytorch_lightning.Trainer"]),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    name: str, overrides: list[str], words: list[str], run: Run, tmp_path: Path
) -> None:
    line = run(name, *overrides).refused()
    for word in words:
        assert word in line
    assert names(tmp_path) <= {"tokens"}, "not even the folder of the run"


def test_a_refused_run_leaves_none_of_its_folders(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("train", "hydra.run.dir=runs/mrpc/one", "data.batch_size=0").refused()
    assert names(tmp_path) == set()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_run_that_is_stopped_before_it_has_anything_leaves_nothing(
    number: signal.Signals, code: int, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from effective_attention.run import experiment

    monkeypatch.setattr(experiment, "prepare", lambda *rest, **options: os.kill(os.getpid(), number))
    for name in ("train", "evaluate"):
        ended = run(name)
        line = f"stopped by {number.name} before there was anything to go on from; start it again\n"
        assert (ended.code, ended.err) == (code, line)
        assert names(tmp_path) <= {"tokens"}, "not even the folder of the run"


def test_ctrl_c_while_libraries_load_leaves_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from effective_attention.run import experiment

    def interrupted(cfg: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "evaluate", interrupted)  # which is not reached while they load
    ended = run("evaluate")
    assert (ended.code, ended.err) == (130, "stopped by SIGINT\n")
    assert names(tmp_path) <= {"tokens"}


def test_a_stop_keeps_the_run_that_was_there(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from effective_attention.run import experiment

    assert run("evaluate").code == 0
    monkeypatch.setattr(experiment, "prepare", lambda *rest, **options: os.kill(os.getpid(), signal.SIGTERM))
    ended = run("evaluate", f"resume={tmp_path / 'runs' / 'run'}")
    assert ended.err == f"stopped by SIGTERM; go on with resume={tmp_path / 'runs' / 'run'}\n"
    assert {".hydra", "config.yaml", "metrics.json", "evaluate.log"} <= names(tmp_path / "runs" / "run")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04nonsense"])
def test_damaged_checkpoint(content: bytes, run: Run, tmp_path: Path) -> None:
    (tmp_path / "it.ckpt").write_bytes(content)
    assert "it.ckpt cannot be read: damaged" in run("evaluate", f"checkpoint={tmp_path / 'it.ckpt'}").refused()
    assert "it.ckpt cannot be read: damaged" in run("train", f"resume={tmp_path / 'it.ckpt'}").refused()
    assert names(tmp_path) <= {"it.ckpt", "tokens"}


def test_checkpoint_of_another_task(run: Run, trained: Any) -> None:
    assert "add task=mrpc" in run("evaluate", "task=rte", f"checkpoint={trained.folder}").refused()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("hydra.verbose=5", "Hydra cannot start (AssertionError"),
        ("hydra.run.dir=${oc.env:NOT_SET_AT_ALL}", "hydra.run.dir: KeyError raised while resolving"),
        ("hydra.job.chdir=abc", "hydra.job.chdir: Value 'abc' is not a valid bool"),
        ("--config-name=nothing", "Cannot find primary config 'nothing'"),
    ],
)
def test_options_of_hydra_itself(override: str, words: str, run: Run) -> None:
    assert words in run("train", override).refused()


def test_a_refusal_does_not_remove_the_folder_one_stands_in(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert "seed" in run("train", "hydra.run.dir=", "seed=-1").refused()
    assert here.is_dir()


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("evaluate", ["checkpoint=/no/such/run"]),
        ("train", ["resume=/no/such/run"]),
        ("train", ["data=local", "data.dir=/no/such/folder"]),
        ("train", ["trainer.max_epochs=-1"]),
    ],
)
def test_wrong_options_are_found_before_anything_heavy_is_imported(
    name: str, overrides: list[str], tmp_path: Path
) -> None:
    words = [sys.executable, "-X", "importtime", f"{name}.py", *overrides, f"hydra.run.dir={tmp_path / 'run'}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    imported = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    roots = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in imported}
    assert {"hydra", "pydantic"} <= roots, "the list was read right"
    assert not roots & {"torch", "transformers", "pytorch_lightning", "datasets", "pandas", "numpy"}
    (line,) = [line for line in done.stderr.splitlines() if line not in imported]
    assert line.startswith(f"error: {overrides[-1].partition('=')[0]}")
    assert not (tmp_path / "run").exists()


def test_real_processes(tmp_path: Path) -> None:
    """Check the same from outside, where libraries write to stderr while they are imported."""
    (tmp_path / "it.ckpt").write_bytes(b"nonsense")
    for name, override in (("train", "task=nonsense"), ("evaluate", f"checkpoint={tmp_path / 'it.ckpt'}")):
        words = [sys.executable, f"{name}.py", override, "model=tiny", f"hydra.run.dir={tmp_path / 'runs' / 'run'}"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        Ended(done.returncode, done.stdout, done.stderr).refused()
        assert done.stdout == ""
    assert names(tmp_path) == {"it.ckpt"}


# --- disks ---


@pytest.mark.parametrize("place", ["file/run", "file"])
def test_run_folder_that_cannot_be_made(place: str, run: Run, tmp_path: Path) -> None:
    """Check a regular file in the way of the folder, as no permission stops root from writing."""
    (tmp_path / "file").write_text("earlier")
    line = run("train", f"hydra.run.dir={tmp_path / place}").refused()
    assert f"cannot read or write {tmp_path / 'file'}" in line
    assert "hydra.run.dir=<folder>" in line
    assert (tmp_path / "file").read_text() == "earlier"


def _fill_disk(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Let only half of what is written to ``target`` fit."""
    real = os.fdopen

    def fdopen(handle: int, *rest: Any, **options: Any) -> Any:
        file = real(handle, *rest, **options)
        if f"/.{target}." in str(Path(f"/proc/self/fd/{handle}").readlink()):
            file.write(b"half a file")

            class Full:
                def __enter__(self) -> Any:
                    return self

                def __exit__(self, *_: Any) -> None:
                    file.close()

                def write(self, _: bytes) -> None:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            return Full()
        return file

    monkeypatch.setattr(os, "fdopen", fdopen)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="asks /proc which file a handle belongs to")
@pytest.mark.parametrize("target", ["metrics.json", "config.yaml", "last.ckpt"])
def test_full_disk(target: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "runs" / "run"
    earlier = folder / "checkpoints" / target if target.endswith("ckpt") else folder / target
    earlier.parent.mkdir(parents=True)
    earlier.write_text("earlier")
    _fill_disk(monkeypatch, target)
    ended = run("train")
    *_, line = ended.err.splitlines()  # Lightning may say first that the folder is not empty, as it should
    assert ended.code == BAD_INPUT
    assert "Traceback" not in ended.err
    assert line.startswith("error: ")
    assert f"cannot read or write {earlier}: No space left on device" in line
    assert earlier.read_text() == "earlier"
    litter = [path for path in folder.rglob("*") if path.is_file() and path.name.startswith(f".{target}")]
    assert litter == []


def test_refusal_in_a_folder_of_the_users_touches_nothing_of_theirs(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    mine = {"notes.log": "mine", "other.yaml": "mine", "data/train.log": "mine"}
    for name, text in mine.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    run("train", "task=wnli", f"hydra.run.dir={folder}").refused()
    left = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert left == mine


def test_refusal_leaves_earlier_results_alone(run: Run, tmp_path: Path) -> None:
    assert run("train").code == 0
    folder = tmp_path / "runs" / "run"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and ".hydra" not in path.parts}
    run("train", "task=wnli").refused()
    assert {
        path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and ".hydra" not in path.parts
    } == before


# --- the explanation itself ---


def test_our_own_bugs_keep_their_traceback(
    tmp_path: Path, logging_restored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", f"hydra.run.dir={tmp_path}"])

    def task(cfg: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        command("train", task)
    assert explain(KeyError("x")) is None
    assert explain(OSError(errno.EBADF, "Bad file descriptor")) is None


def test_command_ends_with_code_2(
    tmp_path: Path, logging_restored: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", f"hydra.run.dir={tmp_path}"])

    def task(cfg: Any) -> None:
        with one_line_errors():
            raise UserError("a\nb")

    with pytest.raises(SystemExit) as stop:
        command("train", task)
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: a b\n"


def test_causes_are_explained_but_not_what_was_hidden() -> None:
    around = RuntimeError("around it")
    around.__cause__ = UserError("the cause")
    assert explain(around) == "the cause"
    during = RuntimeError("while handling it")
    during.__context__ = UserError("handled")
    assert explain(during) == "handled"
    during.__suppress_context__ = True  # raise ... from None
    assert explain(during) is None


def test_config_errors_point_to_help() -> None:
    assert explain(ConfigKeyError("Key 'x' is not in struct")) == "Key 'x' is not in struct (--help lists the options)"
