"""What a task is: its columns, its labels, its metrics, and how the classic GLUE download lays it out.

The files ``conf/task/*.yaml`` are the registry; nothing here knows a task by name.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from effective_attention.errors import UserError

if TYPE_CHECKING:  # takes seconds to import, and a task is read long before its metrics are needed
    from torchmetrics import MetricCollection

LABEL = "label"
"""The hub's name for the label column, the same for every GLUE task."""

_CHOSEN_WITH = {"local": "data=local data.dir=<folder>", "file": "data=local data.file=<file>"}


@dataclass(frozen=True)
class Task:
    """One task, built by Hydra from ``conf/task/<name>.yaml``.

    Sequences become tuples and mappings plain dicts, whatever the caller passed, so that ``Task(**task.to_dict()) ==
    task``.

    Args:
        name: The hub's configuration name, such as ``mrpc``.
        text_columns: The hub's names of the one or two text columns.
        metrics: Metric name → its ``_target_`` config, as GLUE defines them. They take predicted class ids (batch,), or
            scores (batch,) for regression, and the labels. Empty for a task without labels.
        main_metric: The metric that chooses the best checkpoint, larger is better; ``None`` for a task without labels.
        tsv_folder: The task's folder in the classic GLUE download, such as ``STS-B``.
        labels: Label names in the order of the hub's ids; empty for a regression task.
        label_range: Lowest and highest score of a regression task; ``None`` for classification. With neither, there is
            nothing to learn, only texts to look at.
        eval_splits: Labelled splits to evaluate on; the first is what "validation" means.
        tsv_renamed: The hub's column name → the classic TSV file's, for the columns whose names differ.
        tsv_header: Column names of TSV files that have no header line (CoLA); ``None`` where the first line is the
            header.
        loaders: Source's name → ``_target_`` config of a function that loads the task there in its own way; see
            ``loader``. A task that has any is available from these sources only. ``file`` stands for the local source
            with a single file instead of a folder.
        exchangeable: Whether the two texts of a pair may be exchanged without a change of the right answer, as where
            the question is if they say the same.
    """

    name: str
    text_columns: Sequence[str]
    metrics: Mapping[str, Mapping[str, Any]]
    main_metric: str | None
    tsv_folder: str
    labels: Sequence[str] = ()
    label_range: Sequence[float] | None = None
    eval_splits: Sequence[str] = ("validation",)
    tsv_renamed: Mapping[str, str] = field(default_factory=dict)
    tsv_header: Sequence[str] | None = None
    loaders: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exchangeable: bool = False

    def __post_init__(self) -> None:
        for name in ("text_columns", "labels", "label_range", "eval_splits", "tsv_header"):
            value = getattr(self, name)
            self._set(name, None if value is None else tuple(value))
        self._set("metrics", {name: dict(config) for name, config in self.metrics.items()})
        self._set("tsv_renamed", dict(self.tsv_renamed))
        self._set("loaders", {source: dict(config) for source, config in self.loaders.items()})
        _check(self)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the way to normalise a field of a frozen dataclass

    @property
    def has_labels(self) -> bool:
        return bool(self.labels) or self.is_regression

    @property
    def is_regression(self) -> bool:
        return self.label_range is not None

    @property
    def is_pair(self) -> bool:
        return len(self.text_columns) == 2

    @property
    def num_outputs(self) -> int:
        """Return the width of the classification head: one score, or one logit per label.

        A task without labels has a head of two, which nobody reads.
        """
        return 1 if self.is_regression else len(self.labels) or 2

    @property
    def is_one_file(self) -> bool:
        """Tell whether the user's own data is a single file, not a folder with splits."""
        return "file" in self.loaders

    @property
    def local_options(self) -> str:
        """Return the options that choose the user's own data."""
        return _CHOSEN_WITH["file" if self.is_one_file else "local"]

    @property
    def columns(self) -> tuple[str, ...]:
        """List every column an example needs, by the hub's names: the texts, then the label where there is one."""
        return (*self.text_columns, LABEL) if self.has_labels else tuple(self.text_columns)

    def split_name(self, split: str) -> str:
        """Return the hub's name of a split: plain "validation" is the first evaluation split (MNLI has two)."""
        return self.eval_splits[0] if split == "validation" else split

    def loader(self, source: str) -> Callable[..., Any] | None:
        """Return the function that loads this task from a source; None: it is loaded as GLUE is.

        The function is called with the task, the split and the source's options.

        Raises:
            UserError: The task is not available from this source.
        """
        if not self.loaders:
            return None
        if source not in self.loaders:
            others = " or ".join(_CHOSEN_WITH.get(name, f"data={name}") for name in self.loaders)
            raise UserError(f"data={source}: task {self.name} is not available there; add {others}")
        from hydra.utils import instantiate

        return instantiate(self.loaders[source], _partial_=True, _convert_="all")

    def build_metrics(self) -> MetricCollection:
        """Build fresh metrics, so that two evaluations never share a state."""
        return metric_collection(self.metrics)

    def to_dict(self) -> dict[str, Any]:
        """Return the task as lists, dicts, strings and numbers only, fit for JSON and a ``weights_only`` checkpoint."""
        return {name: _primitive(value) for name, value in asdict(self).items()}


def metric_collection(configs: Mapping[str, Mapping[str, Any]]) -> MetricCollection:
    """Build metrics from their configs, by name."""
    from torchmetrics import MetricCollection

    return MetricCollection({name: _metric(config) for name, config in configs.items()})


def _metric(config: Mapping[str, Any]) -> Any:
    """Build what a flat ``_target_`` config names, as Hydra would, without loading Hydra."""
    options = {name: value for name, value in config.items() if name != "_target_"}
    return pkgutil.resolve_name(config["_target_"])(**options)


def _primitive(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _primitive(item) for key, item in value.items()}
    return [_primitive(item) for item in value] if isinstance(value, list | tuple) else value


def _check(task: Task) -> None:
    """Refuse a task file that would only fail later, with an error hard to understand."""
    place = f"task {task.name}"
    _check_texts(task, place)
    if task.is_regression and task.labels:
        raise UserError(f"{place}: give either labels (classification) or label_range (regression), not both")
    if not task.has_labels and (task.metrics or task.main_metric is not None):
        raise UserError(
            f"{place}: metrics need either labels (classification) or label_range (regression), got neither"
        )
    if task.labels and (len(task.labels) < 2 or len(set(task.labels)) < len(task.labels)):
        raise UserError(f"{place}: labels must be at least two different names, got {list(task.labels)}")
    if task.label_range is not None and not (len(task.label_range) == 2 and task.label_range[0] < task.label_range[1]):
        raise UserError(f"{place}: label_range must be [lowest, highest], got {list(task.label_range)}")
    if task.has_labels and task.main_metric not in task.metrics:
        raise UserError(
            f"{place}: main_metric must be one of its metrics ({', '.join(task.metrics)}), got {task.main_metric!r}"
        )
    if not task.eval_splits:
        raise UserError(f"{place}: eval_splits must name at least one split, such as [validation]")


def _check_texts(task: Task, place: str) -> None:
    if len(task.text_columns) not in (1, 2):
        raise UserError(f"{place}: text_columns must name one or two columns, got {list(task.text_columns)}")
    if task.exchangeable and not task.is_pair:
        raise UserError(f"{place}: exchangeable is for pairs of texts, got the one column {task.text_columns[0]!r}")
