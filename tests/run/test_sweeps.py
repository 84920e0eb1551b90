"""Sweeps: names of folders, the summary after every job, failures, and three launchers for real."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import JobReturn
from hydra.types import RunMode
from omegaconf import OmegaConf

from effective_attention.io import write_json, write_text
from effective_attention.reports.sweep import mean_and_std
from effective_attention.run.jobs import FAILED
from effective_attention.run.sweeps import Sweep, failed_jobs
from helpers.paths import ROOT

FACTS = {"run/task": "mrpc", "run/model": "tiny", "run/data": "sample", "test/standard/accuracy": 0.5}


def config(folder: Path, mode: RunMode = RunMode.MULTIRUN, **hydra: Any) -> Any:
    return OmegaConf.create({"hydra": {"mode": mode, "sweep": {"dir": str(folder)}, **hydra}})


@pytest.mark.parametrize(("mode", "written"), [(RunMode.MULTIRUN, True), (RunMode.RUN, False)])
def test_every_job_of_a_sweep_updates_the_summary(mode: RunMode, written: bool, tmp_path: Path) -> None:
    write_json(tmp_path / "0" / "metrics.json", FACTS)
    Sweep().on_job_end(config(tmp_path, mode), JobReturn())
    assert (tmp_path / "summary.csv").exists() == (tmp_path / "summary.md").exists() == written


def test_a_sweep_without_a_finished_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Sweep().on_multirun_end(config(tmp_path))
    assert "no finished run" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_what_failed_is_told_at_the_end_and_ends_with_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "0_seed=0" / "metrics.json", FACTS)
    write_text(tmp_path / "1_seed=1" / FAILED, "the disk is full\nTraceback")
    (tmp_path / "2_seed=2").mkdir()
    with pytest.raises(SystemExit) as ended:
        Sweep().on_multirun_end(config(tmp_path))
    assert ended.value.code == 1
    printed = capsys.readouterr()
    assert "0.500" in printed.out
    assert printed.err.splitlines() == [
        "2 of 3 jobs failed:",
        "  1_seed=1: the disk is full",
        "  2_seed=2: ended without a result: killed, or still running",
    ]


def test_what_an_earlier_sweep_left_in_the_folder_is_not_counted(tmp_path: Path) -> None:
    write_text(tmp_path / "0_seed=9" / FAILED, "the disk is full")
    os.utime(tmp_path / "0_seed=9", (1, 1))
    assert failed_jobs(tmp_path, since=1000) == {}
    for job in ("10_seed=1", "2_seed=0"):
        write_text(tmp_path / job / FAILED, "no")
    assert list(failed_jobs(tmp_path, since=1000)) == ["2_seed=0", "10_seed=1"]


def test_what_all_jobs_share_is_left_out_of_their_names(tmp_path: Path) -> None:
    overrides = {
        "task": ["task=rte,mrpc", "seed=1", "+foo=2", "data.dir=a/b", "split=range(1,3)"],
        "hydra": [],
    }
    sweep = config(tmp_path, overrides=overrides)
    Sweep().on_multirun_start(sweep)
    assert sweep.hydra.overrides.hydra == [
        "hydra.job.config.override_dirname.exclude_keys=[seed,foo,data.dir]",
    ]


SMALL = (
    "model=tiny", "trainer=cpu", "trainer.max_epochs=1", "trainer.enable_progress_bar=false", "data.limit_train=16",
    "data.limit_eval=8", "logger=csv",
)  # fmt: skip


def sweep(
    tmp_path: Path, *overrides: str, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path / "sweep"
    places = [f"data.token_cache={tmp_path / 'tokens'}", f"hydra.sweep.dir={folder}"]
    command = [sys.executable, "train.py", "-m", *overrides, *SMALL, *places]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done, folder


def test_a_real_sweep_ends_with_one_table(tmp_path: Path) -> None:
    done, folder = sweep(tmp_path, "task=mrpc,stsb", "seed=1,2")
    assert done.returncode == 0, done.stderr
    jobs = sorted(path for path in folder.iterdir() if path.name[0].isdigit())
    assert [path.name for path in jobs] == [
        "0_seed=1,task=mrpc", "1_seed=2,task=mrpc", "2_seed=1,task=stsb", "3_seed=2,task=stsb",
    ]  # fmt: skip
    runs = [json.loads((job / "metrics.json").read_text()) for job in jobs]
    assert [(run["run/task"], run["run/seed"]) for run in runs] == [("mrpc", 1), ("mrpc", 2), ("stsb", 1), ("stsb", 2)]
    rows = list(csv.DictReader((folder / "summary.csv").open(encoding="utf-8", newline="")))
    assert [(row["task"], row["attention"], row["seeds"]) for row in rows] == [
        (task, attention, "2") for task in ("mrpc", "stsb") for attention in ("standard", "effective")
    ]
    scores = [run["test/effective/accuracy"] for run in runs[:2]]
    assert rows[1]["accuracy"] == mean_and_std(scores, digits=3)
    assert rows[1]["accuracy"] in done.stdout
    assert len((folder / "summary.md").read_text(encoding="utf-8").splitlines()) == 2 + 4
    assert done.stdout.count("Sweep, mean ± std") == 1


@pytest.mark.parametrize("launcher", [("basic",), ("joblib", "hydra.launcher.n_jobs=2"), ("submitit_local",)])
def test_a_sweep_goes_on_after_a_job_that_fails(launcher: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="the launchers of the extra `sweep`")
    name, *options = launcher
    done, folder = sweep(tmp_path, "data.max_length=4,64", "analysis=none", f"hydra/launcher={name}", *options)
    assert done.returncode == 1
    assert list(failed_jobs(folder)) == ["0_data.max_length=4"]
    assert [path.name for path in (folder / "0_data.max_length=4").iterdir()] == [FAILED]
    assert "1 of 2 jobs failed:\n  0_data.max_length=4: data.max_length" in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "1_data.max_length=64" / "metrics.json").is_file()
    assert (folder / "summary.csv").is_file()


def test_the_slurm_launcher_submits_the_script_that_was_asked_for(tmp_path: Path) -> None:
    """A fake ``sbatch`` keeps the script and refuses it, as a cluster does with a wrong partition."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="the launchers of the extra `sweep`")
    tools = {"sbatch": f'cp "$1" {tmp_path}/script.sh\necho "sbatch: error: invalid partition" >&2\nexit 1', "srun": ""}
    for name, lines in tools.items():
        write_text(tmp_path / "bin" / name, f"#!/bin/sh\n{lines}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    options = ["partition=gpu", "gpus_per_node=2", "tasks_per_node=2", "timeout_min=90", "array_parallelism=2"]
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    launcher = ["hydra/launcher=submitit_slurm", *(f"hydra.launcher.{option}" for option in options)]
    done, _ = sweep(tmp_path, "seed=range(0,4)", *launcher, environment={**os.environ, "PATH": path})
    script = (tmp_path / "script.sh").read_text()
    for line in ("partition=gpu", "gpus-per-node=2", "ntasks-per-node=2", "time=90", "array=0-3%2"):
        assert f"#SBATCH --{line}\n" in script
    assert done.returncode == 2
    assert "\nerror: sbatch: error: invalid partition (hydra.launcher" in f"\n{done.stderr}"
    assert "Traceback" not in done.stderr
