"""The tables of the main paper's page, made of the numbers that ``main_paper.py`` keeps.

A cell of a task with several seeds is the mean over seeds; its interval reaches from the lowest to the highest end of
the seeds' own intervals over examples, so that it holds both sources of chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from page import Numbers, interval, markdown

from effective_attention.reports.papers.sun2021 import PATTERN_ORDER, TABLE_2, TABLE_3, paper_ratio
from effective_attention.reports.reductions import task_title

READINGS = {"exact": "effective", "affine": "effective, affine", "padded": "effective, padded"}
TYPES = ("noun", "pronoun", "verb", "sep", "cls", "punctuation")
NAMES = {"sep": "[SEP]", "cls": "[CLS]"}
LAST = 2  # layers that the paper says change most
Runs = Sequence[Numbers]


@dataclass(frozen=True)
class Value:
    """A number of a task: mean over seeds, and the widest interval; None: there is none."""

    mean: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return interval(self.mean, self.low, self.high)


def tables(numbers: Mapping[str, Numbers]) -> dict[str, str]:
    """Write the tables of the page."""
    tasks = by_task(numbers)
    return {
        "trainings": trainings(numbers),
        "padding": padding(tasks),
        "patterns": patterns(tasks),
        "types": compared(tasks, {f"token_attention/{{}}/{kind}": NAMES.get(kind, kind) for kind in TYPES}),
        "delimiters": compared(tasks, {f"delimiters/{{}}/{kind}": NAMES[kind] for kind in ("cls", "sep")}),
        "finetuning": finetuning(tasks),
        "timing": timing(tasks),
        "claims": claims(tasks),
    }


def by_task(numbers: Mapping[str, Numbers]) -> dict[str, list[Numbers]]:
    """Sort the parts by task, in the paper's order."""
    return {
        task: runs
        for task in TABLE_3
        if (runs := [found for found in numbers.values() if found["part"]["task"] == task])
    }


def value(runs: Runs, reading: str, name: str) -> Value | None:
    """Return a number with its interval; None where a run has it not."""
    found = [run[reading].get(name) for run in runs]
    if None in found:
        return None
    low, high = _ends(runs, reading, name, "low", "high")
    return Value(fmean(found), low, high)


def _ends(runs: Runs, reading: str, name: str, *sides: str) -> tuple[float | None, float | None]:
    low, high = ([run[reading].get(f"interval/{name}/{side}") for run in runs] for side in sides)
    return (None if None in low else min(low), None if None in high else max(high))


def change(runs: Runs, reading: str, name: str) -> Value | None:
    """Return how much a number of effective attention is above that of standard attention, with its interval."""
    one, other = (value(runs, reading, name.format(kind)) for kind in ("effective", "standard"))
    if one is None or other is None:
        return None
    return Value(one.mean - other.mean, *_ends(runs, reading, name.format("effective"), "change_low", "change_high"))


def cell(found: Value | None) -> str:
    return "" if found is None else str(found)


def title(task: str, runs: Runs) -> str:
    return task_title(task) if len(runs) == 1 else f"{task_title(task)}, {len(runs)} seeds"


def trainings(numbers: Mapping[str, Numbers]) -> str:
    """Say what was trained and tested, run by run."""
    header = ["task, seed", "trained on", "tested on", "score", "predictions changed: effective, padded"]
    header += ["largest change of a logit: effective, padded"]
    rows = []
    for found in numbers.values():
        part, exact = found["part"], found["exact"]
        metric = exact["run/main_metric"]
        both = ("effective", "padded")
        changed = [exact.get(f"test/{kind}/changed_predictions") for kind in both]
        rows.append(
            [
                f"{task_title(part['task'])}, {part['seed']}",
                f"{found['trained']['data/train/examples']:,}",
                f"{exact['data/validation/examples']:,}",
                f"{metric} {cell(value([found], 'exact', f'test/standard/{metric}'))}",
                "" if None in changed else ", ".join(f"{one:.0f}" for one in changed),
                ", ".join(f"{exact[f'test/{kind}/max_logit_difference']:.1e}" for kind in both),
            ]
        )
    return markdown(header, rows)


def padding(tasks: Mapping[str, Runs]) -> str:
    """Say how far the published padding moves effective attention."""
    names = {
        "nontrivial": "heads and texts with a null space",
        "padding_shift": "padding moves effective attention by",
        "output_change": "and the output by",
        "null_mass": "of attention in the null part",
        "padding_share": "due to padding, old figure",
    }
    rows = [
        [title(task, runs), *(cell(value(runs, "exact", f"null_space/effective/{name}")) for name in names)]
        for task, runs in tasks.items()
    ]
    return markdown(["task", *names.values()], rows)


def patterns(tasks: Mapping[str, Runs]) -> str:
    """Set the paper's Table 2 beside ours."""
    names = {f"patterns/{{}}/{kind}": kind for kind in PATTERN_ORDER}
    paper = {
        (task, kind): " → ".join(f"{TABLE_2[task, side][place] / 100:.3f}" for side in ("standard", "effective"))
        for task in tasks
        for place, kind in enumerate(PATTERN_ORDER)
    }
    return compared(tasks, names, paper)


def compared(
    tasks: Mapping[str, Runs], names: Mapping[str, str], paper: Mapping[tuple[str, str], str] | None = None
) -> str:
    """Set numbers of standard attention beside those of effective attention in every reading.

    Args:
        tasks: The runs of each task.
        names: How a number is called in ``metrics.json``, with ``{}`` for the attention, and what the table calls it.
        paper: What the paper has, by task and what the table calls it; None: the paper has only colours.
    """
    rows = []
    for task, runs in tasks.items():
        for name, said in names.items():
            row = [title(task, runs), said]
            row += [] if paper is None else [paper[task, said]]
            row += [cell(value(runs, "exact", name.format("standard")))]
            for reading in READINGS:
                row.append(cell(value(runs, reading, name.format("effective"))))
                if reading == "exact":
                    row.append(cell(change(runs, reading, name)))
            rows.append(row)
    before = [] if paper is None else ["the paper, standard → effective"]
    return markdown(["task", "", *before, "standard", "effective", "less standard", "affine", "padded"], rows)


def finetuning(tasks: Mapping[str, Runs]) -> str:
    """Say how like its start each layer's attention has remained, and which layers changed most."""
    rows, layers = [], 0
    for task, runs in tasks.items():
        for reading, attention in (("exact", "standard"), *((reading, "effective") for reading in READINGS)):
            means = cosines(runs, reading, attention)
            layers = max(layers, len(means))
            most = ", ".join(str(layer) for layer in changed_most(means))
            said = attention if attention == "standard" else READINGS[reading]
            rows.append([title(task, runs), said, most, *(f"{mean:.2f}" for mean in means)])
    return markdown(["task", "attention", "changed most", *(str(layer) for layer in range(layers))], rows)


def cosines(runs: Runs, reading: str, attention: str) -> list[float]:
    """Return the mean cosine with the start, layer by layer."""
    start = f"cosine/{attention}/layer_"
    names = sorted(name for name in runs[0][reading] if name.startswith(start))
    found = [value(runs, reading, name) for name in names]
    return [one.mean for one in found if one is not None]


def changed_most(means: Sequence[float]) -> list[int]:
    """Return the layers whose attention changed most, two of them.

    >>> changed_most([0.9, 0.8, 0.3, 0.5])
    [2, 3]
    """
    return sorted(sorted(range(len(means)), key=means.__getitem__)[:LAST])


def timing(tasks: Mapping[str, Runs]) -> str:
    """Set the paper's Table 3 beside ours, as ratios."""
    names = [f"test/effective/seconds_ratio{end}" for end in ("", "_low", "_high")]
    rows = []
    for task, runs in tasks.items():
        ours, low, high = (fmean(run["exact"][name] for run in runs) for name in names)
        rows.append([title(task, runs), f"{paper_ratio(task):.2f}", f"{ours:.2f}", f"{low:.2f} to {high:.2f}"])
    return markdown(["task", "the paper", "ours", "quartiles of the batches"], rows)


CLAIMS: dict[str, tuple[str, str]] = {
    "fewer vertical maps": ("patterns/{}/vertical", "less"),
    "fewer vertical + diagonal maps": ("patterns/{}/vertical+diagonal", "less"),
    "more blocks": ("patterns/{}/block", "more"),
    "more diagonals": ("patterns/{}/diagonal", "more"),
    "as many heterogeneous maps": ("patterns/{}/heterogeneous", "same"),
    "[CLS] gives [SEP] less (last layer)": ("token_attention/{}/sep", "less"),
    "[CLS] gives punctuation less (last layer)": ("token_attention/{}/punctuation", "less"),
    "[CLS] gives itself as much (last layer)": ("token_attention/{}/cls", "same"),
    "[CLS] gives nouns more (last layer)": ("token_attention/{}/noun", "more"),
    "[CLS] gives verbs more (last layer)": ("token_attention/{}/verb", "more"),
    "other tokens give [SEP] less": ("delimiters/{}/sep", "less"),
    "other tokens give [CLS] as much": ("delimiters/{}/cls", "same"),
}


def claims(tasks: Mapping[str, Runs]) -> str:
    """Count for each claim the tasks in which the interval of the change lies below 0, above, or around it."""
    rows = []
    for said, (name, expected) in CLAIMS.items():
        rows.append([said, expected, *(verdicts(tasks, reading, name) for reading in READINGS)])
    rows.append(["finetuning changes the last two layers most", "", *(last_layers(tasks, one) for one in READINGS)])
    return markdown(["the paper's claim", "expected", *READINGS.values()], rows)


def verdicts(tasks: Mapping[str, Runs], reading: str, name: str) -> str:
    """Name the tasks that have less under effective attention, more, and neither for sure; by how much in brackets."""
    sides: dict[str, list[str]] = {"less": [], "more": [], "neither": []}
    for task, runs in tasks.items():
        found = change(runs, reading, name)
        if found is not None and found.low is not None and found.high is not None:
            side = "less" if found.high < 0 else "more" if found.low > 0 else "neither"
            sides[side].append(f"{task_title(task)} ({found.mean:+.1g})")
    return "; ".join(f"{side}: {', '.join(names)}" for side, names in sides.items() if names)


def last_layers(tasks: Mapping[str, Runs], reading: str) -> str:
    """Say which tasks changed most in their last two layers, under standard attention and in a reading."""
    said = []
    for attention in ("standard", "effective"):
        with_means = {task: cosines(runs, reading, attention) for task, runs in tasks.items()}
        last = [
            task_title(task)
            for task, means in with_means.items()
            if means and changed_most(means) == list(range(len(means) - LAST, len(means)))
        ]
        said.append(f"{attention}: {', '.join(last) or 'none'}")
    return "; ".join(said)
