"""The main paper on a model of its size: train, evaluate under every attention, and keep the numbers.

A part is one task and one seed. It is trained (a killed training is resumed), evaluated under every attention, and
evaluated again with effective attention read in affine space, and padded, as published. QNLI's training file need not
be there: then the first pairs of its dev file are trained on, and the rest is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from main_paper_tables import tables
from page import Numbers, Page, Place, metrics, run, train

MODEL = ("model=mpnet_base", "model.fetch=yes", "trainer=cpu_bf16")
KEPT = ("test/", "interval/", "delimiters/", "patterns/", "null_space/", "cosine/", "token_attention/", "run/", "data/")
PRIVATE = ("run/checkpoint",)  # folders of whoever measured
HELD_OUT = 1000  # of QNLI's dev pairs, where its training file is not there
ANALYSES = "token_types,delimiters,finetuning_shift,patterns"
READINGS = {
    "exact": (f"analysis=[{ANALYSES},null_space]", "analysis.null_space.padded_examples=100", "attention=all"),
    "affine": (f"analysis=[{ANALYSES}]", "space=affine", "attention=standard"),
    "padded": (f"analysis=[{ANALYSES}]", "reading=padded", "attention=standard"),
}


@dataclass(frozen=True)
class Part:
    """One training and what is measured of it.

    Attributes:
        task: Name of the task.
        seed: Of everything random.
        train: So many training examples, evenly spread; None: all.
        evaluate: So many dev examples, evenly spread; None: all.
        recipe: Options of training that differ from the paper's.
    """

    task: str
    seed: int
    train: int | None = None
    evaluate: int | None = None
    recipe: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.task}-{self.seed}"


GENTLE = ("recipe.learning_rate=2e-5", "recipe.warmup=0.1")  # with the paper's 5e-5 RTE's loss stays at chance
PARTS = (
    Part("mrpc", 1),
    Part("rte", 1, recipe=GENTLE),
    Part("stsb", 1, evaluate=300),
    Part("sst2", 1, train=4000, evaluate=300),
    Part("qnli", 1, evaluate=300),
    Part("mrpc", 2, evaluate=150),
    Part("rte", 2, evaluate=150, recipe=GENTLE),
    Part("mrpc", 3, evaluate=150),
    Part("rte", 3, evaluate=150, recipe=GENTLE),
)


def data_folder(glue: Path, work: Path) -> Path:
    """Return the folder to read QNLI from: one with a training file, made of the dev file where there is none."""
    if (glue / "QNLI" / "train.tsv").exists():
        return glue
    header, *lines = (glue / "QNLI" / "dev.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    folder = work / "glue" / "QNLI"
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in (("train", lines[:-HELD_OUT]), ("dev", lines[-HELD_OUT:])):
        (folder / f"{name}.tsv").write_text(header + "".join(chosen), encoding="utf-8")
    return folder.parent


def measure(name: str, place: Place) -> Numbers:
    """Train and evaluate a part, as far as that is not done."""
    part = next(part for part in PARTS if part.name == name)
    folder = trained(name, place)
    some = [] if part.evaluate is None else [f"limit={part.evaluate}"]
    found = {}
    for reading, more in READINGS.items():
        same = [f"checkpoint={folder}", *some, "resamples=1000", "++trainer.precision=32-true"]
        done = run("evaluate.py", folder.parent / reading, *_about(part, place), *same, *more)
        found[reading] = kept(metrics(done))
    return {"part": asdict(part), "trained": kept(metrics(folder)), **found}


def trained(name: str, place: Place) -> Path:
    """Train the model of a part, as far as that is not done; return the training's folder."""
    part = next(part for part in PARTS if part.name == name)
    small = [] if part.train is None else [f"data.limit_train={part.train}"]
    plain = ("attention=standard", "analysis=none", "save.every_minutes=5")
    folder = place.work / PAGE.name / part.name / "train"
    return train(folder, *_about(part, place), *small, *part.recipe, *plain)


def _about(part: Part, place: Place) -> list[str]:
    """Return the options of task, model, data and seed."""
    glue = place.folder("glue")
    folder = data_folder(glue, place.work / PAGE.name) if part.task == "qnli" else glue
    data = ["data=local", f"data.dir={folder}"]
    return [f"task={part.task}", *MODEL, *data, f"seed={part.seed}", *place.options]


def kept(found: Mapping[str, Any]) -> Numbers:
    """Choose the numbers to keep."""
    return {name: value for name, value in found.items() if name.startswith(KEPT) and name not in PRIVATE}


PAGE = Page("main-paper", tuple(part.name for part in PARTS), measure, tables)
