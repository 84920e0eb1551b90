"""Run the sources of the notebooks in ``examples/`` and write them, with what they print and draw, as notebooks.

    python scripts/run_notebooks.py [01_first_look ...]      # needs the extra `docs`; make notebooks

A source is a Python file in the percent format: ``# %%`` begins a cell of code, ``# %% [markdown]`` one of text.
Sources are what is reviewed; the notebooks are made of them, and a test holds the two together.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "examples"
_CELL = re.compile(r"^# %%( \[markdown\])?\n", flags=re.MULTILINE)
_KEPT = ("text/html", "image/png", "text/plain")


def cells_of(source: str) -> list[tuple[str, str]]:
    """Cut a source into its cells: ``markdown`` or ``code``, and the text.

    >>> cells_of("# %% [markdown]\\n# # Title\\n#\\n# Words.\\n\\n# %%\\nprint(1)\\n")
    [('markdown', '# Title\\n\\nWords.'), ('code', 'print(1)')]
    """
    _, *parts = _CELL.split(source)
    cells = []
    for mark, text in zip(parts[::2], parts[1::2], strict=True):
        plain = text.strip()
        cells.append(("markdown", re.sub(r"^# ?", "", plain, flags=re.MULTILINE)) if mark else ("code", plain))
    return cells


def notebook_of(source: str) -> Any:
    """Return a source as a notebook without output, its cells numbered."""
    import nbformat.v4 as v4

    makers = {"markdown": v4.new_markdown_cell, "code": v4.new_code_cell}
    cells = [makers[kind](text, id=f"cell-{number}") for number, (kind, text) in enumerate(cells_of(source))]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def trim(notebook: Any) -> None:
    """Keep what cells print and show; leave out progress bars, warnings and times, which differ from run to run."""
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type != "code":
            continue
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if "data" in output:
                output.data = {kind: output.data[kind] for kind in _KEPT if kind in output.data}


def run(source: Path) -> None:
    """Run one source in a folder of its own, and write its notebook beside it."""
    import nbformat
    from nbclient import NotebookClient

    notebook = notebook_of(source.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    trim(notebook)
    nbformat.write(notebook, source.with_suffix(".ipynb"))


def main(names: list[str]) -> None:
    """Run the named sources, or all."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for source in sorted(FOLDER.glob("*.py")):
        if not names or source.stem in names:
            print(source.stem, flush=True)
            run(source)


if __name__ == "__main__":
    main(sys.argv[1:])
