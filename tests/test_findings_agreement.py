"""The page on agreement: what is kept of the table of ``number_flip``, and its tables."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers.fake_b import number_flip

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def agreement():
    sys.path.insert(0, str(ROOT / "scripts" / "findings"))
    try:
        yield importlib.import_module("agreement")
    finally:
        sys.path.remove(str(ROOT / "scripts" / "findings"))


@pytest.fixture(scope="module")
def table():
    return number_flip(np.random.default_rng(0), 3)


def test_what_is_kept_is_the_last_layers_with_its_interval(agreement, table):
    found = agreement.kept(table)
    assert json.loads(json.dumps(found)) == found  # ready for JSON
    assert (found["layer"], found["examples"]) == (2, 100)
    assert len(found["flips"]) == 6
    assert len(found["weight"]) == 2 * 3 * 2 * 3
    rows = table[(table["quantity"] == "spearman") & (table["word"] == "subject") & (table["layer"] == 2)]
    row = rows[(rows["attention"] == "effective") & (rows["method"] == "flow")].iloc[0]
    mine = found["spearman"]["subject/effective/flow"]
    assert [mine[name] for name in ("value", "low", "high", "count")] == [row["value"], row["low"], row["high"], 90]


def test_what_was_not_measured_is_left_out_and_dashed(agreement, table):
    subjects = agreement.kept(table.assign(value=table["value"].mask(table["word"] == "attractor")))
    assert set(subjects["flips"]) == {"subject/all", "subject/right", "subject/wrong"}
    made = agreement.tables({"linzen": subjects, "grammar": agreement.kept(table)})
    lines = [line.split(" | ") for line in made["answers"].splitlines()]
    (line,) = [line for line in lines if line[0] == "| attractor exchanged, wrong before: answers that flip"]
    assert line[1] == agreement.NONE
    assert line[2].endswith(", n = 90 |")


def test_tables_have_a_column_for_each_part_measured(agreement, table):
    found = agreement.kept(table)
    made = agreement.tables({"grammar": found})
    header = made["weights"].splitlines()[0]
    assert header.count("grammar") == 2
    assert "Linzen" not in header
    assert len(made["weights"].splitlines()) == 2 + 2 * 2 * 3
    value = found["accuracy"]["value"]
    assert f"| right answers | {value:.3f} [" in made["answers"]
    even = found["weight"]["subject/all/standard/raw"]["even"]
    assert f"(even {even:.3f})" in made["weights"].splitlines()[2]


def test_a_part_trains_once_and_tests_on_its_own_sentences(agreement, table, tmp_path, monkeypatch):
    ran = []

    def run(program, folder, *options):
        ran.append((program, folder, options))
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        table.assign(reading=pd.NA).to_parquet(folder / "tables" / "number_flip.parquet")
        return folder

    monkeypatch.setattr(agreement, "run", run)
    monkeypatch.setattr(sys.modules[agreement.train.__module__], "run", run)
    (tmp_path / "agreement").mkdir()
    place = agreement.Place(tmp_path, tmp_path / "work", ("seed=3",))
    found = agreement.measure("grammar", place)
    assert found == agreement.kept(table)
    assert [program for program, *_ in ran] == ["train.py", "evaluate.py"]
    assert all("seed=3" in options for *_, options in ran)
    assert "data=sample" in ran[1][2]  # the checkpoint brings its own data otherwise
    assert "data=local" not in ran[1][2]
    agreement.measure("linzen", place)
    assert {"data=local", f"data.dir={tmp_path / 'agreement'}", "analysis.number_flip.limit=800"} <= set(ran[3][2])
    assert ran[2][:2] == ran[0][:2]  # the same training: finished, it is not run again


# --- a language model that is asked as it is ---


@pytest.fixture(scope="module")
def asked(agreement):
    return sys.modules["agreement_smollm2"]


@pytest.fixture(scope="module")
def answers():
    gold = ["singular"] * 6 + ["plural"] * 2
    return pd.DataFrame({"gold": gold, "correct": [True] * 5 + [False, True, False]})


@pytest.fixture(scope="module")
def explained():
    rows = []
    for method, attention in (("raw", "standard"), ("raw", "effective"), ("random", None)):
        for layer in (0, 1) if attention else (None,):
            for number, measure in enumerate(("subject_first", "comprehensiveness", "sufficiency", "milliseconds")):
                value = number + (0.25 if layer == 1 else 0.5)
                rows.append((attention, method, layer, measure, value, value - 0.1, value + 0.1, 7, 9))
    names = ["attention", "method", "layer", "measure", "value", "low", "high", "count", "examples"]
    return pd.DataFrame(rows, columns=names).astype({"layer": "Int64"})


def test_answers_are_counted_by_number(asked, answers):
    found = asked.accuracy(answers)
    assert (found["count"], found["singular"]) == (8, 0.75)
    assert found["all"]["value"] == 0.75
    assert found["all"]["low"] < 0.75 < found["all"]["high"]
    assert (found["gold singular"]["value"], found["gold singular"]["count"]) == (pytest.approx(5 / 6), 6)
    assert (found["gold plural"]["value"], found["gold plural"]["count"]) == (0.5, 2)


def test_explanations_keep_the_last_layer_and_the_subjects_place_in_all(asked, explained):
    found = asked.explanations(explained)
    assert json.loads(json.dumps(found)) == found
    assert found["examples"] == 9
    assert set(found["subject_first"]) == {"raw/standard", "raw/effective", "random"}
    assert found["subject_first"]["raw/standard"] == {"value": 0.25, "low": 0.15, "high": 0.35, "count": 7}
    assert found["comprehensiveness"]["random"]["value"] == 1.5
    assert "milliseconds" not in found
    assert found["subject_first_by_layer"] == {"raw/standard": [0.5, 0.25], "raw/effective": [0.5, 0.25]}


def test_a_part_asks_many_and_explains_some(agreement, asked, table, answers, explained, tmp_path, monkeypatch):
    ran = []

    def run(program, folder, *options):
        ran.append((program, folder.name, options))
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        for name, one in (("number_flip", table), ("faithfulness", explained), ("predictions", answers)):
            one.to_parquet(folder / "tables" / f"{name}.parquet")
        return folder

    monkeypatch.setattr(asked, "run", run)
    (tmp_path / "agreement").mkdir()
    place = agreement.Place(tmp_path, tmp_path / "work", ("seed=3",))
    numbers = {name: agreement.measure(name, place) for name in ("smollm2-linzen", "smollm2-grammar")}
    assert [(program, name) for program, name, _ in ran] == [
        ("evaluate.py", f"{part}-{what}") for part in numbers for what in ("answers", "explained")
    ]
    assert all({"head=verb", "model=smollm2", "split=test", "seed=3"} <= set(options) for *_, options in ran)
    assert {"limit=800", "data=local", f"data.dir={tmp_path / 'agreement'}"} <= set(ran[0][2])
    assert {"limit=100", "task.loaders.local.attractors=1"} <= set(ran[1][2])
    assert {"limit=400", "data=sample"} <= set(ran[2][2])
    assert "task.loaders.local.attractors=1" not in ran[3][2]
    assert numbers["smollm2-grammar"]["exchanged"] == agreement.kept(table)
    made = agreement.tables(numbers)
    assert len(made) == 2 + 4
    assert "| right, plural verb | 0.500 [0.000, 1.000], n = 2 |" in made["verbs"]
    lines = made["explained smollm2-linzen"].splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| raw", "standard"], ["| raw", "effective"], ["| random", agreement.NONE],
    ]  # fmt: skip
    assert lines[3].endswith(f"| {agreement.NONE} |")  # no correlation was kept
    assert "attractor exchanged, wrong before" in made["verbs exchanged"]
