"""Every task file composes, instantiates and scores as GLUE does; a wrong one is refused in one line."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from effective_attention.data.tasks import Task
from effective_attention.errors import UserError
from helpers.paths import CONF

NAMES = sorted(path.stem for path in (CONF / "task").glob("*.yaml") if path.stem != "custom")  # see custom/


def load_task(name: str) -> Task:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return instantiate(compose(overrides=[f"+task={name}"]).task)


def make_task(**changes: Any) -> Task:
    options = {
        "name": "toy",
        "text_columns": ["sentence"],
        "labels": ["no", "yes"],
        "metrics": {"accuracy": {"_target_": "torchmetrics.classification.BinaryAccuracy"}},
        "main_metric": "accuracy",
        "tsv_folder": "TOY",
    }
    return Task(**(options | changes))


def test_registry_holds_all_of_glue() -> None:
    assert set(NAMES) >= {"rte", "mrpc", "qnli", "sst2", "stsb", "cola", "mnli", "qqp", "wnli"}


@pytest.mark.parametrize("name", NAMES)
def test_task_file_instantiates_as_plain_values(name: str) -> None:
    task = load_task(name)
    assert task.name == name
    assert not any(OmegaConf.is_config(value) for value in vars(task).values())
    assert set(task.tsv_renamed) <= set(task.columns)
    assert json.loads(json.dumps(task.to_dict())) == task.to_dict()
    assert Task(**task.to_dict()) == task


@pytest.mark.parametrize("name", NAMES)
def test_metrics_are_fresh_each_time(name: str) -> None:
    task = load_task(name)
    first, second = task.build_metrics(), task.build_metrics()
    assert set(first) == set(task.metrics)
    assert task.main_metric in (first if task.has_labels else [None])
    assert all(first[metric] is not second[metric] for metric in task.metrics)


@pytest.mark.parametrize(
    ("name", "outputs", "pair", "splits"),
    [
        ("mrpc", 2, True, ("validation",)),
        ("sst2", 2, False, ("validation",)),
        ("stsb", 1, True, ("validation",)),
        ("mnli", 3, True, ("validation_matched", "validation_mismatched")),
    ],
)
def test_shape_of_a_task(name: str, outputs: int, pair: bool, splits: tuple[str, ...]) -> None:
    task = load_task(name)
    assert (task.num_outputs, task.is_pair, task.eval_splits) == (outputs, pair, splits)
    assert task.is_regression == (name == "stsb")
    assert task.split_name("validation") == splits[0]
    assert task.split_name("train") == "train"


ORACLES = {
    "accuracy": lambda predicted, true: accuracy_score(true, predicted),
    "f1": lambda predicted, true: f1_score(true, predicted),  # of class 1
    "matthews_correlation": lambda predicted, true: matthews_corrcoef(true, predicted),
    "pearson": lambda predicted, true: pearsonr(predicted, true).statistic,
    "spearman": lambda predicted, true: spearmanr(predicted, true).statistic,
}
GLUE_METRICS = {
    "mrpc": {"accuracy", "f1"},
    "qqp": {"accuracy", "f1"},
    "cola": {"matthews_correlation"},
    "stsb": {"pearson", "spearman"},
} | {name: {"accuracy"} for name in ("rte", "qnli", "sst2", "mnli", "wnli")}


def score(task: Task, predicted: Any, true: Any) -> dict[str, float]:
    metrics = task.build_metrics()
    for part in (slice(0, 3), slice(3, None)):  # in two batches, as in a real evaluation
        if len(predicted[part]):
            metrics.update(torch.as_tensor(predicted[part]), torch.as_tensor(true[part]))
    return {name: float(value) for name, value in metrics.compute().items()}


@pytest.mark.parametrize("name", sorted(GLUE_METRICS))
def test_metrics_agree_with_scikit_learn_and_scipy(name: str) -> None:
    task = load_task(name)
    generator = np.random.default_rng(0)
    for _ in range(3):
        if task.is_regression:
            true = generator.uniform(0, 5, 60).round(1).astype(np.float32)  # rounded: ties matter to Spearman
            predicted = (true + generator.normal(0, 1, 60).round(1)).astype(np.float32)
        else:
            true, predicted = generator.integers(0, task.num_outputs, (2, 60))
        expected = {metric: ORACLES[metric](predicted, true) for metric in GLUE_METRICS[name]}
        assert score(task, predicted, true) == pytest.approx(expected, abs=1e-5)


@pytest.mark.filterwarnings("ignore")  # scikit-learn warns of a single class, which is what is tested
@pytest.mark.parametrize("name", ["cola", "mrpc"])
def test_metrics_agree_with_scikit_learn_on_every_degenerate_case(name: str) -> None:
    task = load_task(name)
    cases = list(itertools.product(itertools.product((0, 1), repeat=3), repeat=2))
    for predicted, true in [*cases, ([1] * 1043, [1] * 721 + [0] * 322)]:  # the last: CoLA's dev, always "acceptable"
        expected = {metric: ORACLES[metric](predicted, true) for metric in GLUE_METRICS[name]}
        assert score(task, predicted, true) == pytest.approx(expected, abs=1e-6), (predicted, true)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"text_columns": ["a", "b", "c"]},
            r"task toy: text_columns must name one or two columns, got \['a', 'b', 'c'\]",
        ),
        ({"labels": []}, "either labels .* or label_range"),
        ({"label_range": [0.0, 5.0]}, "either labels .* or label_range"),
        ({"labels": ["yes", "yes"]}, "at least two different names"),
        ({"labels": ["yes"]}, "at least two different names"),
        ({"labels": [], "label_range": [5.0, 0.0]}, r"label_range must be \[lowest, highest\]"),
        ({"main_metric": "f1"}, r"main_metric must be one of its metrics \(accuracy\), got 'f1'"),
        ({"labels": [], "metrics": {}}, "metrics need either labels .* or label_range .*, got neither"),
        ({"labels": [], "main_metric": None}, "metrics need either labels .* or label_range .*, got neither"),
        ({"main_metric": None}, r"main_metric must be one of its metrics \(accuracy\), got None"),
        ({"eval_splits": []}, "eval_splits must name at least one"),
        ({"exchangeable": True}, "exchangeable is for pairs of texts, got the one column 'sentence'"),
    ],
)
def test_wrong_task_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_task(**changes)


def test_the_texts_of_some_pairs_may_be_exchanged() -> None:
    pairs = {name: load_task(name).exchangeable for name in ("mrpc", "qqp", "stsb", "rte", "mnli", "qnli", "wnli")}
    assert [name for name, exchangeable in pairs.items() if exchangeable] == ["mrpc", "qqp", "stsb"]
    assert Task(**load_task("mrpc").to_dict()) == load_task("mrpc")


def test_a_task_without_labels() -> None:
    task = make_task(labels=[], metrics={}, main_metric=None)
    assert (task.has_labels, task.is_regression, task.columns) == (False, False, ("sentence",))
    assert task.num_outputs == 2, "a head that nobody reads"
    assert len(task.build_metrics()) == 0
    assert Task(**task.to_dict()) == task
    assert make_task().has_labels
    assert load_task("stsb").has_labels


@pytest.mark.parametrize(("name", "source"), [("treebank", "sample"), ("treebank", "hub"), ("agreement", "hub")])
def test_a_task_with_loaders_is_to_be_had_from_these_only(name: str, source: str) -> None:
    with pytest.raises(
        UserError, match=f"^data={source}: task {name} is not available there; add .*data=local data.dir=<folder>$"
    ):
        load_task(name).loader(source)
    assert load_task("mrpc").loader(source) is None


def test_omegaconf_containers_become_plain_ones() -> None:
    task = make_task(labels=OmegaConf.create(["no", "yes"]), tsv_renamed=OmegaConf.create({"label": "y"}))
    assert task.labels == ("no", "yes")
    assert type(task.tsv_renamed) is dict
