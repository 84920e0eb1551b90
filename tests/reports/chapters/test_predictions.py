"""The model's answers: confusions, the most confident mistakes, answers that are numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from effective_attention.reports.chapters import CHAPTERS, TESTED, all_chapters, register
from effective_attention.reports.chapters.predictions import (
    CHAPTER,
    confusion,
    distances,
    found_answers,
    furthest_answers,
    most_confident_mistakes,
)
from effective_attention.reports.grid import NONE
from effective_attention.reports.measured import measured
from effective_attention.reports.report import write_report
from effective_attention.reports.runs import RunResults, combine


def answers(*rows: tuple[str, str, float]) -> pd.DataFrame:
    """Make the table that testing writes, of (label, answer, probability)."""
    table = pd.DataFrame(rows, columns=["gold", "predicted", "probability"])
    table.insert(0, "example", range(len(table)))
    table.insert(1, "text", [f"text {place}" for place in range(len(table))])
    return table.assign(correct=table["gold"] == table["predicted"])


def signed(*tables: pd.DataFrame, tasks: tuple[str, ...] = ("mrpc",), **facts: Any) -> pd.DataFrame:
    """Put tables together as a report does, each from a run of its own."""
    runs = [
        RunResults({"run/task": task, "run/model": "m", "run/data": "local", **facts}, {"predictions": table})
        for task, table in zip(tasks, tables, strict=True)
    ]
    return combine(runs)["predictions"]


FOUR = answers(("no", "yes", 0.9), ("yes", "yes", 0.6), ("no", "no", 0.8), ("yes", "no", 0.95))


def test_confusions_and_how_often_each_label_is_right() -> None:
    grid = confusion(signed(FOUR))
    assert grid.columns == ["task", "label", "examples", "no", "yes", "right"]
    assert grid.rows == [["MRPC", "no", "2", "1", "1", "0.500"], ["MRPC", "yes", "2", "1", "1", "0.500"]]
    assert sum(columns for _, columns in grid.groups) == len(grid.columns)


def test_labels_of_another_task_are_dashes() -> None:
    other = answers(("good", "good", 0.7))
    rows = confusion(signed(FOUR, other, tasks=("mrpc", "sst2"))).rows
    assert rows[-1] == ["SST-2", "good", "1", NONE, NONE, "1", "1.000"]


def test_the_most_confident_mistakes_come_first_with_their_texts() -> None:
    long = FOUR.assign(text="word " * 200, text_pair="the other half")
    grid = most_confident_mistakes(signed(long))
    assert [(row[1], row[3], row[4], row[5]) for row in grid.rows] == [
        ("3", "yes", "no", "0.950"),
        ("0", "no", "yes", "0.900"),
    ]
    assert grid.rows[0][2].endswith("…\nthe other half")
    assert len(grid.rows[0][2]) < 300
    many = answers(*[("no", "yes", place / 100) for place in range(50, 90)])
    assert len(most_confident_mistakes(signed(many)).rows) == 10


def test_answers_that_are_numbers_have_distances_and_no_confusions() -> None:
    table = FOUR.drop(columns=["correct", "probability"]).assign(
        gold=[1.0, 2.0, 3.0, 4.0], predicted=[1.0, 2.5, 3.0, 1.0]
    )
    made = signed(table, tasks=("stsb",))
    assert confusion(made).rows == most_confident_mistakes(made).rows == []
    assert distances(made).rows == [["STS-B", "4", "0.875", "3.000", "0.105"]]
    assert [row[1] for row in furthest_answers(made).rows][:2] == ["3", "1"]
    assert found_answers(made) == ["Answers are 0.88 from the right number on average."]
    beside = signed(FOUR, table, tasks=("mrpc", "stsb"))
    assert [row[0] for row in confusion(beside).rows] == ["MRPC", "MRPC"]
    assert [row[0] for row in distances(beside).rows] == ["STS-B"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [("no", "no", 0.9), ("no", "no", 0.9), ("yes", "yes", 0.9)],
            "3 of 3 answers are right (100 %), more than if all",
        ),
        (
            [("no", "yes", 0.9), ("no", "yes", 0.9), ("yes", "no", 0.9)],
            "0 of 3 answers are right (0 %), fewer than if all",
        ),
        ([("no", "no", 0.9), ("no", "no", 0.9), ("yes", "no", 0.9)], "as many as if all were “no” (67 %)."),
        ([("no", "no", 0.9), ("yes", "no", 0.9)], "Every answer is “no”."),
        ([("no", "no", 0.9), ("yes", "yes", 0.9)], "There is no mistake."),
        ([("no", "yes", 0.9), ("yes", "yes", 0.9), ("no", "no", 0.9)], "mistake is “yes” for “no” (1 of 1 mistakes)."),
    ],
)
def test_what_was_found_turns_with_the_answers(rows: list[tuple[str, str, float]], said: str) -> None:
    assert said in " ".join(found_answers(signed(answers(*rows))))


def test_the_chapter_follows_the_scores_and_belongs_to_no_analysis(tmp_path: Path) -> None:
    facts = {"run/task": "mrpc", "run/model": "m", "run/data": "local", "run/head": "random"}
    facts |= {"test/standard/accuracy": 0.5, "data/validation/examples": 4}
    write_report(tmp_path / "report.html", [RunResults(facts, {"predictions": FOUR})])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.index('id="scores"') < page.index('id="predictions"')
    assert "The classification head is random in these runs" in page
    assert "What does the model answer, and where is it wrong?" in page
    assert "Measured on validation examples (MRPC 4), m (pretrained), data from local files." in page
    assert CHAPTER in TESTED
    assert CHAPTER not in CHAPTERS
    assert all_chapters()[0] is CHAPTER
    with pytest.raises(ValueError, match="'predictions' is an analysis of effective-attention"):
        register(CHAPTER)


def test_a_run_that_was_trained_here_is_finetuned() -> None:
    assert "m (finetuned)" in measured(signed(FOUR, **{"val/loss": 0.1}))
