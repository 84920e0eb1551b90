"""Load the user's own data as examples, with a random validation split, of each label alike, where it has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from effective_attention.data.custom.splits import RawSplit, readable
from effective_attention.data.examples import Examples, read_examples
from effective_attention.data.tasks import LABEL, Task
from effective_attention.errors import UserError


@dataclass(frozen=True)
class RandomSplit:
    """How a validation split is held out of the examples.

    Attributes:
        of: What is divided.
        share: Of the examples that is held out; 1: all are.
        seed: Of the draw.
        by_label: Whether it is that share of each label's examples; else, as for scores, of all of them.
    """

    of: RawSplit
    share: float
    seed: int
    by_label: bool

    def describe(self) -> str:
        """Say in one line what is done."""
        how = "at random, of each label alike" if self.by_label else "at random"
        return f"no validation file: {self.share:g} of {self.of.place} is held out {how} (task.split_seed={self.seed})"

    def divide(self, examples: Examples) -> dict[str, Examples]:
        """Divide examples into those to learn from and those to validate on, both in the order of the file."""
        order: list[int] = np.random.default_rng(self.seed).permutation(len(examples)).tolist()
        count = max(1, round(self.share * len(examples)))
        if self.by_label and examples.labels is not None:
            held = _of_each_label(order, examples.labels, self.share, count)
        else:
            held = set(order[:count])
        if not held or (len(held) == len(examples) and self.share < 1):
            raise UserError(f"{self.of.place}: it has too few examples to hold some out; give a validation file")
        chosen = {"train": sorted({*order} - held), "validation": sorted(held)}
        return {name: examples.choose(places) for name, places in chosen.items() if places}


def _of_each_label(order: Sequence[int], labels: Sequence[float], share: float, count: int) -> set[int]:
    """Choose a share of each label's examples, ``count`` in all if that can be; each label keeps one to learn from.

    What is left after rounding down goes to the labels that lost most by it, of equals to that which ``order`` has
    first: in which order the classes are numbered does not matter.

    >>> sorted(_of_each_label([3, 0, 4, 1, 2], [7, 7, 8, 7, 7], share=0.5, count=2))
    [0, 3]
    """
    groups: dict[float, list[int]] = {}
    for place in order:
        groups.setdefault(labels[place], []).append(place)
    most = {label: len(group) - (share < 1) for label, group in groups.items()}
    taken = {label: min(int(share * len(group)), most[label]) for label, group in groups.items()}
    for label in sorted(groups, key=lambda label: taken[label] - share * len(groups[label])):
        if sum(taken.values()) < count and taken[label] < most[label]:
            taken[label] += 1
    return {place for label, group in groups.items() for place in group[: taken[label]]}


@dataclass
class CustomSource:
    """The user's own data, with its splits.

    Attributes:
        name: Of the source that the user chose: local or hub.
        splits: What there is, by name.
        label_column: The column with labels.
        read_label: Turns a cell into a class; None: labels are scores.
        random_split: How training and validation split are made, where there is no validation split.
    """

    name: str
    splits: Mapping[str, RawSplit]
    label_column: str
    read_label: Callable[[Any], int] | None
    random_split: RandomSplit | None = None
    _divided: dict[str, Examples] = field(default_factory=dict, repr=False, compare=False)

    def load(self, task: Task, split: str) -> Examples:
        """Load a split and check it."""
        if self.random_split is not None and split in ("train", "validation"):
            if not self._divided:
                self._divided.update(self.random_split.divide(self._read(task, self.random_split.of)))
            return self._known(task, split, self._divided)
        return self._read(task, self._known(task, split, self.splits))

    def _known(self, task: Task, split: str, found: Mapping[str, Any]) -> Any:
        if split not in found:
            raise UserError(f"task {task.name} has no {split} split; there is: {', '.join(found)}")
        return found[split]

    def _read(self, task: Task, raw: RawSplit) -> Examples:
        with readable(raw.place):
            return read_examples(
                raw.open(),
                task,
                source=raw.source,
                renamed={LABEL: self.label_column},
                skip_broken_rows=raw.skip_broken_rows,
                label_of=self.read_label,
            )
