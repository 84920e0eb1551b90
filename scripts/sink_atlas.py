"""Add models to the atlas of sinks, docs/sink-atlas.md, from runs that have the analysis ``sinks``.

    python evaluate.py model=smollm2 task=text data=local data.file=wiki.txt limit=40 analysis=sinks
    python scripts/sink_atlas.py runs/text/evaluate-…    # adds a line, or replaces the one of this model and data

Every number is read from the run's table; a line says on how many texts it was measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

PAGE = Path(__file__).parents[1] / "docs" / "sink-atlas.md"
START, END = "<!-- atlas: written by scripts/sink_atlas.py -->", "<!-- end of atlas -->"
HEADER = (
    "| model | data, texts | heads and texts with a sink | it is mostly | attention | effective | affine "
    "| possible with the same output | leverage, others | value norm | with norms: attention, effective, affine |"
)
ATTENTIONS = ("standard", "effective", "affine")
KINDS = {"cls": "[CLS]", "sep": "[SEP]", "first": "first token", "punctuation": "period, comma", "other": "other"}


def line_of(table: pd.DataFrame) -> str:
    """Write a run's line of the atlas."""

    def mean(quantity: str, column: str = "value", **where: str) -> float:
        rows = table[table["quantity"] == quantity]
        for name, value in where.items():
            rows = rows[rows[name] == value]
        return float(rows[column].mean())

    kinds = table[table["quantity"] == "kind"].groupby("kind")["value"].mean()
    first = table.iloc[0]
    finetuned = "" if not first["checkpoint"] or pd.isna(first["checkpoint"]) else ", finetuned"
    received = [f"{mean('received', attention=kind, place='strongest'):.3f}" for kind in ATTENTIONS]
    ends = mean("interval"), mean("interval", "low"), mean("interval", "high")
    norms = [f"{mean('correlation', measure=kind, other='norm'):.2f}" for kind in ATTENTIONS]
    cells = [
        f"{first['model']}{finetuned}",
        f"{first['task']}, {first['data']}, {int(first['examples'])}",
        f"{100 * mean('sink'):.0f} %",
        f"{KINDS[str(kinds.idxmax())]} ({100 * kinds.max():.0f} %)",
        *received,
        f"{ends[1]:.3f} to {ends[2]:.3f} (own {ends[0]:.3f})",
        f"{mean('leverage', place='strongest'):.2f}, {mean('leverage', place='others'):.2f}",
        f"{mean('value_norm', place='strongest'):.2f}",
        ", ".join(norms),
    ]
    return f"| {' | '.join(cells)} |"


def key_of(line: str) -> tuple[str, str]:
    """Return what a line is about: model, and task with data."""
    model, data = (cell.strip() for cell in line.split("|")[1:3])
    return model, data.rsplit(",", 1)[0]


def add(lines: list[str], page: str) -> str:
    """Put lines into the page's table, in the place of those about the same."""
    before, rest = page.split(START)
    table, after = rest.split(END)
    kept = {key_of(line): line for line in table.strip().splitlines()[2:]}
    kept |= {key_of(line): line for line in lines}
    rule = "|" + "---|" * HEADER.count(" |")
    return f"{before}{START}\n{HEADER}\n{rule}\n" + "\n".join(kept.values()) + f"\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="run directories of evaluate.py with analysis=sinks")
    options = parser.parse_args()
    lines = []
    for run in options.runs:
        place = run / "tables" / "sinks.parquet"
        if not place.exists():
            parser.error(f"{place} is not there; run evaluate.py with analysis=sinks first")
        lines.append(line_of(pd.read_parquet(place)))
    PAGE.write_text(add(lines, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
