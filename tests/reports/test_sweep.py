"""The sweep's table against one computed by hand."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from effective_attention.io import write_json, write_text
from effective_attention.reports.runs import collect_facts
from effective_attention.reports.sweep import (
    mean_and_std,
    print_rows,
    summarise,
    to_csv,
    to_markdown,
    with_settings,
    write_summary,
)


def metrics(
    task: str, accuracy: float, *, seconds: float = 2.0, difference: float | None = 1e-7, **more: Any
) -> dict[str, Any]:
    return {
        "run/task": task,
        "run/model": "tiny",
        "run/data": "sample",
        "test/standard/accuracy": accuracy,
        "test/standard/seconds": seconds,
        "test/standard/examples_per_second": 100.4,
        "test/effective/accuracy": accuracy,
        "test/effective/seconds": 2 * seconds,
        "test/effective/examples_per_second": 50.2,
        "test/effective/null_space_share": 0.5,
        "test/effective/timed_batches": 9,
        "test/effective/seconds_ratio": 2.0,
        "test/effective/seconds_ratio_low": 1.75,
        "test/effective/seconds_ratio_high": 2.5,
        "test/effective/max_logit_difference": difference,
        "test/effective/changed_predictions": 0,
        **more,
    }


RUNS = [
    ("", metrics("mrpc", 0.7, seconds=1.0, difference=2e-7)),
    ("", metrics("mrpc", 0.8, seconds=3.0, difference=3e-8)),
    ("", metrics("rte", 0.5)),
]


def test_mean_and_sample_standard_deviation_by_hand() -> None:
    assert mean_and_std([0.7, 0.8], digits=3) == "0.750 ± 0.071"  # sqrt(2 · 0.05² / 1)
    assert mean_and_std([1.0, 2.0, 6.0], digits=2) == "3.00 ± 2.65"  # sqrt((4 + 1 + 9) / 2)
    assert mean_and_std([0.25], digits=1) == "0.2"
    assert mean_and_std([0.5, float("nan")], digits=1) == mean_and_std([None, 1.0], digits=1) == "undefined"


def test_rows_by_hand() -> None:
    common = {"model": "tiny", "data": "sample", "setting": ""}
    standard, effective, *rte = summarise(RUNS)
    assert standard == {
        **common, "task": "mrpc", "attention": "standard", "seeds": "2", "accuracy": "0.750 ± 0.071",
        "seconds": "2.0 ± 1.4", "examples/s": "100 ± 0", "logit difference": "",
    }  # fmt: skip
    assert effective == {
        **common, "task": "mrpc", "attention": "effective", "seeds": "2", "accuracy": "0.750 ± 0.071",
        "seconds": "4.0 ± 2.8", "examples/s": "50 ± 0", "ratio": "2.00 ± 0.00", "quartiles": "1.75 to 2.50",
        "logit difference": "2.0e-07",
    }  # fmt: skip
    assert [row["attention"] for row in rte] == ["standard", "effective"]
    assert (rte[0]["accuracy"], rte[0]["seeds"]) == ("0.500", "")


def test_settings_models_and_data_are_kept_apart() -> None:
    runs = [
        ("a=1", metrics("mrpc", 0.1)),
        ("a=2", metrics("mrpc", 0.2)),
        ("a=1", metrics("mrpc", 0.3) | {"run/model": "minilm"}),
        ("a=1", metrics("mrpc", 0.4) | {"run/data": "hub"}),
    ]
    assert [row["accuracy"] for row in summarise(runs) if row["attention"] == "standard"] == [
        "0.100",
        "0.200",
        "0.300",
        "0.400",
    ]


def test_undefined_values_do_not_end_a_summary() -> None:
    (_, effective) = summarise([("", metrics("stsb", None, difference=None))])  # type: ignore[arg-type]
    assert effective["accuracy"] == "undefined"
    assert effective["logit difference"] == "undefined"
    nan = float("nan")
    assert summarise([("", metrics("stsb", nan, difference=nan))])[1] == effective


def test_csv_content() -> None:
    rows = summarise(RUNS)
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert list(read[0]) == [
        "task", "model", "data", "attention", "seeds", "accuracy", "seconds", "examples/s", "ratio", "quartiles",
        "logit difference",
    ]  # fmt: skip
    assert [row["accuracy"] for row in read] == ["0.750 ± 0.071", "0.750 ± 0.071", "0.500", "0.500"]
    assert read[0]["ratio"] == ""
    assert read[1]["logit difference"] == "2.0e-07"


def test_a_setting_is_no_formula_for_a_spreadsheet() -> None:
    rows = summarise([("+model.dropout=0", metrics("stsb", -0.25)), ("seed=1", metrics("mrpc", 0.5))])
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert [row["setting"] for row in read[::2]] == ["'+model.dropout=0", "seed=1"]
    assert read[0]["accuracy"] == "-0.250"  # a number stays one


def test_tasks_with_other_metrics_share_a_table() -> None:
    stsb = {name.replace("accuracy", "pearson"): value for name, value in metrics("stsb", 0.9).items()}
    read = list(csv.DictReader(io.StringIO(to_csv(summarise([("", metrics("rte", 0.5)), ("", stsb)])))))
    assert [(row["accuracy"], row["pearson"]) for row in read] == [("0.500", "")] * 2 + [("", "0.900")] * 2
    assert list(read[0]).index("pearson") < list(read[0]).index("seconds")


def test_markdown_content() -> None:
    lines = to_markdown(summarise(RUNS[:1])).splitlines()
    assert lines == [
        "| task | model | data | attention | accuracy | seconds | examples/s | ratio | quartiles | logit difference |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| mrpc | tiny | sample | standard | 0.700 | 1.0 | 100 |  |  |  |",
        "| mrpc | tiny | sample | effective | 0.700 | 2.0 | 50 | 2.00 | 1.75 to 2.50 | 2.0e-07 |",
    ]


def test_a_pipe_in_a_cell_does_not_break_the_table() -> None:
    row = summarise([("note=a|b", metrics("mrpc", 0.7))])[:1]
    lines = to_markdown(row).splitlines()
    assert {line.count("|") for line in lines} == {lines[0].count("|")}
    assert "note=a/b" in lines[2]
    assert next(csv.DictReader(io.StringIO(to_csv(row))))["setting"] == "note=a|b"


def test_printed_table_cuts_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_rows(summarise(RUNS), title="Sweep")
    out = capsys.readouterr().out
    assert "0.750 ± 0.071" in out
    assert "2.0e-07" in out
    assert "…" not in out


# --- from the folder of a sweep ---


def write_run(folder: Path, name: str, overrides: list[str], values: dict[str, Any] | None) -> None:
    write_text(folder / name / ".hydra" / "overrides.yaml", OmegaConf.to_yaml(overrides))
    if values is not None:
        write_json(folder / name / "metrics.json", values)


def test_read_runs_leaves_out_what_did_not_finish(tmp_path: Path) -> None:
    write_run(tmp_path, "0", ["task=mrpc", "seed=1", "data.max_length=64"], metrics("mrpc", 0.7))
    write_run(tmp_path, "1", ["task=mrpc", "seed=2", "data.max_length=64"], None)
    write_run(tmp_path, "2", ["task=rte", "seed=1"], metrics("rte", 0.5))
    assert with_settings(collect_facts(tmp_path)) == [
        ("data.max_length=64", metrics("mrpc", 0.7)),
        ("", metrics("rte", 0.5)),
    ]


def test_only_what_was_varied_is_shown(tmp_path: Path) -> None:
    for number, length in enumerate((64, 128)):
        write_run(tmp_path, str(number), ["model=tiny", f"data.max_length={length}", "seed=1"], metrics("mrpc", 0.7))
    assert [setting for setting, _ in with_settings(collect_facts(tmp_path))] == [
        "data.max_length=64",
        "data.max_length=128",
    ]


def test_runs_without_a_record_of_their_options_are_read_too(tmp_path: Path) -> None:
    write_json(tmp_path / "by-hand" / "metrics.json", metrics("mrpc", 0.7))
    assert with_settings(collect_facts(tmp_path)) == [("", metrics("mrpc", 0.7))]


def test_runs_from_several_folders_are_counted_once(tmp_path: Path) -> None:
    for place, accuracy in (("a/0", 0.7), ("b/0", 0.8)):
        write_run(tmp_path, place, ["task=mrpc"], metrics("mrpc", accuracy))
    rows = write_summary(collect_facts(tmp_path / "a", tmp_path / "b", tmp_path), to=tmp_path / "out")
    assert rows == summarise([("", metrics("mrpc", accuracy)) for accuracy in (0.7, 0.8)])
    assert (tmp_path / "out" / "summary.csv").read_text() == to_csv(rows)
    assert (tmp_path / "out" / "summary.md").read_text() == to_markdown(rows)


def test_no_run_no_summary(tmp_path: Path) -> None:
    assert write_summary(collect_facts(tmp_path), to=tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_refused_command_does_not_rename_the_setting_of_a_run(tmp_path: Path) -> None:
    """Hydra writes its files before we refuse; what the run was given stands in its config."""
    for name in ("a=1", "a=2"):
        write_run(tmp_path, name, ["a=3"], metrics("mrpc", 0.7))
        write_text(tmp_path / name / "config.yaml", f'# options: ["{name}"]\nseed: 0\n')
    assert [setting for setting, _ in with_settings(collect_facts(tmp_path))] == ["a=1", "a=2"]


def test_a_spoilt_record_of_options_counts_as_none(tmp_path: Path) -> None:
    write_run(tmp_path, "0", ["task=mrpc"], metrics("mrpc", 0.7))
    write_text(tmp_path / "0" / "config.yaml", "# options: nonsense\n")
    assert with_settings(collect_facts(tmp_path)) == [("", metrics("mrpc", 0.7))]


def test_a_run_that_cannot_be_read_is_named_and_the_others_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_json(tmp_path / "0" / "metrics.json", {"run/task": 5})
    write_json(tmp_path / "1" / "metrics.json", metrics("mrpc", 0.7))
    assert list(collect_facts(tmp_path)) == [tmp_path / "1"]
    assert f"left out: {tmp_path / '0' / 'metrics.json'} holds no results" in caplog.text


def test_brackets_in_options_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"task": "custom", "options": "task.text_columns=[text]"}], title="custom: [b] on data")
    out = capsys.readouterr().out
    assert "task.text_columns=[text]" in out
    assert "custom: [b] on data" in out
