"""Subject-verb agreement in a finetuned model: mistakes, exchanged numbers, and the weight on the exchanged words.

MiniLM is finetuned once, on real sentences with real words (those of Gulordava et al.). A part is what it is tested on:
real sentences of Linzen et al., or the project's grammar. Numbers are those of the table of the analysis
``number_flip``, its weights and correlations in the last layer. Parts of a language model that is asked as it is:
``agreement_smollm2``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import agreement_smollm2
import pandas as pd
from page import Numbers, Page, Place, interval, markdown, run, train

WORDS = ("subject", "attractor")
GROUPS = ("all", "right", "wrong")
NONE = "\N{EN DASH}"
METHODS = ("raw", "rollout", "flow")
ATTENTIONS = ("standard", "effective")
TRAINING = (
    *("task=agreement", "data=local", "data.skip_broken_rows=true", "data.limit_train=3000", "data.batch_size=16"),
    *("trainer=cpu_bf16", "trainer.max_epochs=1", "data.limit_eval=200", "attention=standard", "analysis=none"),
)


@dataclass(frozen=True)
class Part:
    """What the model is tested on, and how the page calls it."""

    name: str
    title: str
    examples: int
    local: bool


PARTS = (
    Part("linzen", "Linzen et al., 800 test sentences", 800, local=True),
    Part("grammar", "the grammar, 400 test sentences", 400, local=False),
)


def measure(name: str, place: Place) -> Numbers:
    """Finetune, unless that is done, then test on the part's sentences; or ask a language model."""
    for asked in agreement_smollm2.ASKED:
        if asked.name == name:
            return agreement_smollm2.measure(asked, place, kept, place.work / PAGE.name)
    part = next(part for part in PARTS if part.name == name)
    work = place.work / PAGE.name
    data = f"data.dir={place.folder('agreement')}"
    trained = train(work / "train", *TRAINING, data, *place.options)
    about = ("task=agreement", "split=test", f"data.limit_eval={part.examples}", f"checkpoint={trained.resolve()}")
    about = (*about, *(("data=local", data) if part.local else ("data=sample",)))  # the checkpoint has its own
    asked = (f"analysis.number_flip.limit={part.examples}", "analysis.attention_graph.example=worst")
    shown = "analysis=[number_flip,attention_graph]"
    folder = run("evaluate.py", work / name, *about, "attention=standard", shown, *asked, *place.options)
    return kept(pd.read_parquet(folder / "tables" / "number_flip.parquet"))


def kept(table: pd.DataFrame) -> Numbers:
    """Choose the numbers to keep: means with their intervals and counts, of layered ones those of the last layer."""
    last = table[table["layer"].isna() | (table["layer"] == table["layer"].max())]
    found: Numbers = {"examples": int(table["examples"].max()), "layer": int(table["layer"].max())}
    found["accuracy"] = _one(last[last["quantity"] == "accuracy"])
    for quantity, names in (
        ("flips", ("word", "group")),
        ("weight", ("word", "group", "attention", "method")),
        ("spearman", ("word", "attention", "method")),
    ):
        rows = last[(last["quantity"] == quantity) & last["value"].notna()]
        found[quantity] = {"/".join(place): _one(part) for place, part in rows.groupby(list(names))}
    return found


def _one(rows: pd.DataFrame) -> dict[str, float | int | None]:
    """Return the numbers of a single row."""
    (row,) = rows[["value", "low", "high", "even", "count"]].astype(float).to_dict("records")
    numbers = {str(name): None if pd.isna(value) else float(value) for name, value in row.items()}
    return {**numbers, "count": int(row["count"])}


def tables(numbers: Mapping[str, Numbers]) -> dict[str, str]:
    """Write how often answers flip, and what explanations give the exchanged words."""
    shown = [part for part in PARTS if part.name in numbers]
    titles = [part.title for part in shown]
    answers = [["right answers", *(_cell(numbers[part.name]["accuracy"]) for part in shown)]]
    for word in WORDS:
        for group in GROUPS:
            cells = [_counted(numbers[part.name]["flips"].get(f"{word}/{group}")) for part in shown]
            before = "" if group == "all" else f", {group} before"
            answers.append([f"{word} exchanged{before}: answers that flip", *cells])
    weights = [_weights(word, kind, method, shown, numbers)
               for word in WORDS for kind in ATTENTIONS for method in METHODS]  # fmt: skip
    columns = [f"{said}, {title}" for title in titles for said in ("weight", "Spearman")]
    return {
        "answers": markdown(["", *titles], answers),
        "weights": markdown(["word", "attention", "method", *columns], weights),
        **agreement_smollm2.tables(numbers),
    }


def _weights(word: str, kind: str, method: str, shown: Sequence[Part], numbers: Mapping[str, Numbers]) -> list[str]:
    cells = []
    for part in shown:
        mine = numbers[part.name]
        cells.append(_weight(mine["weight"].get(f"{word}/all/{kind}/{method}")))
        cells.append(_weight(mine["spearman"].get(f"{word}/{kind}/{method}"), digits=2))
    return [word, kind, method, *cells]


def _cell(found: Mapping[str, float] | None, digits: int = 3) -> str:
    return NONE if found is None else interval(found["value"], found["low"], found["high"], digits)


def _counted(found: Mapping[str, float] | None) -> str:
    return _cell(found) if found is None else f"{_cell(found)}, n = {found['count']}"


def _weight(found: Mapping[str, float] | None, digits: int = 3) -> str:
    """Write a number, and the same of even attention."""
    return NONE if found is None else f"{_cell(found, digits)} (even {found['even']:.{digits}f})"


PAGE = Page("agreement", tuple(part.name for part in (*PARTS, *agreement_smollm2.ASKED)), measure, tables)
