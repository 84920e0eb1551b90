"""Write what is derived from the code: the README's table of analyses, ``docs/tables.md`` and ``docs/options.md``.

    python scripts/generate_docs.py

A test compares them with what this script would write.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from options_page import options_page

from effective_attention.analyses import Analysis, Column, Schema, analysis_names, find_analysis
from effective_attention.explorer.analysis import ExplorerPage
from effective_attention.reports.chapters import CHAPTERS

ROOT = Path(__file__).resolve().parents[1]
START = "<!-- analyses: written by scripts/generate_docs.py -->"
END = "<!-- end of analyses -->"
HEAD = """# Tables

Every analysis writes one table, `tables/<analysis>.parquet` and `.csv`. This page is written from the schemas that the
analyses state (`scripts/generate_docs.py`); the runner checks every table against its schema before anybody reads it.

In front of each row the commands write what it was measured on: `task`, `model`, `data`, `split`, `checkpoint` (empty:
the pretrained model), `examples` (of the split, unless the analysis says on how many of them it looked) and `reading`
of effective attention (`exact` or `padded`).

One of our names is `null`, which CSV readers take for a missing value: read CSV files with
`pandas.read_csv(path, keep_default_na=False, na_values=[""])`, or read the Parquet files, which need no care.

A text that a spreadsheet would take for a formula (it begins with `=`, `+`, `-`, `@`, a tab or a line break; tokens do)
has an apostrophe in front of it in CSV files, as spreadsheets themselves mark text; numbers stay as they are, and the
Parquet files are exact. To take it away again:
`column.str.replace(r"^'(?='*[=+\\-@\\t\\r\\n\\uFF1D\\uFF0B\\uFF0D\\uFF20])", "", regex=True)`.

Columns marked * are the keys: no two rows of a table have the same. Numbers may be missing where nothing was counted.
"""


def readme_table() -> str:
    """Return the table of analyses, a line for each chapter."""
    lines = ["| `python evaluate.py task=… checkpoint=…` and | asks | paper |", "|---|---|---|"]
    lines += [f"| `analysis={chapter.analysis}` | {chapter.question} | {chapter.source} |" for chapter in CHAPTERS]
    return "\n".join(lines)


def tables_page() -> str:
    """Return the page that says what the columns of every table mean."""
    classes: dict[str, type[Analysis]] = {name: find_analysis(name) for name in analysis_names()}
    classes[ExplorerPage.analysis_name()] = ExplorerPage
    parts = [HEAD]
    for chapter in CHAPTERS:
        schema = classes[chapter.analysis].schema
        assert schema is not None, chapter.analysis
        parts.append(f"## {chapter.analysis}\n\n{chapter.question}\n\n{schema_table(schema)}\n")
    return "\n".join(parts)


def schema_table(schema: Schema) -> str:
    """Return a schema as a table, and its blocks as a list."""
    lines = ["| column | type | meaning | values |", "|---|---|---|---|"]
    lines += [
        f"| `{column.name}`{'*' * column.key} | {column.kind} | {column.meaning} | {allowed(column)} |"
        for column in schema.columns
    ]
    for block in schema.blocks:
        fixed = ", ".join(f"`{name}` = {_words(value)}" for name, value in block.fixed.items())
        keys = ", ".join(f"`{name}`" for name in block.keys)
        which = f"Rows with {fixed}: one for each" if fixed else "Rows for each"
        lines.append(f"\n{which} {keys}." if keys else f"\nRows with {fixed}: one.")
    return "\n".join(lines)


def _words(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else " or ".join(value)


def allowed(column: Column) -> str:
    """Say which values a column may take."""
    if column.values:
        said = ", ".join(column.values)
    elif column.low is not None or column.high is not None:
        low = "" if column.low is None else f"from {column.low:g}"
        said = f"{low} {'' if column.high is None else f'to {column.high:g}'}".strip()
    else:
        said = ""
    return f"{said}; may be empty".removeprefix("; ") if column.missing else said


def with_table(readme: str) -> str:
    """Return the README's text with the table of today's chapters."""
    before, rest = readme.split(START)
    _, after = rest.split(END)
    return f"{before}{START}\n{readme_table()}\n{END}{after}"


def main() -> None:
    """Write the three files."""
    readme = ROOT / "README.md"
    readme.write_text(with_table(readme.read_text(encoding="utf-8")), encoding="utf-8")
    (ROOT / "docs" / "tables.md").write_text(tables_page(), encoding="utf-8")
    (ROOT / "docs" / "options.md").write_text(options_page(ROOT / "conf"), encoding="utf-8")


if __name__ == "__main__":
    main()
