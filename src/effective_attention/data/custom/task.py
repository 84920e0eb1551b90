"""What ``task=custom`` is given: columns, and how to read them. ``complete`` makes a task of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from effective_attention.data.tasks import metric_collection
from effective_attention.errors import UserError

if TYPE_CHECKING:
    from torchmetrics import MetricCollection

_MODULE = "torchmetrics"


@dataclass(frozen=True)
class CustomTask:
    """A task whose labels are found in the user's data; built by Hydra from ``conf/task/custom.yaml``.

    Args:
        name: What the task is called in results.
        text_columns: One or two columns with texts; None or empty is refused once the data's columns can be listed.
        label_column: The column with labels.
        labels: Names of the labels, in the order of the classes; None: those found in the data, sorted.
        regression: Whether labels are scores.
        validation_share: Share of the examples that is held out where the data has no validation split.
        split_seed: Seed of that random split. It is not the run's ``seed``: runs that differ in that one are tested on
            the same examples, and an evaluation on none that were learnt from.
        metrics: Metric name → its ``_target_`` config; empty: accuracy and macro-F1, or Pearson and Spearman.
        main_metric: The one that chooses the best checkpoint; None: the first.
    """

    name: str = "custom"
    text_columns: str | Sequence[str] | None = None
    label_column: str = "label"
    labels: Sequence[str | int] | None = None
    regression: bool = False
    validation_share: float = 0.2
    split_seed: int = 0
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    main_metric: str | None = None

    has_labels = True  # as soon as they are found

    def __post_init__(self) -> None:
        columns = [self.text_columns] if isinstance(self.text_columns, str) else self.text_columns
        object.__setattr__(self, "text_columns", tuple(columns or ()))
        if len(self.columns) > 2:
            raise UserError(f"task.text_columns must name one or two columns, got {list(self.columns)}")
        if self.labels is not None:
            object.__setattr__(self, "labels", tuple(map(str, self.labels)))
        if self.regression and self.labels is not None:
            raise UserError(
                "task.labels names classes, and task.regression=true asks for scores; leave one of them out"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the text columns."""
        return tuple(self.text_columns or ())

    def chosen_metrics(self, classes: int) -> dict[str, Mapping[str, Any]]:
        """Return the configs of the metrics, for so many classes."""
        if self.metrics:
            return dict(self.metrics)
        if self.regression:
            kinds = {"pearson": "PearsonCorrCoef", "spearman": "SpearmanCorrCoef"}
            return {name: {"_target_": f"{_MODULE}.regression.{kind}"} for name, kind in kinds.items()}
        averages = {"accuracy": ("MulticlassAccuracy", "micro"), "macro_f1": ("MulticlassF1Score", "macro")}
        return {
            name: {"_target_": f"{_MODULE}.classification.{kind}", "num_classes": classes, "average": average}
            for name, (kind, average) in averages.items()
        }

    def build_metrics(self) -> MetricCollection:
        """Build the metrics that the user named, to see whether that works."""
        return metric_collection(self.metrics)
