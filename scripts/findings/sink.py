"""The sink: what the token that heads rest on gets in every reading of attention, model by model.

A part is a model on texts. Its numbers are means over layers, heads and texts of the table of the analysis ``sinks``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from page import Numbers, Page, Place, interval, markdown, run

ATTENTIONS = ("standard", "effective", "affine")
KINDS = {"cls": "[CLS]", "sep": "[SEP]", "first": "the first token", "punctuation": "period, comma", "other": "other"}


@dataclass(frozen=True)
class Part:
    """A model, the texts it reads, and how the page calls both."""

    name: str
    title: str
    options: tuple[str, ...]
    wiki: bool = False


def _wiki(name: str, title: str, texts: int, words: int, *options: str) -> Part:
    long = ("task=text", "data=local", "data.max_length=128", f"data.min_words={words}", f"limit={texts}")
    return Part(name, f"{title}, {texts} paragraphs of WikiText-2", (*options, *long), wiki=True)


MPNET = ("model=mpnet_base", "model.fetch=yes")
SMOLLM2 = ("model=smollm2", "model.fetch=yes")
PARTS = (
    Part("minilm-mrpc", "MiniLM, MRPC dev, 408 pairs", ("task=mrpc", "data=local")),
    _wiki("minilm-wiki", "MiniLM", 100, 30),
    Part("mpnet-mrpc", "MPNet-base, MRPC dev, 100 pairs", ("task=mrpc", "data=local", "limit=100", *MPNET)),
    _wiki("mpnet-wiki", "MPNet-base", 40, 60, *MPNET),
    _wiki("smollm2-wiki", "SmolLM2 (causal)", 40, 60, *SMOLLM2),
)


def measure(name: str, place: Place) -> Numbers:
    """Run ``sinks`` and average its table."""
    part = next(part for part in PARTS if part.name == name)
    data = (
        f"data.file={place.folder('wiki') / 'wikitext2_test.txt'}" if part.wiki else f"data.dir={place.folder('glue')}"
    )
    options = (*part.options, data, "analysis=sinks", "attention=standard", *place.options)
    folder = run("evaluate.py", place.work / PAGE.name / name, *options)
    return averages(pd.read_parquet(folder / "tables" / "sinks.parquet"))


def averages(table: pd.DataFrame) -> Numbers:
    """Average the rows of each quantity over layers and heads; ``low`` and ``high`` likewise."""

    def mean(quantity: str, **where: str) -> dict[str, float | None]:
        rows = table[table["quantity"] == quantity]
        for column, wanted in where.items():
            rows = rows[rows[column] == wanted]
        means = rows[["value", "low", "high"]].astype(float).mean()
        return {str(side): None if pd.isna(value) else float(value) for side, value in means.items()}

    kinds = table[table["quantity"] == "kind"].groupby("kind")["value"].mean()
    found: Numbers = {"texts": int(table["examples"].max()), "kind": {str(kinds.idxmax()): float(kinds.max())}}
    found["heads with a sink"] = mean("sink")
    found["largest excess"] = float(table.loc[table["quantity"] == "excess", "value"].max())
    found["received"] = {kind: mean("received", attention=kind, place="strongest") for kind in ATTENTIONS}
    found["same output"] = mean("interval")
    for quantity in ("leverage", "value_norm"):
        found[quantity] = {place: mean(quantity, place=place) for place in ("strongest", "others")}
    found["with norms"] = {kind: mean("correlation", measure=kind, other="norm") for kind in ATTENTIONS}
    found["leverage with value norm"] = mean("correlation", measure="leverage", other="value_norm")
    return found


def tables(numbers: Mapping[str, Numbers]) -> dict[str, str]:
    """Write what the sink gets, and what orders tokens as norms do."""
    shown = [part for part in PARTS if part.name in numbers]
    return {
        "received": markdown(
            ["", *(part.title for part in shown)], [[said, *cells] for said, cells in _received(shown, numbers)]
        ),
        "norms": markdown(
            ["ordered as by norms", *(part.title for part in shown)],
            [
                [said, *(_with_interval(numbers[part.name]["with norms"][kind]) for part in shown)]
                for kind, said in (
                    ("standard", "attention"),
                    ("effective", "effective attention, absolute values"),
                    ("affine", "effective attention in affine space, absolute values"),
                )
            ],
        ),
    }


def _received(shown: Sequence[Part], numbers: Mapping[str, Numbers]) -> list[tuple[str, list[str]]]:
    """Return the rows of the first table: what is said, and a cell for each part."""
    cells: dict[str, Callable[[Numbers], str]] = {
        "heads and texts with a sink (more than 0.3)": lambda found: (
            f"{100 * found['heads with a sink']['value']:.0f} %"
        ),
        "it is mostly": lambda found: _kind(found["kind"]),
        "attention": lambda found: _with_interval(found["received"]["standard"]),
        "effective attention, the papers' (`space=value`)": lambda found: _with_interval(
            found["received"]["effective"]
        ),
        "effective attention in affine space: rows sum to 1": lambda found: _with_interval(found["received"]["affine"]),
        "least and most with the same output, own weight there": lambda found: _possible(found["same output"]),
        "leverage; of the other tokens": lambda found: _pair(found["leverage"]),
        "length of its value, relative to the text's mean": lambda found: _number(found["value_norm"]["strongest"]),
        "leverage and length of values, rank correlation": lambda found: _with_interval(
            found["leverage with value norm"]
        ),
    }
    return [(said, [cell(numbers[part.name]) for part in shown]) for said, cell in cells.items()]


def _number(found: Mapping[str, Any]) -> str:
    return f"{found['value']:.2f}"


def _kind(kind: Mapping[str, float]) -> str:
    names = {
        "cls": "[CLS]",
        "sep": "[SEP]",
        "first": "the first token",
        "punctuation": "period, comma",
        "other": "other",
    }
    ((name, share),) = kind.items()
    return f"{names[name]} ({100 * share:.0f} %)"


def _with_interval(found: Mapping[str, Any]) -> str:
    return interval(found["value"], found["low"], found["high"])


def _possible(found: Mapping[str, Any]) -> str:
    return f"{found['low']:.3f} to {found['high']:.3f}, own {found['value']:.3f}"


def _pair(found: Mapping[str, Any]) -> str:
    return "; ".join(f"{found[place]['value']:.2f}" for place in ("strongest", "others"))


PAGE = Page("sink", tuple(part.name for part in PARTS), measure, tables)
