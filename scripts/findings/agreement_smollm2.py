"""Subject-verb agreement in a language model as it is: SmolLM2 asked for the verb, and its answers explained.

Nothing is trained: ``head=verb`` compares the probabilities of the verb's two forms. A part is what it is asked about.
Its sentences for explanations are fewer, and on the real side all have an attractor, as ``subject_first`` needs one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from page import Numbers, Place, interval, markdown, run, with_ends

METHODS = ("raw", "rollout", "flow", "norm", "gradient_x_input", "input_gradient", "random")
MEASURES = ("subject_first", "comprehensiveness", "sufficiency", "spearman_blank_out")
EXPLAINED = 100
GROUPS = ("all", "right", "wrong")
NONE = "\N{EN DASH}"


@dataclass(frozen=True)
class Asked:
    """What the language model is asked about, and how the page calls it.

    Attributes:
        name: Of the part.
        title: Of its sentences.
        examples: How many answers are counted.
        local: Whether they are files.
        chosen: Options that choose the sentences that are explained.
        explained: What the page calls these.
    """

    name: str
    title: str
    examples: int
    local: bool
    chosen: tuple[str, ...]
    explained: str


ASKED = (
    Asked(
        "smollm2-linzen", "Linzen et al., 800 test sentences", 800, local=True,
        chosen=("task.loaders.local.attractors=1",), explained="Linzen et al., 100 sentences with attractors",
    ),
    Asked(
        "smollm2-grammar", "the grammar, 400 test sentences", 400, local=False,
        chosen=(), explained="the grammar, 100 sentences",
    ),
)  # fmt: skip


def measure(part: Asked, place: Place, kept: Callable[[pd.DataFrame], Numbers], work: Path) -> Numbers:
    """Ask for the verbs of many sentences, and explain the answers to some.

    Args:
        part: What is asked about.
        place: Where data lie.
        kept: Chooses the numbers of ``number_flip``.
        work: Folder for runs.
    """
    about = ("task=agreement", "split=test", "head=verb", "model=smollm2", "model.fetch=yes", "attention=standard")
    data = ("data=local", f"data.dir={place.folder('agreement')}") if part.local else ("data=sample",)
    about = (*about, *data, *place.options)
    answered = run("evaluate.py", work / f"{part.name}-answers", *about, f"limit={part.examples}", "analysis=none")
    shown = ("analysis=[number_flip,faithfulness]", f"analysis.faithfulness.methods=[{','.join(METHODS)}]")
    asked = (*part.chosen, f"limit={EXPLAINED}", *shown)
    folder = run("evaluate.py", work / f"{part.name}-explained", *about, *asked)
    tables = {name: pd.read_parquet(folder / "tables" / f"{name}.parquet") for name in ("number_flip", "faithfulness")}
    found = {"answers": accuracy(pd.read_parquet(answered / "tables" / "predictions.parquet"))}
    return {**found, "exchanged": kept(tables["number_flip"]), "explanations": explanations(tables["faithfulness"])}


def accuracy(answers: pd.DataFrame) -> Numbers:
    """Return the share of right answers with its interval, that of always answering singular, and by number."""
    right = torch.tensor(answers["correct"].to_numpy(bool))
    plural = torch.tensor((answers["gold"] == "plural").to_numpy(bool))
    found: Numbers = {"count": len(right), "singular": float((~plural).double().mean())}
    for name, chosen in (("all", right | ~right), ("gold singular", ~plural), ("gold plural", plural)):
        value, low, high = with_ends(right[chosen].double()[:, None])[0].tolist()
        found[name] = {"value": value, "low": low, "high": high, "count": int(chosen.sum())}
    return found


def explanations(table: pd.DataFrame) -> Numbers:
    """Return each method's measures in the last layer, and where the subject is first, in every layer."""
    last = table[table["layer"].isna() | (table["layer"] == table["layer"].max())]
    found: Numbers = {"examples": int(table["examples"].max())}
    for row in last[last["measure"].isin(MEASURES)].itertuples():
        name = "/".join(part for part in (row.method, row.attention) if isinstance(part, str))
        number = {"value": float(row.value), "low": float(row.low), "high": float(row.high), "count": int(row.count)}
        found.setdefault(row.measure, {})[name] = number
    first = table[(table["measure"] == "subject_first") & table["layer"].notna()].sort_values("layer")
    groups = first.groupby(["method", "attention"])["value"]
    found["subject_first_by_layer"] = {"/".join(name): [float(one) for one in values] for name, values in groups}
    return found


def tables(numbers: Mapping[str, Numbers]) -> dict[str, str]:
    """Write what the language model answers, and how its explanations compare."""
    shown = [part for part in ASKED if part.name in numbers]
    header = ["", *(part.title for part in shown)]
    said = (("right answers", "all"), ("right, singular verb", "gold singular"), ("right, plural verb", "gold plural"))
    rows = [[text, *(_cell(numbers[part.name]["answers"][name]) for part in shown)] for text, name in said]
    rows += [["always *singular*", *(f"{numbers[part.name]['answers']['singular']:.3f}" for part in shown)]]
    flips = [["right answers", *(_cell(numbers[part.name]["exchanged"]["accuracy"]) for part in shown)]]
    for word in ("subject", "attractor"):
        for group in GROUPS:
            before = "" if group == "all" else f", {group} before"
            cells = [_cell(numbers[part.name]["exchanged"]["flips"].get(f"{word}/{group}")) for part in shown]
            flips.append([f"{word} exchanged{before}: answers that flip", *cells])
    return {
        "verbs": markdown(header, rows),
        "verbs exchanged": markdown(["", *(part.explained for part in shown)], flips),
        **{f"explained {part.name}": _explained(part, numbers) for part in shown},
    }


def _explained(part: Asked, numbers: Mapping[str, Numbers]) -> str:
    """Write the measures of one part, a row for each method and attention."""
    found = numbers[part.name]["explanations"]
    names: Sequence[str] = sorted(found["comprehensiveness"], key=_order)
    titles = ["method", "attention", "subject first", "comprehensiveness", "sufficiency", "Spearman with blank-out"]
    rows = []
    for name in names:
        method, _, attention = name.partition("/")
        rows.append([method, attention or NONE, *(_cell(found.get(measure, {}).get(name)) for measure in MEASURES)])
    return markdown(titles, rows)


def _order(name: str) -> tuple[int, str]:
    method, _, attention = name.partition("/")
    return METHODS.index(method), "" if attention == "standard" else attention  # standard first


def _cell(found: Mapping[str, float] | None) -> str:
    if found is None:
        return NONE
    return f"{interval(found['value'], found['low'], found['high'])}, n = {found['count']}"
