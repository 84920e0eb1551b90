"""Do conclusions about rollout and flow survive the protocol? MiniLM finetuned on three tasks.

A part is one task: trained (a killed training is resumed), then evaluated by the analysis ``protocols``. Kept are the
last layer's agreements and paired differences by every protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from page import Numbers, Page, Place, interval, markdown, metrics, run, train

from effective_attention.analyses.protocols import DIFFERENCES, METHODS, REFERENCES
from effective_attention.reports.chapters.protocols.reductions import (
    CONCLUSIONS,
    OPEN,
    SURE,
    SURE_NOT,
    Way,
    verdict,
    verdicts,
    ways,
)

ATTENTIONS = ("standard", "effective")
ANSWERS = (SURE, SURE_NOT, OPEN)
NUMBERS = ["value", "low", "high"]
COLUMNS = [*Way._fields, "attention", "method", "layer", *NUMBERS, "count"]
TRAINING = ("model=minilm", "trainer=cpu_bf16", "attention=standard", "analysis=none", "seed=1", "save.every_minutes=5")


@dataclass(frozen=True)
class Part:
    """One task.

    Attributes:
        name: Of the part.
        title: What the page calls it.
        folder: Of the data.
        task: Options of data, for training and evaluation.
        training: Options of training alone.
        split: What is evaluated.
    """

    name: str
    title: str
    folder: str
    task: tuple[str, ...]
    training: tuple[str, ...]
    split: str = "validation"


PARTS = (
    Part("sst2", "SST-2", "glue", ("task=sst2",), ("data.limit_train=5000", "trainer.max_epochs=2")),
    Part("mrpc", "MRPC", "glue", ("task=mrpc",), ("data.limit_train=2000", "trainer.max_epochs=2")),
    Part(
        "agreement",
        "agreement (Linzen et al.)",
        "agreement",
        ("task=agreement", "data.skip_broken_rows=true"),
        ("data.limit_train=3000", "trainer.max_epochs=1", "data.batch_size=16", "data.limit_eval=200"),
        "test",
    ),
)


def measure(name: str, place: Place) -> Numbers:
    """Train and evaluate a part, as far as that is not done."""
    part = next(part for part in PARTS if part.name == name)
    asked = (
        f"checkpoint={trained(name, place).resolve()}",
        f"split={part.split}",
        "attention=standard",
        "analysis=protocols",
    )
    more = ("data.limit_eval=800", "++trainer.precision=32-true")
    done = run("evaluate.py", place.work / PAGE.name / name / "evaluate", *_about(part, place), *asked, *more)
    table = pd.read_parquet(done / "tables" / "protocols.parquet")
    score = metrics(done)["test/standard/accuracy"]
    return {"accuracy": score, "examples": int(table["examples"].max()), "rows": kept(table)}


def trained(name: str, place: Place) -> Path:
    """Train the model of a part, as far as that is not done; return the training's folder."""
    part = next(part for part in PARTS if part.name == name)
    return train(place.work / PAGE.name / name / "train", *_about(part, place), *part.training, *TRAINING)


def _about(part: Part, place: Place) -> tuple[str, ...]:
    return (*part.task, "data=local", f"data.dir={place.folder(part.folder)}", *place.options)


def kept(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the last layer's rows, ready for JSON; what a row has not is left out."""
    last = table.loc[table["layer"] == table["layer"].max(), COLUMNS].astype(object)
    return [{str(key): one for key, one in row.items() if not pd.isna(one)} for row in last.to_dict("records")]


def tables(numbers: Mapping[str, Numbers]) -> dict[str, str]:
    """Write the models, in how many protocols each conclusion holds, and each protocol's numbers and verdicts."""
    found = {part.title: numbers[part.name] for part in PARTS if part.name in numbers}
    by_way = {title: ways(_table(mine)) for title, mine in found.items()}
    models = [[title, f"{mine['accuracy']:.3f}", str(mine["examples"])] for title, mine in found.items()]
    return {
        "models": markdown(["task", "accuracy", "examples compared"], models),
        "conclusions": _conclusions(by_way),
        "protocols": _protocols(by_way),
    }


def _table(mine: Numbers) -> pd.DataFrame:
    return pd.DataFrame(mine["rows"]).reindex(columns=COLUMNS)


def _conclusions(by_way: Mapping[str, Mapping[Way, pd.DataFrame]]) -> str:
    """Count the protocols in which each conclusion is sure, surely wrong, or cannot be said."""
    rows = []
    for difference, reference, attention in product(DIFFERENCES, REFERENCES, ATTENTIONS):
        cells = []
        for found in by_way.values():
            every = verdicts(dict(found), attention, difference)
            said = [one for way, one in every.items() if way.reference == reference]
            cells.append(" / ".join(str(said.count(answer)) for answer in ANSWERS))
        rows.append([CONCLUSIONS[difference], reference.replace("_", "-"), attention, *cells])
    return markdown(["conclusion", "agreement with", "attention", *by_way], rows)


def _protocols(by_way: Mapping[str, Mapping[Way, pd.DataFrame]]) -> str:
    """Write standard attention's agreement by every protocol, and the verdict on the paper's main conclusion."""
    rows = []
    for title, found in by_way.items():
        for way, numbers in found.items():
            mine = numbers[numbers["attention"] == "standard"].set_index("method")
            cells = [
                interval(*mine.loc[method, ["value", "low", "high"]].astype(float), digits=2) for method in METHODS
            ]
            how = way.words if way.gradient else ["", *way.words]
            said = verdict(numbers, "standard", "rollout - raw") or ""
            rows.append([title, way.reference.replace("_", "-"), *how, way.preset or "", *cells, said])
    heads = ["task", "agreement with", "gradient", "attention of", "ties", "ranked", "preset", *METHODS]
    return markdown([*heads, "rollout > raw"], rows)


PAGE = Page("protocols", tuple(part.name for part in PARTS), measure, tables)
