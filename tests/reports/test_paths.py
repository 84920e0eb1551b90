"""Nothing of the author's folders goes away with a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from effective_attention.reports.paths import model_name, without_folders
from effective_attention.reports.report import write_report
from effective_attention.reports.runs import RunResults

Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("minilm", "minilm"),
        ("and/or", "and/or"),
        ("outputs/train/1", "outputs/train/1"),
        ("0.5 / 2", "0.5 / 2"),
        ("‖null‖ / ‖attention‖", "‖null‖ / ‖attention‖"),
        ("/x", "/x"),
        ("/home/anna/secret/runs/3", "…/runs/3"),
        ("use /home/anna/a/b, then D:\\anna\\b\\c\\d.ckpt", "use …/b, then …/c/d.ckpt"),
        ("~/runs/first", "…/first"),
        ("\\\\server\\share\\models\\my-bert", "…/my-bert"),
    ],
)
def test_only_absolute_paths_are_shortened(text: str, shown: str) -> None:
    assert without_folders(text) == shown


def test_a_folder_is_known_by_its_last_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models" / "my-bert").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert model_name("models/my-bert") == model_name("./models/my-bert") == model_name("my-bert") == "my-bert"
    assert model_name(str(tmp_path / "models" / "my-bert")) == "my-bert"
    assert model_name("google-bert/bert-base-cased") == "google-bert/bert-base-cased"


def test_a_report_names_no_folder_of_the_author(makers: tuple[Make, Make], tmp_path: Path) -> None:
    tables, facts = makers
    place = "/home/anna/secret/runs/mrpc"
    wanted = {
        name: table for name, table in tables(checkpoint=place, model=place).items() if name in ("timing", "heatmap")
    }
    note = f"embedded model; for the real thing: python train.py checkpoint={place}"
    run = RunResults(
        facts(**{"run/checkpoint": f"{place}/checkpoints/last.ckpt", "run/model": place, "run/note": note}),
        wanted,
        "../../../anna/secret/runs/mrpc",
    )
    write_report(tmp_path / "report.html", [run])
    page = unquote((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "anna" not in page
    assert "…/mrpc/checkpoints/last.ckpt" in page
