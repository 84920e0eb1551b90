"""Finished tables are not computed again when a run is resumed, unless something they depend on has changed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from effective_attention.analyses.distance import Distance
from effective_attention.analyses.token_types import TokenTypes
from effective_attention.errors import UserError
from effective_attention.run.analysing import AnalysisResults
from effective_attention.run.experiment import evaluate

Compose = Callable[..., Any]
OPTIONS = ("analysis=[token_types,distance,timing]", "attention=standard")


class Counted:
    """Which tables were computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tables: list[str] = []
        for kind in (TokenTypes, Distance):
            self._wrap(monkeypatch, kind)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
        real = kind.update

        def update(analysis: Any, trace: Any) -> None:
            name = kind.analysis_name()
            if name not in self.tables:
                self.tables.append(name)
            real(analysis, trace)

        monkeypatch.setattr(kind, "update", update)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


@pytest.fixture(scope="module")
def evaluated(trained: Any, composer: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluate, but lose one of the tables, as if the run had been killed before it."""
    folder = tmp_path_factory.mktemp("evaluated")
    with pytest.MonkeyPatch.context() as patch:
        counted = Counted(patch)
        evaluate(composer("evaluate", folder, *OPTIONS, f"checkpoint={trained.folder}"))
    assert counted.tables == ["token_types", "distance"]
    (folder / "run" / "tables" / "distance.parquet").unlink()
    return folder / "run"


@pytest.fixture
def first(trained: Any, evaluated: Path, tmp_path: Path) -> list[str]:
    """Return how to go on with an evaluation that was stopped."""
    shutil.copytree(evaluated, tmp_path / "run")
    return [*OPTIONS, f"checkpoint={trained.folder}", f"resume={tmp_path / 'run'}"]


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out figures and the report, which take longer than all the rest."""
    monkeypatch.setattr(AnalysisResults, "write", lambda *_: None)


def test_only_what_is_missing_is_computed(first: list[str], compose: Compose, counted: Counted, tmp_path: Path) -> None:
    kept = tmp_path / "run" / "tables" / "token_types.parquet"
    before = kept.stat().st_mtime_ns
    evaluate(compose("evaluate", *first))
    assert counted.tables == ["distance"]
    assert kept.stat().st_mtime_ns == before
    assert (tmp_path / "run" / "report.html").is_file()
    found = sorted(path.stem for path in kept.parent.glob("*.parquet"))
    assert found == ["distance", "predictions", "timing", "token_types"]


@pytest.mark.usefixtures("no_figures")
def test_into_another_folder(first: list[str], compose: Compose, counted: Counted, tmp_path: Path) -> None:
    evaluate(compose("evaluate", *first, f"run_dir={tmp_path / 'new'}"))
    assert counted.tables == ["distance"]
    one, other = (pd.read_parquet(tmp_path / name / "tables" / "token_types.parquet") for name in ("run", "new"))
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("change", ["analysis.token_types.layer=0", "reading=padded"])
def test_what_depends_on_a_change_is_computed(
    change: str, first: list[str], compose: Compose, counted: Counted
) -> None:
    evaluate(compose("evaluate", *first, change))
    assert set(counted.tables) == {"token_types", "distance"}


@pytest.mark.usefixtures("no_figures")
def test_without_resume_everything_is_computed(first: list[str], compose: Compose, counted: Counted) -> None:
    evaluate(compose("evaluate", *first[:-1]))
    assert counted.tables == ["token_types", "distance"]


def test_another_evaluation_is_refused(first: list[str], compose: Compose, trained: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.limit_eval=9 contradicts resume="):
        evaluate(compose("evaluate", *first, "data.limit_eval=9"))
    with pytest.raises(UserError, match=r"a run of train\.py; look at it with checkpoint="):
        evaluate(compose("evaluate", *first[:-1], f"resume={trained.folder}"))
    with pytest.raises(UserError, match="no run directory with a config"):
        evaluate(compose("evaluate", *first[:-1], f"resume={tmp_path / 'nothing'}"))
