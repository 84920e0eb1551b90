"""The report over a sweep's folder: which runs it reads, and what it leaves there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from effective_attention.errors import UserError
from effective_attention.io import write_json, write_text
from effective_attention.reports.report import report_on
from effective_attention.reports.runs import collect_facts, collect_runs, combine
from effective_attention.run.report import main

Make = Callable[..., dict[str, Any]]
TASKS = ("rte", "mrpc", "stsb")


def write_run(folder: Path, facts: dict[str, Any], tables: dict[str, Any]) -> None:
    write_json(folder / "metrics.json", facts)
    for name, table in tables.items():
        (folder / "tables").mkdir(exist_ok=True)
        table.to_parquet(folder / "tables" / f"{name}.parquet", index=False)


def test_runs_are_read_in_the_order_of_their_jobs(makers: tuple[Make, Make], tmp_path: Path) -> None:
    tables, facts = makers
    for job, task in (("10", "stsb"), ("2", "mrpc"), ("deep/1", "rte")):
        write_run(tmp_path / job, facts(task), {"timing": tables(task)["timing"]})
    (tmp_path / "3").mkdir()  # did not finish
    runs = collect_runs(collect_facts(tmp_path), to=tmp_path)
    assert [(run.name, run.facts["run/task"]) for run in runs] == [("2", "mrpc"), ("10", "stsb"), ("deep/1", "rte")]
    import pandas as pd

    pd.testing.assert_frame_equal(runs[0].tables["timing"], tables("mrpc")["timing"])
    assert combine(runs)["timing"]["run"].tolist() == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize("name", ["metrics.json", "tables/timing.parquet"])
def test_a_broken_run_is_named_and_the_others_are_reported(
    name: str, makers: tuple[Make, Make], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for job in ("0", "1"):
        write_run(tmp_path / job, makers[1](), {"timing": makers[0]()["timing"]})
    write_text(tmp_path / "0" / name, "{ broken")
    runs = collect_runs(collect_facts(tmp_path), to=tmp_path)
    assert [run.name for run in runs] == ["1"]
    (line,) = caplog.messages
    assert re.match(f"left out.*: {re.escape(str(tmp_path / '0' / name))} is no .* run this job again", line)


def test_a_sweep_ends_with_a_report_over_its_tasks(
    makers: tuple[Make, Make], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, facts = makers
    for index, task in enumerate(TASKS):
        write_run(tmp_path / str(index), facts(task), {"timing": tables(task)["timing"]})
    report_on(collect_facts(tmp_path), to=tmp_path)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(f">{ratio}</td>" in html for ratio in ("2.00", "1.93", "2.03"))  # the paper's, for the three tasks
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["timing.png", "timing.svg"]
    assert f"report over 3 runs: {tmp_path / 'report.html'}" in capsys.readouterr().out


def test_a_sweep_without_tables_has_no_report(makers: tuple[Make, Make], tmp_path: Path) -> None:
    write_run(tmp_path / "0", makers[1](), {})
    report_on(collect_facts(tmp_path), to=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_runs_that_were_no_sweep(makers: tuple[Make, Make], tmp_path: Path) -> None:
    write_run(tmp_path / "by-hand" / "mrpc", makers[1]("mrpc"), {"timing": makers[0]("mrpc")["timing"]})
    main([str(tmp_path)])
    assert (tmp_path / "report.html").is_file()


def test_runs_from_several_folders_in_one_report(makers: tuple[Make, Make], tmp_path: Path) -> None:
    for task in TASKS:
        write_run(tmp_path / task / "0", makers[1](task), {"timing": makers[0](task)["timing"]})
    folders = [str(tmp_path / task) for task in TASKS]
    with pytest.raises(UserError, match="none to write to; add --to"):
        main(folders)
    main([*folders, "--to", str(tmp_path / "out")])
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert all(f">../{task}/0</td>" in html for task in TASKS)
    assert (tmp_path / "out" / "summary.csv").is_file()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["empty"], "empty: no finished run"),
        (["no such"], "no such: no such folder"),
        (["file"], "file: is a file; name folders"),
        (["empty", "--to", "file"], "--to file: is a file; name a folder"),
    ],
)
def test_a_wrong_folder_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").write_text("")
    with pytest.raises(UserError, match=f"^{line}"):
        main(arguments)


def test_the_callback_costs_no_start_up_time() -> None:
    heavy = "pandas", "matplotlib", "jinja2", "numpy", "torch"
    code = f"import sys, effective_attention.run.sweeps; print(sorted(set({heavy!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
