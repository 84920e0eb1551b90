"""The main paper on a model of its size: train, evaluate, and keep the numbers.

    python scripts/findings/main_paper.py --glue path/to/glue          # every part; hours on a CPU
    python scripts/findings/main_paper.py --glue path/to/glue mrpc-1   # one of them
    python scripts/findings/main_paper.py --glue path/to/glue --trainer gpu --model model=bert_base

A part is one task and one seed. It is trained (a killed training is resumed), evaluated under every attention,
evaluated again with effective attention read in affine space, and its numbers are kept as JSON in
docs/findings/numbers/main-paper/. A part whose file is there is not run again: delete the file to measure it anew.

QNLI's training file need not be there: then the first pairs of its dev file are trained on, and the rest is evaluated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effective_attention.io import write_text

ROOT = Path(__file__).parents[2]
NUMBERS = ROOT / "docs" / "findings" / "numbers" / "main-paper"
WORK = Path("runs/findings/main-paper")
MODEL = ["model=mpnet_base", "model.fetch=yes"]
KEPT = ("test/", "interval/", "delimiters/", "patterns/", "null_space/", "cosine/", "token_attention/", "run/", "data/")
PRIVATE = ("run/checkpoint",)  # folders of whoever measured
HELD_OUT = 1000  # of QNLI's dev pairs, where its training file is not there
ANALYSES = ("token_types", "delimiters", "finetuning_shift", "patterns", "null_space")


@dataclass(frozen=True)
class Part:
    """One training and what is measured of it.

    Attributes:
        task: Name of the task.
        seed: Of everything random.
        train: So many training examples, evenly spread; None: all.
        evaluate: So many dev examples, evenly spread; None: all.
    """

    task: str
    seed: int
    train: int | None = None
    evaluate: int | None = None

    @property
    def name(self) -> str:
        return f"{self.task}-{self.seed}"


PARTS = (
    Part("mrpc", 1),
    Part("rte", 1),
    Part("stsb", 1, evaluate=500),
    Part("sst2", 1, train=4000, evaluate=500),
    Part("qnli", 1, evaluate=500),
    Part("mrpc", 2),
    Part("rte", 2),
    Part("mrpc", 3),
    Part("rte", 3),
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


def command(program: str, *options: str) -> None:
    """Run one of our two commands; an error ends this script as it ended the command."""
    print(f"\n$ python {program} {' '.join(options)}", flush=True)
    done = subprocess.run([sys.executable, program, *options], cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def run(part: Part, options: argparse.Namespace) -> dict[str, Any]:
    """Train and evaluate a part, as far as that is not done; return its numbers."""
    work = options.work.resolve()
    glue = options.glue.resolve()
    folder = work / part.name
    data = ["data=local", f"data.dir={data_folder(glue, work) if part.task == 'qnli' else glue}"]
    about = [f"task={part.task}", *options.model, *data, f"trainer={options.trainer}", f"seed={part.seed}"]
    trained = folder / "train"
    if not (trained / "metrics.json").exists():
        if (trained / "checkpoints" / "last.ckpt").exists():
            command("train.py", f"resume={trained}")
        else:
            small = [] if part.train is None else [f"data.limit_train={part.train}"]
            plain = ["attention=standard", "analysis=none", "save.every_minutes=5", "logger=csv"]
            command("train.py", *about, *small, *plain, f"hydra.run.dir={trained}")
    some = [] if part.evaluate is None else [f"limit={part.evaluate}"]
    found = {}
    for reading, more in (
        ("exact", [f"analysis=[{','.join(ANALYSES)}]", "analysis.null_space.padded_examples=100", "attention=all"]),
        ("affine", ["analysis=[token_types,delimiters,patterns]", "space=affine", "attention=standard"]),
    ):
        place = folder / reading
        if not (place / "metrics.json").exists():
            same = [f"checkpoint={trained}", *some, "resamples=1000", "logger=csv", f"hydra.run.dir={place}"]
            same += ["++trainer.precision=32-true"]  # whatever it was trained in
            command("evaluate.py", *about, *same, *more)
        found[reading] = kept(read(place / "metrics.json"))
    return {"part": vars(part), "trained": kept(read(trained / "metrics.json")), **found}


def read(path: Path) -> dict[str, Any]:
    numbers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return numbers


def kept(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the numbers to keep, with six digits."""
    chosen = {name: value for name, value in metrics.items() if name.startswith(KEPT) and name not in PRIVATE}
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in chosen.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [part.name for part in PARTS]
    parser.add_argument("parts", nargs="*", metavar="part", help=f"which: {', '.join(names)}; default: all")
    parser.add_argument("--glue", type=Path, required=True, help="the classic folder of GLUE's TSV files")
    parser.add_argument("--work", type=Path, default=WORK, help="where runs go (%(default)s)")
    parser.add_argument("--model", nargs="+", default=MODEL, help="options of a model")
    parser.add_argument("--trainer", default="cpu_bf16", help="how to run, as trainer= has it (%(default)s)")
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(names))
    if unknown:
        parser.error(f"{unknown[0]} is no part; choose from {', '.join(names)}")
    if not options.glue.is_dir():
        parser.error(f"--glue {options.glue} is no folder")
    NUMBERS.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        place = NUMBERS / f"{part.name}.json"
        if (options.parts and part.name not in options.parts) or place.exists():
            continue
        found = run(part, options)
        write_text(place, json.dumps(found, indent=1, sort_keys=True) + "\n")  # whole, or not there
        print(f"kept {place.relative_to(ROOT)}", flush=True)


if __name__ == "__main__":
    main()
