"""Make a plain task and a source of what ``task=custom`` was given, by looking into the user's data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from effective_attention.data.custom.labels import Classes, find_classes, find_range, known_classes
from effective_attention.data.custom.source import CustomSource, RandomSplit
from effective_attention.data.custom.splits import ONE_FILE, RawSplit, find_splits, readable
from effective_attention.data.custom.task import CustomTask
from effective_attention.data.tasks import LABEL, Task
from effective_attention.errors import UserError, listed, shorten


@dataclass(frozen=True)
class ModelLabels:
    """What is known of the model before it is loaded.

    Attributes:
        place: The option that names it.
        labels: What it was finetuned on, in the order of its outputs; empty: scores; None: nothing is known.
        is_ours: Whether it is, or was, trained by this project: then some of these examples are for learning.
    """

    place: str
    labels: Sequence[str] | None = None
    is_ours: bool = False


@dataclass(frozen=True)
class Completed:
    """A task with its labels, its data, and what there is to say of them: lines for the log, facts for the results."""

    task: Task
    source: CustomSource
    notes: list[str]
    facts: dict[str, Any] = field(default_factory=dict)


def complete(task: CustomTask, source: Any, model: ModelLabels, *, split: str | None = None) -> Completed:
    """Look into the data, and find labels and splits.

    Args:
        task: What the user gave.
        source: The source that the user chose.
        model: Whose labels are used, where it has some.
        split: The one that is asked for; None: the validation split.

    Raises:
        UserError: A column is missing, the labels do not do, or there is nothing to evaluate on.
    """
    splits = find_splits(source, task.name, task.label_column)
    first = next(iter(splits.values()))
    with readable(first.place):
        _check_columns(task, first)
        _check_kind(task, model)
        classes = None if task.regression else _classes(task, first, model)
        label_range = find_range([*splits.values()], task.label_column) if task.regression else None
    random = _random_split(task, splits, model)
    names = () if classes is None else classes.names
    evaluated = _eval_splits(splits, split, is_divided=random is not None)
    made = task_with_labels(task, names, label_range=label_range, eval_splits=evaluated)
    found = CustomSource(source.name, splits, task.label_column, None if classes is None else classes.read, random)
    notes = _notes(first, classes, label_range)
    if random is None:
        return Completed(made, found, notes)
    return Completed(made, found, [*notes, random.describe()], {"run/split": random.describe()})


def _check_columns(task: CustomTask, split: RawSplit) -> None:
    """Refuse columns that are not there; say which are."""
    there = split.columns()
    listing = f"the columns of {split.place} are: {listed(there) or 'none'}"
    if len(there) == 1 and ";" in there[0]:
        listing += "; is ; its separator? save it with commas"
    if not task.columns:
        raise UserError(f"task.text_columns is not set; add task.text_columns=[<one or two columns>] ({listing})")
    missing = [column for column in task.columns if column not in there]
    if missing:
        raise UserError(f"task.text_columns: there is no column {missing[0]!r} ({listing})")
    if task.label_column not in there:
        raise UserError(
            f"there is no column {task.label_column!r} for the labels; add task.label_column=<column> ({listing})"
        )
    if task.label_column in task.columns or LABEL in task.columns:
        raise UserError(f"task.text_columns names the label column; name another one ({listing})")


def _check_kind(task: CustomTask, model: ModelLabels) -> None:
    """Refuse scores for a model of classes, and classes for a model of scores."""
    if model.labels is None or bool(model.labels) != task.regression:
        return
    if task.regression:
        labels = listed(model.labels)
        raise UserError(
            f"task.regression=true asks for scores, and {model.place} has the labels {labels}; leave it out"
        )
    raise UserError(f"{model.place} gives scores, and task={task.name} has classes; add task.regression=true")


def _classes(task: CustomTask, split: RawSplit, model: ModelLabels) -> Classes:
    given = None if task.labels is None else [str(name) for name in task.labels]
    if model.labels is None or (given is not None and not model.is_ours):
        return find_classes(split, task.label_column, given)  # a model made elsewhere is put into this order
    if given is not None and set(given) != set(model.labels):
        raise UserError(
            f"task.labels are {listed(given)}, those of {model.place} {listed(model.labels)}; leave task.labels out"
        )
    return known_classes(split, task.label_column, model.labels, place=model.place, numbers=not model.is_ours)


def _random_split(task: CustomTask, splits: Mapping[str, RawSplit], model: ModelLabels) -> RandomSplit | None:
    """Hold out a validation split where there is none; a single file is only divided if a model learns from it here."""
    whole = splits.get("train", splits.get(ONE_FILE))
    if whole is None or "validation" in splits or (ONE_FILE in splits and not model.is_ours):
        return None
    return RandomSplit(whole, task.validation_share, task.split_seed, by_label=not task.regression)


def _eval_splits(splits: Mapping[str, RawSplit], split: str | None, *, is_divided: bool) -> list[str]:
    """Return what may be evaluated on, first what is if nothing else is asked for."""
    found = (["validation"] if is_divided else []) + [name for name in splits if name not in ("train", ONE_FILE)]
    if found == ["test"] and split is None:
        raise UserError(f"{splits['test'].place} is the only file; add split=test to evaluate on it")
    return found or [ONE_FILE]


def task_with_labels(
    task: CustomTask,
    labels: Sequence[str],
    *,
    label_range: tuple[float, float] | None = None,
    eval_splits: Sequence[str] = ("validation",),
) -> Task:
    """Make a plain task of what the user gave and the labels that were found.

    Args:
        task: What the user gave.
        labels: In the order of the classes; empty for scores.
        label_range: Of scores; None: not known.
        eval_splits: What may be evaluated on.
    """
    metrics = task.chosen_metrics(len(labels))
    return Task(
        name=task.name,
        text_columns=task.columns,
        metrics=metrics,
        main_metric=task.main_metric or next(iter(metrics)),
        tsv_folder=task.name,
        labels=labels,
        label_range=(label_range or (0.0, 1.0)) if task.regression else None,
        eval_splits=eval_splits,
    )


def _notes(split: RawSplit, classes: Classes | None, label_range: tuple[float, float] | None) -> list[str]:
    """Say which labels were found, and how often."""
    if classes is None:
        low, high = label_range or (0.0, 0.0)
        return [f"scores from {low:g} to {high:g}"]
    counts = listed([f"{shorten(name)} ({count})" for name, count in classes.counts.items()])
    return [f"labels in {split.place}: {counts}", *([] if classes.note is None else [classes.note])]
