"""A page of findings: what it measures part by part, and the tables it is written from.

The numbers of a part are kept as JSON in docs/findings/numbers/<page>/<part>.json: the page rests on those files alone,
so that it can be written again in a second, and a part that is there is not measured again, unless with ``--again``.
Runs that a part starts stay in a work folder, so that a part that was stopped goes on where it was; runs that are
finished there are not repeated.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from effective_attention.attributions.ranking import bootstrap
from effective_attention.io import write_text

ROOT = Path(__file__).parents[2]
FINDINGS = ROOT / "docs" / "findings"
Numbers = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a part finds data, and leaves its runs.

    Attributes:
        data: Folder with ``glue``, ``treebank``, ``wiki``, ``agreement`` and ``pronouns`` in it.
        work: Folder for runs.
        options: More options of train.py and evaluate.py, such as ``trainer=gpu``.
    """

    data: Path
    work: Path
    options: tuple[str, ...] = ()

    def folder(self, name: str) -> Path:
        """Return a folder, or a file, of the data.

        Raises:
            SystemExit: It is not there.
        """
        found = self.data / name
        if not found.exists():
            sys.exit(f"{found} is not there: --data must be a folder with {name} in it")
        return found.resolve()


@dataclass(frozen=True)
class Page:
    """One page of findings.

    Attributes:
        name: Of ``docs/findings/<name>.md`` and of its folder of numbers.
        parts: What is measured one after the other, by name.
        measure: ``measure(part, place)`` gives the numbers of a part, ready for JSON.
        tables: ``tables(numbers)`` gives each table of the page, by the name between its marks; ``numbers`` holds the
            parts that have been measured.
        page: Of a page that is not in docs/findings, its file below docs.
        figures: ``figures(numbers)`` gives each figure of the page; kept as docs/findings/<page>-<name>.png.
    """

    name: str
    parts: Sequence[str]
    measure: Callable[[str, Place], Numbers]
    tables: Callable[[Mapping[str, Numbers]], dict[str, str]]
    page: str | None = None
    figures: Callable[[Mapping[str, Numbers]], dict[str, Figure]] | None = None

    @property
    def file(self) -> Path:
        """Return the file that holds the tables."""
        return FINDINGS / f"{self.name}.md" if self.page is None else FINDINGS.parent / self.page

    def kept(self, part: str) -> Path:
        """Return the file that keeps a part's numbers."""
        return FINDINGS / "numbers" / self.name / f"{part}.json"

    def numbers(self) -> dict[str, Numbers]:
        """Read the parts that have been measured."""
        there = [part for part in self.parts if self.kept(part).exists()]
        return {part: json.loads(self.kept(part).read_text(encoding="utf-8")) for part in there}

    def measure_parts(self, parts: Sequence[str], place: Place, *, again: bool = False) -> None:
        """Measure the parts whose numbers are not there, or all, and keep each as soon as it is measured."""
        for part in parts:
            if self.kept(part).exists() and not again:
                continue
            print(f"\n{self.name}: {part}", flush=True)
            found = self.measure(part, place)
            self.kept(part).parent.mkdir(parents=True, exist_ok=True)
            write_text(self.kept(part), json.dumps(rounded(found), indent=1, sort_keys=True) + "\n")
            print(f"kept {self.kept(part).relative_to(ROOT)}", flush=True)

    def draw(self) -> None:
        """Write the figures as the numbers have them."""
        for name, figure in (self.figures(self.numbers()) if self.figures is not None else {}).items():
            figure.savefig(FINDINGS / f"{self.name}-{name}.png", dpi=200, bbox_inches="tight")

    def written(self) -> str:
        """Return the page with its tables as the numbers have them.

        Raises:
            ValueError: The page has no marks for a table.
        """
        text = self.file.read_text(encoding="utf-8")
        for name, table in self.tables(self.numbers()).items():
            start, end = f"<!-- table: {name} -->\n", "<!-- end of table -->"
            before, mark, rest = text.partition(start)
            if not mark or end not in rest:
                raise ValueError(f"{self.file.name} has no place for the table {name!r}: {start.strip()} … {end}")
            text = f"{before}{start}\n{table.strip()}\n\n{end}{rest.partition(end)[2]}"
        return text


def rounded(value: Any) -> Any:
    """Return numbers with six digits, however deep they lie.

    >>> rounded({"a": [0.12345678, 3]})
    {'a': [0.123457, 3]}
    """
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list | tuple) else value


def command(program: str, *options: str) -> None:
    """Run train.py or evaluate.py; an error ends this program as it ended the command."""
    print(f"\n$ python {program} {' '.join(options)}", flush=True)
    done = subprocess.run([sys.executable, program, *options], cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def run(program: str, folder: Path, *options: str) -> Path:
    """Run train.py or evaluate.py into a folder, unless it is finished there; return the folder."""
    if not (folder / "metrics.json").exists():
        command(program, *options, "logger=csv", f"hydra.run.dir={folder.resolve()}")
    return folder


def train(folder: Path, *options: str) -> Path:
    """Train into a folder, or go on with a training that was killed there; return the folder."""
    if (folder / "checkpoints" / "last.ckpt").exists() and not (folder / "metrics.json").exists():
        command("train.py", f"resume={folder}")
    return run("train.py", folder, *options)


def with_ends(values: Tensor) -> Tensor:
    """Return the mean over texts, (text, ...), and both ends of its 95 % bootstrap interval, in a last axis."""
    flat = values.flatten(1).double()
    ends = bootstrap(flat, seed=0)
    return torch.stack([flat.nanmean(dim=0), *ends], dim=-1).view(*values.shape[1:], 3)


def metrics(folder: Path) -> Numbers:
    """Read the metrics of a run."""
    found: Numbers = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return found


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table.

    >>> print(markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [f"| {' | '.join(line)} |" for line in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def interval(value: float, low: float | None, high: float | None, digits: int = 3) -> str:
    """Write a number with its interval.

    >>> interval(0.5, 0.41, 0.62, 2), interval(0.5, None, None, 1)
    ('0.50 [0.41, 0.62]', '0.5')
    """
    if low is None or high is None:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
