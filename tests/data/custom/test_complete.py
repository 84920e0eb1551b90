"""A task of the user's own: labels and splits are found in the data; what cannot be is refused in one line."""

import csv
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from effective_attention.data.custom.complete import Completed, ModelLabels, complete
from effective_attention.data.custom.task import CustomTask
from effective_attention.data.sources import HubSource, LocalSource, SampleSource
from effective_attention.errors import UserError

TRAINED = ModelLabels("model tiny", is_ours=True)
Rows = Sequence[tuple[Any, ...]]
THREE: Rows = [(f"Text {n}.", ("good", "bad", "so-so")[n % 3]) for n in range(30)]


def write(path: Path, rows: Rows, columns: Sequence[str] = ("text", "label")) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def found(folder: Path, model: ModelLabels = TRAINED, split: str | None = None, **options: Any) -> Completed:
    return complete(CustomTask(**{"text_columns": ["text"], **options}), LocalSource(folder), model, split=split)


def refuses(folder: Path, message: str, model: ModelLabels = TRAINED, **options: Any) -> None:
    with pytest.raises(UserError, match=message) as caught:
        found(folder, model, **options)
    assert "\n" not in str(caught.value)


# --- labels ---


def test_labels_metrics_and_splits(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", THREE)
    write(tmp_path / "dev.csv", THREE[:3])
    made = found(tmp_path)
    assert made.task.labels == ("bad", "good", "so-so")
    assert (list(made.task.metrics), made.task.main_metric) == (["accuracy", "macro_f1"], "accuracy")
    assert made.source.load(made.task, "validation").labels == [1, 0, 2]
    assert len(made.source.load(made.task, "train")) == 30
    assert made.notes == [f"labels in {tmp_path / 'train.csv'}: bad (10), good (10), so-so (10)"]
    assert made.facts == {}
    made.task.build_metrics()


def test_numbers_are_sorted_as_numbers_and_are_no_ids(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", [("a", 10), ("b", 9), ("c", 2)] * 4)
    write(tmp_path / "validation.csv", [("a", 0)])
    made = found(tmp_path)
    assert made.task.labels == ("2", "9", "10")
    with pytest.raises(UserError, match=r"line 2: label '0' is not one of 2, 9, 10"):
        made.source.load(made.task, "validation")


def test_labels_may_be_given_in_an_order(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", THREE)
    assert found(tmp_path, labels=["good", "so-so", "bad"]).task.labels == ("good", "so-so", "bad")


def test_pairs_and_other_columns_and_jsonl(tmp_path: Path) -> None:
    rows = [{"q": "Why?", "a": "So.", "ok": n % 2} for n in range(8)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = found(tmp_path, text_columns=["q", "a"], label_column="ok")
    assert made.source.load(made.task, "train").texts[0] == ("Why?", "So.")
    assert made.task.labels == ("0", "1")


def test_scores(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", [(f"t{n}", n / 2) for n in range(10)])
    made = found(tmp_path, regression=True)
    assert (made.task.label_range, list(made.task.metrics)) == ((0.0, 4.5), ["pearson", "spearman"])
    assert made.notes[0] == "scores from 0 to 4.5"


# --- splits ---


def test_a_random_split_is_stated_and_does_not_change(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", THREE)
    write(tmp_path / "test.csv", THREE[:3])  # not taken for validation
    first, again, other = (found(tmp_path, split_seed=seed) for seed in (0, 0, 1))
    parts = {name: first.source.load(first.task, name).texts for name in ("train", "validation")}
    assert (len(parts["train"]), len(parts["validation"])) == (24, 6)
    assert {*parts["train"], *parts["validation"]} == {(text,) for text, _ in THREE}
    assert again.source.load(again.task, "validation").texts == parts["validation"]
    assert other.source.load(other.task, "validation").texts != parts["validation"]
    held = "held out at random, of each label alike (task.split_seed=0)"
    line = f"no validation file: 0.2 of {tmp_path / 'train.csv'} is {held}"
    assert (first.notes[1], first.facts) == (line, {"run/split": line})
    assert first.task.eval_splits == ("validation", "test")


@pytest.mark.parametrize(
    ("counts", "share", "held"),
    [
        ({"a": 90, "b": 10}, 0.2, {"a": 18, "b": 2}),
        ({"a": 40, "b": 4, "c": 1}, 0.2, {"a": 8, "b": 1}),  # one of its kind is learnt from
        ({"a": 7, "b": 7, "c": 7}, 0.2, None),  # 1.4 of each: 4 in all
        ({"a": 2, "b": 2}, 0.9, {"a": 1, "b": 1}),
        ({"a": 3, "b": 1}, 1, {"a": 3, "b": 1}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_each_label_is_held_out_alike(
    counts: dict[str, int], share: float, held: dict[str, int] | None, seed: int, tmp_path: Path
) -> None:
    rows = [(f"{label} {number}", label) for label, count in counts.items() for number in range(count)]
    write(tmp_path / "train.csv", rows)
    made = found(tmp_path, validation_share=share, split_seed=seed)
    validation = Counter(text.split()[0] for (text,) in made.source.load(made.task, "validation").texts)
    if held is None:
        assert sorted(validation.values()) == [1, 1, 2]
    else:
        assert validation == held


def test_which_are_held_out_does_not_depend_on_the_order_of_the_classes(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", [(f"text {n}", "abc"[n % 3]) for n in range(31)])
    held = [found(tmp_path, labels=labels).source for labels in (None, ["c", "a", "b"])]
    one, other = (source.load(found(tmp_path).task, "validation").texts for source in held)
    assert one == other


def test_labels_of_one_example_each_cannot_be_divided(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", [("one", "a"), ("two", "b")])
    made = found(tmp_path)
    with pytest.raises(UserError, match=r"too few examples to hold some out; give a validation file"):
        made.source.load(made.task, "validation")


def test_scores_are_held_out_of_all(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", [(f"t{n}", n % 2) for n in range(20)])
    made = found(tmp_path, regression=True)
    assert len(made.source.load(made.task, "validation")) == 4
    assert made.facts["run/split"].endswith("is held out at random (task.split_seed=0)")


def test_a_single_file_is_divided_for_learning_and_whole_for_testing(tmp_path: Path) -> None:
    source = LocalSource(file=write(tmp_path / "mine.csv", THREE))
    task = CustomTask(text_columns="text")
    divided = complete(task, source, TRAINED)
    assert len(divided.source.load(divided.task, "validation")) == 6
    whole = complete(task, source, ModelLabels("checkpoint=it", ["good", "bad", "so-so"]))
    assert (whole.task.eval_splits, len(whole.source.load(whole.task, "all"))) == (("all",), 30)
    everything = complete(CustomTask(text_columns="text", validation_share=1), source, TRAINED)
    assert len(everything.source.load(everything.task, "validation")) == 30
    with pytest.raises(UserError, match="no train split"):
        everything.source.load(everything.task, "train")


def test_a_test_file_alone_is_taken_when_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "test.csv", THREE)
    refuses(tmp_path, "is the only file; add split=test")
    made = found(tmp_path, split="test")
    assert len(made.source.load(made.task, "test")) == 30


# --- a model that knows its labels ---


@pytest.mark.parametrize(
    ("known", "ours", "labels"),
    [
        (["GOOD", "So So", "Bad"], False, [0, 2, 1]),
        (["good", "bad", "so-so", "never seen"], False, [0, 1, 2]),
        (["so-so", "good", "bad"], True, [1, 2, 0]),
    ],
)
def test_labels_of_the_model(known: list[str], ours: bool, labels: list[int], tmp_path: Path) -> None:
    write(tmp_path / "train.csv", THREE)
    write(tmp_path / "validation.csv", THREE[:3])
    made = found(tmp_path, ModelLabels("checkpoint=it", known, is_ours=ours))
    assert made.task.labels == tuple(known)
    assert made.source.load(made.task, "validation").labels == labels


def test_numbers_of_the_outputs(tmp_path: Path) -> None:
    write(tmp_path / "validation.csv", [("a", 1), ("b", 0)])
    made = found(tmp_path, ModelLabels("checkpoint=it", ["negative", "positive"]))
    assert made.source.load(made.task, "validation").labels == [1, 0]
    assert made.notes[1] == "labels are numbers, taken for those of the model's outputs: 0 negative, 1 positive"
    refuses(tmp_path, "its labels are 0, 1, those of", ModelLabels("checkpoint=it", ["no", "yes"], is_ours=True))


def test_outputs_without_names_leave_the_order_to_the_data(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", THREE)
    made = found(tmp_path, ModelLabels("checkpoint=it", ["LABEL_0", "LABEL_1", "LABEL_2"]))
    assert made.task.labels == ("bad", "good", "so-so")


def test_labels_that_are_given_name_the_outputs_of_a_model_made_elsewhere(tmp_path: Path) -> None:
    write(tmp_path / "validation.csv", [("one", "a"), ("two", "b")])
    for known in (["LABEL_0", "LABEL_1"], ["A", "B"]):
        made = found(tmp_path, ModelLabels("checkpoint=x", known), labels=["b", "a"])
        assert made.task.labels == ("b", "a")
    own = ModelLabels("checkpoint=x", ["a", "b"], is_ours=True)
    assert found(tmp_path, own, labels=["b", "a"]).task.labels == ("a", "b")
    refuses(tmp_path, "task.labels are b, c, those of checkpoint=x a, b; leave task.labels out", own, labels=["b", "c"])


def test_other_labels_than_the_models_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", THREE)
    message = "its labels are bad, good, so-so, those of checkpoint=it no, yes; evaluate on data with the labels"
    for ours in (True, False):
        refuses(tmp_path, message, ModelLabels("checkpoint=it", ["no", "yes"], is_ours=ours))
    refuses(tmp_path, "checkpoint=it gives scores.*add task.regression=true", ModelLabels("checkpoint=it", []))
    refuses(
        tmp_path, "has the labels no, yes; leave it out", ModelLabels("checkpoint=it", ["no", "yes"]), regression=True
    )


# --- what is refused ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_columns": None}, r"task\.text_columns is not set; .*\(the columns of .*train\.csv are: text, label\)"),
        ({"text_columns": ["txt"]}, r"task\.text_columns: there is no column 'txt' \(the columns .*: text, label\)"),
        ({"label_column": "y"}, r"no column 'y' for the labels; add task\.label_column=<column> \(the columns"),
        ({"label_column": "text"}, r"task\.text_columns names the label column"),
        ({"regression": True}, r"label 'good' is not a number; task\.regression=true needs scores"),
        ({"text_columns": ["a", "b", "c"]}, r"task\.text_columns must name one or two columns"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    write(tmp_path / "train.csv", THREE)
    refuses(tmp_path, message, **options)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["x"] * 10, r"has only the label 'x', and classes are two or more"),
        ([str(n / 7) for n in range(10)], r"has 10 different labels in 10 rows; are they scores\? .*regression=true"),
        ([f"w{n}" for n in range(10)], r"has 10 different labels in 10 rows; are they texts\?"),
        (["[0, 1]", "[1, 0]"] * 5, "labels of tokens are not supported"),
    ],
)
def test_wrong_labels(labels: list[str], message: str, tmp_path: Path) -> None:
    write(tmp_path / "train.csv", [("a text", label) for label in labels])
    refuses(tmp_path, message)


def test_lists_are_labels_of_tokens(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"text": "a b", "label": [0, 1]}\n')
    refuses(tmp_path, "labels of tokens are not supported, only of whole texts")


def test_an_empty_label_is_refused_with_its_line(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", [*THREE, ("one more", "")])
    made = found(tmp_path)
    with pytest.raises(UserError, match=r"train\.csv, line 32: it has no label"):
        made.source.load(made.task, "train")


def test_data_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path / "reviews.csv", THREE)
    refuses(tmp_path, r"no train file \(\.tsv, \.csv, \.jsonl or \.parquet\); there are reviews\.csv: name one with")
    task = CustomTask(text_columns="text")
    with pytest.raises(UserError, match=r"data\.file=.*\.txt: its name must end with"):
        complete(task, LocalSource(file=tmp_path / "a.txt"), TRAINED)
    with pytest.raises(UserError, match=r"add data=local data\.dir=<folder with train\.csv>.*data=hub data\.name"):
        complete(task, SampleSource(), TRAINED)


# --- the hub ---


def hub(folder: Path, names: list[str] | None, splits: Sequence[str]) -> HubSource:
    """Make a folder in the hub's layout."""
    from datasets import ClassLabel, Dataset

    dataset = Dataset.from_dict({"review": [text for text, _ in THREE], "stars": [n % 3 for n in range(30)]})
    if names is not None:
        dataset = dataset.cast_column("stars", ClassLabel(names=names))
    for split in splits:
        path = folder / "data" / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        dataset.to_parquet(path)
    return HubSource(str(folder), cache_dir=str(folder / "cache"))


@pytest.mark.parametrize(
    ("names", "labels"), [(["low", "high", "mid"], ("low", "high", "mid")), (None, ("0", "1", "2"))]
)
def test_hub_datasets(names: list[str] | None, labels: tuple[str, ...], tmp_path: Path) -> None:
    source = hub(tmp_path, names, ["train", "validation"])
    made = complete(CustomTask(text_columns=["review"], label_column="stars"), source, TRAINED)
    assert made.task.labels == labels
    assert made.source.load(made.task, "validation").labels[:4] == [0, 1, 2, 0]
    assert (made.source.name, made.facts) == ("hub", {})


def test_a_test_split_of_the_hub_is_not_taken_for_validation(tmp_path: Path) -> None:
    source = hub(tmp_path, None, ["train", "test"])
    made = complete(CustomTask(text_columns=["review"], label_column="stars"), source, TRAINED)
    assert "is held out at random" in made.facts["run/split"]
    assert len(made.source.load(made.task, "validation")) == 6


def test_hub_unreachable(tmp_path: Path) -> None:
    source = HubSource("somebody/something", cache_dir=str(tmp_path))
    with pytest.raises(UserError, match=r"data=hub: .*somebody/something") as caught:
        complete(CustomTask(text_columns=["review"]), source, TRAINED)
    assert "\n" not in str(caught.value)
    assert "data=sample" not in str(caught.value), "a task of one's own has no sample"
