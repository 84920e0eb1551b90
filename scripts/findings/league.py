"""Which explanation should one use, is effective attention the more faithful one, and do protocols change the answer?

A part is one model on one task. Trainings are those of the pages ``protocols`` (MiniLM) and ``main-paper``
(MPNet-base), but for STS-B's; SmolLM2 is asked as it is. Each part is evaluated by several runs of ``faithfulness``:
``tokens`` deleted; the same by methods that read attention in ``affine`` space; and, of MiniLM, on fewer examples and
without the slowest methods, tokens erased in other ``ways``, ``words`` deleted, and ``checks`` (random layers,
exchanged pairs). Nearly all the time goes into erased texts, some four hundred an example and way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import main_paper
import pandas as pd
import protocols
from league_tables import AGAINST, CHECKED, ERASING, JUDGED, KEYS, NUMBERS, TRUTH, figures, tables
from page import Numbers, Page, Place, metrics, run, train

from effective_attention.analyses.faithfulness import CHANGE, COST, DIFFERENCE, RANK
from effective_attention.attributions.registry import registered

SLOW = ("shapley", "generalised_flow", "decompx", "value_zeroing", "value_zeroing_rollout")
"""Left out of large models and of the smaller runs: they take more seconds an example than all others together."""
AFFINE = (
    "raw", "rollout", "flow", "gradient_attention", "gradient_rollout", "relevance", "norm", "norm_rollout", "vatp",
    "contribution_weights", "norm_residual", "alti",
)  # fmt: skip
FEWER = (
    "raw", "rollout", "gradient_attention", "gradient_rollout", "relevance", "norm", "vatp", "alti", "input_gradient",
    "gradient_x_input", "integrated_gradients", "blank_out", "random",
)  # fmt: skip
PAIR_COLUMNS = ("attention", "method", "other_attention", "other_method", "p", *NUMBERS)
MEANS = {"tokens": (*JUDGED, *TRUTH), "ways": ERASING, "words": ERASING, "checks": tuple(CHECKED), "affine": ()}
CHANGES = {"tokens": JUDGED, "ways": ERASING, "words": ERASING, "checks": (), "affine": JUDGED}
"""The measures that are kept of each run: their means, and what effective attention changes of them."""
SCORES = ("/standard/accuracy", "/standard/pearson")
SOME = 30
"""Examples of the smaller runs."""


@dataclass(frozen=True)
class Part:
    """One model on one task.

    Attributes:
        name: Of the part.
        trained: Page and part whose training is used; None: the model as it is.
        about: Options of model, task and split.
        folder: Of the data.
        methods: Which are compared; None: all.
        examples: How many are explained.
        checks: Options of the checks; none: there are no smaller runs.
        affine: Whether methods that read attention are compared in affine space, too.
    """

    name: str
    trained: tuple[str, str] | None
    about: tuple[str, ...]
    folder: str = "glue"
    methods: tuple[str, ...] | None = None
    examples: int = 100
    checks: tuple[str, ...] = ("sanity=true",)
    affine: bool = True


def _without(*names: str) -> tuple[str, ...]:
    return tuple(method.name for method in registered() if method.name not in names)


_AGREEMENT = ("task=agreement", "data.skip_broken_rows=true", "split=test")
_SMOLLM2 = ("model=smollm2", "model.fetch=yes", "head=verb", *_AGREEMENT, "task.loaders.local.attractors=1")
_ON_PAIRS = _without("shapley", "generalised_flow")  # their time grows with the square of a text's length, or faster
_MPNET = ("model=mpnet_base", "model.fetch=yes")
PARTS = (
    Part("minilm-sst2", ("protocols", "sst2"), ("model=minilm", "task=sst2")),
    Part("minilm-mrpc", ("protocols", "mrpc"), ("model=minilm", "task=mrpc"), methods=_ON_PAIRS,
         checks=("sanity=true", "stability=true")),
    Part("minilm-agreement", ("protocols", "agreement"), ("model=minilm", *_AGREEMENT), "agreement", examples=60,
         checks=()),
    Part("minilm-stsb", ("league", "minilm-stsb"), ("model=minilm", "task=stsb"), methods=_ON_PAIRS,
         checks=("sanity=true", "stability=true")),
    Part("mpnet-sst2", ("main-paper", "sst2-1"), (*_MPNET, "task=sst2"), methods=_without(*SLOW), examples=30,
         checks=(), affine=False),
    Part("smollm2-agreement", None, _SMOLLM2, "agreement", methods=FEWER, examples=30, checks=(),
         affine=False),
)  # fmt: skip


def trained(name: str, place: Place) -> Path:
    """Train MiniLM on STS-B, as far as that is not done; return the training's folder."""
    about = ("task=stsb", "data=local", f"data.dir={place.folder('glue')}", *place.options)
    more = ("data.limit_train=3000", "trainer.max_epochs=2", *protocols.TRAINING)
    return train(place.work / PAGE.name / name / "train", *about, *more)


TRAININGS = {"protocols": protocols.trained, "main-paper": main_paper.trained, "league": trained}


def measure(name: str, place: Place) -> Numbers:
    """Evaluate a part, and train its model, as far as that is not done."""
    part = next(part for part in PARTS if part.name == name)
    about = [*part.about, "data=local", f"data.dir={place.folder(part.folder)}", "attention=standard", *place.options]
    if part.trained is not None:
        page, training = part.trained
        about += [f"checkpoint={TRAININGS[page](training, place).resolve()}", "++trainer.precision=32-true"]
    chosen = () if part.methods is None else (f"methods=[{','.join(part.methods)}]",)
    asked = {"tokens": (f"limit={part.examples}", *chosen)}
    if part.checks:
        some = (f"limit={SOME}", f"methods=[{','.join(_without(*SLOW))}]")
        asked |= {"ways": ("erase=[delete,blank,hide]", *some), "words": ("unit=word", *some)}
        asked["checks"] = (*part.checks, *some)
    if part.affine:
        asked["affine"] = (f"limit={part.examples}", f"methods=[{','.join(AFFINE)}]")
    found: Numbers = {}
    for kind, options in asked.items():
        space = ["space=affine"] if kind == "affine" else []
        own = ["analysis=faithfulness", *(f"analysis.faithfulness.{option}" for option in options), *space]
        folder = run("evaluate.py", place.work / PAGE.name / name / kind, *about, *own, "limit=800")
        found[kind] = kept(kind, folder)
    return found


def kept(kind: str, folder: Path) -> Numbers:
    """Choose the numbers of a run to keep: the last layer's, and of all pairs those with the best and with AGAINST."""
    table = pd.read_parquet(folder / "tables" / "faithfulness.parquet")
    last = table[table["layer"].isna() | (table["layer"] == table["layer"].max())]
    means = last[last["measure"].isin(MEANS[kind])]
    changes = last[(last["measure"] == CHANGE) & last["compared"].isin(CHANGES[kind])]
    found = {
        "examples": int(table["examples"].max()),
        "means": records(means, (*KEYS, "unit", "erase", *NUMBERS)),
        "changes": records(changes, ("method", "compared", "unit", "erase", "p", *NUMBERS)),
    }
    return found | league(last) | {"scores": scores(folder)} if kind == "tokens" else found


def league(last: pd.DataFrame) -> Numbers:
    """Choose average ranks, the pairs to keep, and times."""
    ranks = last[last["measure"] == RANK].sort_values("value")
    best = tuple(ranks.iloc[0][["attention", "method"]].fillna(""))
    others = [("", method) for method in AGAINST]
    pairs = last[last["measure"] == DIFFERENCE].fillna({"attention": "", "other_attention": ""})
    sides = [list(zip(pairs[f"{side}attention"], pairs[f"{side}method"], strict=True)) for side in ("", "other_")]
    chosen = [bool({best, *others} & set(pair)) for pair in zip(*sides, strict=True)]
    return {
        "ranks": records(ranks, ("attention", "method", "value", "count")),
        "pairs": records(pairs[chosen], PAIR_COLUMNS),
        "milliseconds": records(last[last["measure"] == COST], ("attention", "method", "value")),
    }


def scores(folder: Path) -> Numbers:
    """Return how well the model does its task, on the examples that were sampled from."""
    return {name: value for name, value in metrics(folder).items() if name.endswith(SCORES)}


def records(table: pd.DataFrame, columns: Sequence[str]) -> Numbers:
    """Return rows ready for JSON, column names once; ``league_tables.opened`` reads them."""
    rows = [
        [None if pd.isna(one) or one == "" else one for one in row]
        for row in table[list(columns)].astype(object).to_numpy()
    ]
    return {"columns": list(columns), "rows": rows}


PAGE = Page("league", tuple(part.name for part in PARTS), measure, tables, figures=figures)
