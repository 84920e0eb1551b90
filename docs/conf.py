"""The documentation site: ``make docs``. Pages are Markdown, the reference comes from docstrings."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes

from effective_attention import __version__

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

project = "Effective Attention"
author = "the Effective Attention maintainers"
copyright = f"2026 {author}"
release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
pygments_style = "a11y-high-contrast-light"  # comments of "friendly" are too pale to read
pygments_dark_style = "github-dark"

myst_heading_anchors = 3
nb_execution_mode = "off"  # shown as `make notebooks` ran them

autodoc_member_order = "alphabetical"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

GATHERED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that the site has as pages, and their names there."""

_OUTWARD = re.compile(r"\[([^\]]*)\]\((?:\.\./)+((?:src|conf|scripts|benchmarks|README|LICENSE)[^)]*)\)")

_INSIDE = re.compile(r"(?<=\d) (?=[%/±]|\d{3}\b)|(?<=\d /) (?=\S?\d)|(?<=→) (?=\S?\d)")


def _named(found: re.Match[str]) -> str:
    """Name a file of the repository that is no page of the site, in place of a link to it."""
    words, file = found.groups()
    return f"`{file}`" if words.strip("`") == file else f"{words} (`{file}`)"


def _lead_inside(_app: Any, _name: str, source: list[str]) -> None:
    """Make links that lead out of the folder lead to pages of the site, where there are such."""
    text = source[0].replace("](../examples/", "](examples/")
    for file, page in GATHERED.items():
        text = text.replace(f"](../{file}", f"]({page}")
    source[0] = _OUTWARD.sub(_named, text)


def _gather(_app: Any) -> None:
    """Copy what stands outside this folder to where Sphinx looks for pages."""
    for file, page in GATHERED.items():
        text = (ROOT / file).read_text(encoding="utf-8").replace("](docs/", "](")
        text = re.sub(r"\]\((LICENSE|README.md|CHANGELOG.md|CONTRIBUTING.md)", r"](../\1", text)
        (HERE / page).write_text(text, encoding="utf-8")
    place = HERE / "examples"
    place.mkdir(exist_ok=True)
    for notebook in (ROOT / "examples").glob("*.ipynb"):
        shutil.copy(notebook, place)


def _keep_numbers_whole(_app: Any, tree: Any, _name: str) -> None:
    """Let no line of a table end inside a number: before its percent sign, after an arrow, around a slash."""
    for cell in tree.findall(nodes.entry):
        for text in list(cell.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(_INSIDE.sub("\N{NO-BREAK SPACE}", text)))


def setup(app: Any) -> None:
    """Connect the steps above."""
    app.connect("builder-inited", _gather)
    app.connect("source-read", _lead_inside)
    app.connect("doctree-resolved", _keep_numbers_whole)
