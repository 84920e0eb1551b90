"""The notebooks: their sources run, and what is committed beside them is made of these sources."""

import importlib.util
import json
import runpy
from pathlib import Path
from typing import Any

import matplotlib.pyplot
import pytest

from helpers.paths import ROOT

SOURCES = sorted((ROOT / "examples").glob("*.py"))
LARGEST = 600_000  # bytes of a notebook with its output: it is part of the repository


def runner() -> Any:
    spec = importlib.util.spec_from_file_location("run_notebooks", ROOT / "scripts" / "run_notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_four() -> None:
    assert [source.stem[:2] for source in SOURCES] == ["01", "02", "03", "04"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_source_runs(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXAMPLES_LIMIT", "24")
    monkeypatch.setattr(matplotlib.pyplot, "show", lambda: matplotlib.pyplot.close("all"))
    runpy.run_path(str(source))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_is_its_source_with_output(source: Path) -> None:
    file = source.with_suffix(".ipynb")
    written = file.read_text(encoding="utf-8")
    cells = json.loads(written)["cells"]
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    assert found == runner().cells_of(source.read_text(encoding="utf-8")), "run make notebooks"
    assert any(cell.get("outputs") for cell in cells)
    assert len(written) < LARGEST
    outputs = json.dumps([cell.get("outputs") for cell in cells])
    assert "stderr" not in outputs
    assert "site-packages" not in outputs


def test_a_source_is_cut_into_cells() -> None:
    source = "# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\na = 1  # %% no cell\n\n# %%\nprint(a)\n"
    assert runner().cells_of(source) == [
        ("markdown", "# Title\n\nWords."),
        ("code", "a = 1  # %% no cell"),
        ("code", "print(a)"),
    ]
