"""Names on pages that people send away: without the folders of the machine they were made on."""

from pathlib import Path

import pytest

from effective_attention.reports.paths import model_name, without_folders


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("", ""),
        ("tiny", "tiny"),
        ("google-bert/bert-base-cased", "google-bert/bert-base-cased"),
        ("runs/mrpc/first", "runs/mrpc/first"),
        ("/home/ada/runs/mrpc/first/", "…/mrpc/first"),
        ("/home/ada/runs/mrpc/first/checkpoints/last.ckpt", "…/first/checkpoints/last.ckpt"),
        ("~/runs/first", "…/first"),
        ("C:\\Users\\ada\\my-bert", "…/my-bert"),
        ("\\\\server\\share\\models\\my-bert", "…/my-bert"),
        ("finetuned", "finetuned"),
    ],
)
def test_places(place: str, expected: str) -> None:
    assert without_folders(place) == expected


def test_a_folder_is_known_by_its_last_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models" / "my-bert").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert model_name("models/my-bert") == model_name("./models/my-bert") == model_name("my-bert") == "my-bert"
    assert model_name(str(tmp_path / "models" / "my-bert")) == "my-bert"
    assert model_name("google-bert/bert-base-cased") == "google-bert/bert-base-cased"
