"""Sources read what is right, exactly, and refuse what is wrong with the file, the line and what to do."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effective_attention.data.annotation.tagging import TaggedText
from effective_attention.data.sources import Examples, HubSource, LocalSource, SampleSource
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError
from helpers.paths import CONF, GLUE, ROOT

PAIRS = [("A cat sat.", "A cat was sitting.", 1), ('He said "no .', "Who knows, really?", 0)]
MRPC_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


def config(*overrides: str) -> Any:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(overrides=list(overrides))


def load_task(name: str) -> Task:
    return instantiate(config(f"+task={name}").task)


mrpc, stsb, sst2, cola, mnli = (load_task(name) for name in ("mrpc", "stsb", "sst2", "cola", "mnli"))


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_columns(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write a table in the format its extension says, by code that is not the project's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8", newline="")
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(columns))
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = ["\t".join(columns), *("\t".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")


def hub_columns(rows: list[tuple[str, str, int]]) -> dict[str, list[Any]]:
    first, second, labels = (list(column) for column in zip(*rows, strict=True))
    return {"sentence1": first, "sentence2": second, "label": labels, "idx": list(range(len(rows)))}


def refuses(folder: Path, message: str, task: Task = mrpc, split: str = "train") -> None:
    with pytest.raises(UserError, match=message) as caught:
        LocalSource(str(folder)).load(task, split)
    assert "\n" not in str(caught.value)


# --- local: where files are looked for ---


@pytest.mark.parametrize(
    "name",
    ["mrpc/validation.csv", "MRPC/dev.csv", "validation.jsonl", "dev.jsonl", "mrpc/dev.parquet", "validation.parquet"],
)
def test_local_finds_every_layout(tmp_path: Path, name: str) -> None:
    write_columns(tmp_path / name, hub_columns(PAIRS))
    examples = LocalSource(str(tmp_path)).load(mrpc, "validation")
    assert examples == Examples([row[:2] for row in PAIRS], [1, 0], f"file {tmp_path / name}")
    assert len(examples) == 2


@pytest.mark.parametrize("name", ["MRPC/train.tsv", "train.tsv"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_local_reads_classic_tsv(tmp_path: Path, name: str, bom: str, end: str) -> None:
    content = (
        bom
        + MRPC_HEADER
        + "1\t7\t8\tA cat sat.\tA cat was sitting.\n"
        + '0\t9\t10\tHe said "no .\tWho knows, really?\n\n'
    )
    write(tmp_path / name, content.replace("\n", end))
    examples = LocalSource(str(tmp_path)).load(mrpc, "train")
    assert (examples.texts, examples.labels) == ([row[:2] for row in PAIRS], [1, 0])


@pytest.mark.parametrize("repeats", [1, 2], ids=["missing", "twice"])
@pytest.mark.parametrize(
    "header", ["x" * 3_000_000, "\t".join(f"c{n}" for n in range(400_000)), "\x1b[2J\x00"], ids=["long", "many", "odd"]
)
def test_a_header_of_megabytes_is_not_printed(header: str, repeats: int, tmp_path: Path) -> None:
    write(tmp_path / "MRPC" / "train.tsv", "\t".join([header] * repeats) + "\n1\ta\tb\n")
    with pytest.raises(UserError) as error:
        LocalSource(tmp_path).load(mrpc, "train")
    assert len(str(error.value)) < 500 + len(str(tmp_path))
    assert str(error.value).isprintable()


def test_a_short_row_of_a_wide_table_is_one_short_line(tmp_path: Path) -> None:
    columns = ["label", "sentence1", "sentence2", *(f"c{n}" for n in range(100_000))]
    write(tmp_path / "train.csv", ",".join(columns) + "\n1,a\n")
    with pytest.raises(UserError, match=r"line 2: 2 columns, expected 100003 \(label, .* and 99983 more\)") as error:
        LocalSource(tmp_path).load(mrpc, "train")
    assert len(str(error.value)) < 500 + len(str(tmp_path))


def test_local_reads_cola_without_header(tmp_path: Path) -> None:
    write(tmp_path / "CoLA" / "dev.tsv", "gj04\t1\t\tThe sailors rode the breeze.\ngj04\t0\t*\tThem rode breeze the.\n")
    examples = LocalSource(str(tmp_path)).load(cola, "validation")
    assert examples.texts == [("The sailors rode the breeze.",), ("Them rode breeze the.",)]
    assert examples.labels == [1, 0]


def test_local_reads_mnli_by_its_first_split_and_by_name(tmp_path: Path) -> None:
    header = "index\tsentence1\tsentence2\tlabel1\tgold_label\n"
    write(tmp_path / "MNLI" / "dev_matched.tsv", header + "0\tIt rains.\tIt is wet.\tneutral\tentailment\n")
    write(tmp_path / "MNLI" / "dev_mismatched.tsv", header + "0\tIt rains.\tIt is dry.\tneutral\tcontradiction\n")
    source = LocalSource(str(tmp_path))
    assert source.load(mnli, "validation") == source.load(mnli, "validation_matched")
    assert source.load(mnli, "validation").labels == [0]
    assert source.load(mnli, "validation_mismatched").labels == [2]


def test_local_accepts_label_names_and_ids(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", "label,sentence\nnegative,bad\n1,good\npositive,fine\n0,awful\n")
    assert LocalSource(str(tmp_path)).load(sst2, "train").labels == [0, 1, 1, 0]


def test_local_keeps_texts_as_they_are(tmp_path: Path) -> None:
    write(tmp_path / "SST-2" / "dev.tsv", "sentence\tlabel\n it 's a \x0b\u2028 journey . \t1\n")
    assert LocalSource(str(tmp_path)).load(sst2, "validation").texts == [(" it 's a \x0b\u2028 journey . ",)]


def test_local_folder_may_be_a_number_or_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert LocalSource(2024).dir == Path("2024")
    assert LocalSource("~/glue").dir == tmp_path / "glue"


# --- local: reading back what was written ---

text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(str.strip)
tsv_text = text.filter(lambda value: not set(value) & set("\t\n\r"))
scores = st.floats(0, 5, allow_nan=False)


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", ".parquet"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_local_reads_what_was_written(tmp_path: Path, suffix: str, data: st.DataObject) -> None:
    texts = tsv_text if suffix == ".tsv" else text
    if suffix == ".csv":  # Python 3.10's csv cannot read NUL
        texts = texts.filter(lambda value: "\0" not in value)
    rows = data.draw(st.lists(st.tuples(texts, texts, scores), min_size=1, max_size=8))
    label = "score" if suffix == ".tsv" else "label"
    first, second, labels = (list(column) for column in zip(*rows, strict=True))
    write_columns(tmp_path / f"train{suffix}", {"sentence1": first, "sentence2": second, label: labels})
    examples = LocalSource(str(tmp_path)).load(stsb, "train")
    assert examples.texts == [row[:2] for row in rows]
    assert examples.labels == labels


# --- local: bad input ---


def test_local_missing_folder_and_file(tmp_path: Path) -> None:
    refuses(tmp_path / "nowhere", r"data\.dir=.*nowhere: no such folder; give the one that holds MRPC/train\.tsv")
    refuses(write(tmp_path / "glue.zip", b""), "is not a folder")
    refuses(
        tmp_path,
        r"no MRPC/train\.tsv for the train split of task mrpc; "
        r"looked for train\.tsv, train\.csv, train\.jsonl, train\.parquet",
    )
    refuses(
        tmp_path,
        r"no MRPC/dev\.tsv for the validation split .* validation\.parquet in MRPC/, mrpc/ and",
        split="validation",
    )
    refuses(tmp_path, r"no MNLI/dev_matched\.tsv for the validation_matched split", task=mnli, split="validation")


def test_local_two_files_for_one_split(tmp_path: Path) -> None:
    write_columns(tmp_path / "dev.csv", hub_columns(PAIRS))
    write_columns(tmp_path / "validation.jsonl", hub_columns(PAIRS))
    refuses(
        tmp_path,
        r"two files for the validation split, .*dev\.csv and .*validation\.jsonl; keep one",
        split="validation",
    )


@pytest.mark.parametrize("suffix", ["tsv", "csv"])
@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_local_empty_file(tmp_path: Path, suffix: str, content: str) -> None:
    write(tmp_path / f"train.{suffix}", content)
    refuses(tmp_path, rf"train\.{suffix}: the file is empty; expected a header line")


def test_local_file_without_examples(tmp_path: Path) -> None:
    path = write(tmp_path / "train.tsv", MRPC_HEADER)
    refuses(tmp_path, r"train\.tsv: no examples in it")
    path.rename(write(tmp_path / "train.jsonl", ""))
    write(tmp_path / "train.jsonl", "")
    refuses(tmp_path, r"train\.jsonl: no examples in it")
    (tmp_path / "train.jsonl").unlink()
    pyarrow.parquet.write_table(pa.table(hub_columns(PAIRS)).slice(0, 0), tmp_path / "train.parquet")
    refuses(tmp_path, r"train\.parquet: no examples in it")
    write(tmp_path / "CoLA" / "train.tsv", "")
    refuses(tmp_path, r"train\.tsv: no examples in it", task=cola)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "train.tsv",
            "Quality\t#1 String\n1\ta\n",
            r"train\.tsv: missing column '#2 String' \(there are: Quality, #1 String\)",
        ),
        ("train.csv", "text,label\na,1\n", r"missing columns 'sentence1', 'sentence2' \(there are: text, label\)"),
        ("train.csv", "sentence1,sentence2\na,b\n", r"no label column 'label' .* unlabelled split cannot be used"),
        ("train.csv", "label,label,sentence1,sentence2\n", "line 1: a column name appears twice"),
        (
            "train.jsonl",
            '{"sentence1": "a", "label": 1}\n',
            r"line 1: missing column 'sentence2' \(there are: sentence1, label\)",
        ),
        ("train.jsonl", '{"sentence1": "a", "sentence2": "b"}\n', r"line 1: no label column 'label'"),
        (
            "train.tsv",
            MRPC_HEADER + "1\t2\t3\ta\tb\n1\t2\n",
            r"train\.tsv, line 3: 2 columns, expected 5 \(Quality, .*\); correct it, or .*=true",
        ),
        ("train.tsv", MRPC_HEADER + "1\t2\t3\ta\tb\tc\n", "line 2: 6 columns, expected 5"),
        ("train.tsv", MRPC_HEADER + "oops\n", "line 2: 1 column, expected 5"),
        ("train.csv", 'sentence1,sentence2,label\n"a\nb",c,1\na,b\n', "line 4: 2 columns, expected 3"),
        ("train.csv", 'sentence1,sentence2,label\n"a"x,b,1\n', "line 2: broken CSV"),
        ("train.csv", 'sentence1,sentence2,label\na,b,1\n"a,b,1\n', r"line 3: broken CSV \(unexpected end of data\)"),
        ("train.jsonl", '{"sentence1": "a"\n', "line 1: not valid JSON .* at column"),
        ("train.jsonl", "[1, 2]\n", "line 1: expected a JSON object with the columns as keys, got list"),
        ("train.jsonl", "[" * 100_000 + "\n", "line 1: not valid JSON"),
        (
            "train.jsonl",
            '{"sentence1": null, "sentence2": "b", "label": 1}',
            "line 1: 'sentence1' must be a text, got None",
        ),
        ("train.jsonl", '{"sentence1": "\\ud800", "sentence2": "b", "label": 1}', "line 1: .* half a surrogate pair"),
        ("train.tsv", MRPC_HEADER + "1\t2\t3\t\t\n", "line 2: the text in '#1 String' is empty"),
        (
            "train.tsv",
            MRPC_HEADER + "1\t2\t3\ta\t \n",
            "line 2: the text in '#2 String' is empty; correct it, or leave such rows out with data",
        ),
        (
            "train.tsv",
            MRPC_HEADER + "2\t2\t3\ta\tb\n",
            r"line 2: label '2' is not one of not_equivalent \(0\), equivalent \(1\)$",
        ),
        (
            "train.tsv",
            MRPC_HEADER + "-1\t2\t3\ta\tb\n",
            "line 2: label '-1' is not .*; an unlabelled split cannot be used",
        ),
        ("train.tsv", MRPC_HEADER + "\t2\t3\ta\tb\n", "line 2: label '' is not .*; an unlabelled split cannot be used"),
        ("train.jsonl", '{"sentence1": "a", "sentence2": "b", "label": true}', "label True is not one of"),
        ("train.jsonl", '{"sentence1": "a", "sentence2": "b", "label": NaN}', "label nan is not one of"),
        (
            "train.jsonl",
            '{"sentence1": "a", "sentence2": "b", "label": "' + "x" * 99 + '"}',
            r"label 'x{57}\.\.\.' is not",
        ),
        (
            "train.tsv",
            MRPC_HEADER.encode() + b"1\t2\t3\ta\tb\n1\t2\t3\tcaf\xe9\tb\n",
            r"line 3: not valid UTF-8 \(byte 0xe9 at position 10\)",
        ),
        (
            "train.csv",
            "sentence1,sentence2,label\n".encode("utf-16"),
            r"line 1: not valid UTF-8 .* save the file as UTF-8",
        ),
        ("train.parquet", "not parquet at all", r"train\.parquet: not a Parquet file"),
        ("train.parquet", "", r"train\.parquet: not a Parquet file"),
    ],
)
def test_local_bad_file(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    write(tmp_path / name, content)
    refuses(tmp_path, message)


@pytest.mark.parametrize("label", ["high", "nan", "inf", "-0.1", "5.01", "-1"])
def test_local_bad_score(tmp_path: Path, label: str) -> None:
    write(tmp_path / "train.csv", f"sentence1,sentence2,label\na,b,5\na,b,{label}\n")
    refuses(tmp_path, rf"train\.csv, line 3: label '{label}' is not a number from 0 to 5", task=stsb)


@pytest.mark.parametrize("label", ["true", "null", "[1]", "1e999", "NaN"])
def test_local_bad_json_score(tmp_path: Path, label: str) -> None:
    write(tmp_path / "train.jsonl", f'{{"sentence1": "a", "sentence2": "b", "label": {label}}}\n')
    refuses(tmp_path, "line 1: label .* is not a number from 0 to 5", task=stsb)


def test_local_parquet_names_row_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    write_columns(path, hub_columns([*PAIRS, ("a", "", 1)]))
    refuses(tmp_path, r"train\.parquet, row 3: the text in 'sentence2' is empty")
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)  # the data pages; the footer stays whole
    path.write_bytes(content)
    refuses(tmp_path, r"train\.parquet, after row 0: the file is damaged")


def test_local_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "train.tsv", MRPC_HEADER)

    def deny(self: Path, *_: Any) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", deny)
    refuses(tmp_path, r"train\.tsv: cannot be read \(Permission denied\)")


def test_broken_rows_are_left_out_and_counted_on_demand(tmp_path: Path) -> None:
    good = "1\t2\t3\ta\tb\n"
    write(tmp_path / "train.tsv", MRPC_HEADER + good + "1\t2\t3\tbroken in\n" + "two\tb\n" + "0\t2\t3\t\tb\n" + good)
    examples = LocalSource(str(tmp_path), skip_broken_rows=True).load(mrpc, "train")
    assert (len(examples), examples.labels, examples.skipped_rows) == (2, [1, 1], 3)
    write(tmp_path / "train.tsv", MRPC_HEADER + good + "yes\t2\t3\ta\tb\n")
    with pytest.raises(UserError, match="line 3: label 'yes'"):  # a wrong label is never left out
        LocalSource(str(tmp_path), skip_broken_rows=True).load(mrpc, "train")
    write(tmp_path / "train.tsv", MRPC_HEADER + "1\n")
    with pytest.raises(UserError, match=r"no examples in it \(1 broken rows left out\)"):
        LocalSource(str(tmp_path), skip_broken_rows=True).load(mrpc, "train")


def test_a_limit_is_spread_over_the_split() -> None:
    examples = Examples([("a",), ("b",)], [0, 1], "here", skipped_rows=3)
    assert examples.spread(1) == Examples([("a",)], [0], "here", skipped_rows=3)
    assert examples.spread(9) == examples
    many = Examples([(str(number),) for number in range(10)], list(range(10)), "here")
    assert many.spread(5).labels == [0, 2, 4, 6, 8]
    assert many.spread(4).texts == [("0",), ("2",), ("5",), ("7",)]
    assert many.spread(10) == many


def test_a_limit_keeps_what_belongs_together_and_needs_no_labels() -> None:
    (first,), (second,) = words = [
        (TaggedText((0,), (1,), (tag,), ("",), (0,), ("root",)),) for tag in ("NOUN", "VERB")
    ]
    examples = Examples([("a",), ("b",), ("c",), ("d",)], None, "here", words=[*words, *words])
    assert examples.spread(2) == Examples([("a",), ("c",)], None, "here", words=[(first,), (first,)])
    assert examples.spread(4).words == [(first,), (second,)] * 2


def test_a_table_for_a_task_without_labels(tmp_path: Path) -> None:
    """Check that columns that nobody asks for are left alone, a label among them."""
    write(tmp_path / "train.csv", "sentence,label\nA cat.,what\nA dog.,\n")
    options: dict[str, Any] = {"labels": [], "metrics": {}, "main_metric": None}
    task = Task(**sst2.to_dict() | options)
    assert LocalSource(str(tmp_path)).load(task, "train") == Examples(
        [("A cat.",), ("A dog.",)], None, f"file {tmp_path / 'train.csv'}"
    )
    write(tmp_path / "train.csv", "text\nA cat.\n")
    refuses(tmp_path, r"missing column 'sentence' \(there are: text\)", task=task)


# --- local: real GLUE ---

REAL = {  # rows counted in the files; MRPC's training file has one row fewer than GLUE's 3668
    "mrpc": {"train": 3667, "validation": 408},
    "rte": {"train": 2490, "validation": 277},
    "stsb": {"train": 5749, "validation": 1500},
    "sst2": {"train": 67349, "validation": 872},
    "qnli": {"validation": 5463},
}


@pytest.mark.skipif(not GLUE.is_dir(), reason=f"real GLUE files are not at {GLUE}")
@pytest.mark.parametrize(("name", "split"), [(name, split) for name, splits in REAL.items() for split in splits])
def test_local_reads_real_glue(name: str, split: str) -> None:
    task = load_task(name)
    examples = LocalSource(str(GLUE)).load(task, split)
    assert len(examples) == REAL[name][split]
    assert examples.skipped_rows == 0
    assert {len(texts) for texts in examples.texts} == {len(task.text_columns)}
    if not task.is_regression:
        assert set(examples.labels) == set(range(task.num_outputs))


@pytest.mark.skipif(not GLUE.is_dir(), reason=f"real GLUE files are not at {GLUE}")
def test_local_real_first_rows_and_missing_training_file() -> None:
    examples = LocalSource(str(GLUE)).load(mrpc, "validation")
    assert examples.labels[:2] == [1, 0]
    assert examples.texts[0][1] == '" The foodservice pie business does not fit our long-term growth strategy .'
    assert LocalSource(str(GLUE)).load(stsb, "validation").labels[:2] == [5.0, 4.75]
    refuses(GLUE, r"no QNLI/train\.tsv for the train split of task qnli", task=load_task("qnli"))


# --- sample ---


@pytest.mark.parametrize("name", ["rte", "mrpc", "qnli", "sst2", "stsb"])
@pytest.mark.parametrize("split", ["train", "validation"])
def test_sample_loads(name: str, split: str) -> None:
    task = load_task(name)
    if not (ROOT / "src" / "effective_attention" / "data" / "sample" / name / f"{split}.jsonl").is_file():
        pytest.skip(f"the {name} sample is not written yet")
    examples = SampleSource().load(task, split)
    assert len(examples) >= {"train": 200, "validation": 100}[split]
    assert examples.source == f"embedded sample {name}/{split}.jsonl"


@pytest.mark.parametrize(("name", "split"), [("cola", "train"), ("mnli", "validation_matched"), ("mrpc", "test")])
def test_sample_that_does_not_exist(name: str, split: str) -> None:
    message = rf"data=sample: no {split} sample for task {name}; add data=hub, or data=local data\.dir=<GLUE folder>"
    with pytest.raises(UserError, match=message):
        SampleSource().load(load_task(name), split)


# --- hub ---


def make_hub_folder(folder: Path, rows: list[tuple[str, str, int]], names: list[str] | None = None) -> str:
    """Make a folder as ``nyu-mll/glue`` is on the hub: a card that lists the configurations, and Parquet files."""
    from datasets import ClassLabel, Dataset

    dataset = Dataset.from_dict(hub_columns(rows))
    if names is not None:
        dataset = dataset.cast_column("label", ClassLabel(names=names))
    for split in ("train", "validation"):
        path = folder / "mrpc" / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        dataset.to_parquet(path)
    files = "".join(f"  - split: {split}\n    path: mrpc/{split}-*\n" for split in ("train", "validation"))
    write(folder / "README.md", f"---\nconfigs:\n- config_name: mrpc\n  data_files:\n{files}---\n# GLUE\n")
    return str(folder)


def hub(tmp_path: Path, rows: list[tuple[str, str, int]], names: list[str] | None = None, **options: Any) -> HubSource:
    return HubSource(make_hub_folder(tmp_path / "glue", rows, names), cache_dir=str(tmp_path / "cache"), **options)


def test_hub_loads_its_layout(tmp_path: Path) -> None:
    source = hub(tmp_path, PAIRS, ["not_equivalent", "equivalent"])
    for split in ("train", "validation"):
        examples = source.load(mrpc, split)
        assert examples == Examples([row[:2] for row in PAIRS], [1, 0], f"hub {tmp_path / 'glue'} mrpc/{split}")


def test_hub_labels_without_names_are_ids(tmp_path: Path) -> None:
    assert hub(tmp_path, PAIRS).load(mrpc, "train").labels == [1, 0]


def test_hub_labels_in_another_order_are_mapped_by_name(tmp_path: Path) -> None:
    assert hub(tmp_path, PAIRS, ["equivalent", "not_equivalent"]).load(mrpc, "train").labels == [0, 1]


def test_hub_labels_of_another_task_are_refused(tmp_path: Path) -> None:
    message = r"mrpc/train: its labels are no, yes, those of task mrpc not_equivalent, equivalent; check data\.name"
    with pytest.raises(UserError, match=message):
        hub(tmp_path, PAIRS, ["no", "yes"]).load(mrpc, "train")


@pytest.mark.parametrize("names", [None, ["not_equivalent", "equivalent"]])
def test_hub_unlabelled_split(tmp_path: Path, names: list[str] | None) -> None:
    with pytest.raises(UserError, match=r"mrpc/train, row 2: label -1 is not .*; an unlabelled split cannot be used"):
        hub(tmp_path, [PAIRS[0], ("a", "b", -1)], names).load(mrpc, "train")


def test_hub_empty_text(tmp_path: Path) -> None:
    rows = [PAIRS[0], ("a", "", 0)]
    with pytest.raises(UserError, match=r"row 2: the text in 'sentence2' is empty; .* data\.skip_broken_rows=true"):
        hub(tmp_path, rows).load(mrpc, "train")
    examples = hub(tmp_path, rows, skip_broken_rows=True).load(mrpc, "train")
    assert (len(examples), examples.skipped_rows) == (1, 1)


def test_hub_wrong_columns_split_name_or_folder(tmp_path: Path) -> None:
    source = hub(tmp_path, PAIRS)
    with pytest.raises(
        UserError, match=r"missing columns 'question1', 'question2' \(there are: sentence1, sentence2, label, idx\)"
    ):
        HubSource(source.path, name="mrpc", cache_dir=source.cache_dir).load(load_task("qqp"), "train")
    for options, split in (
        ({}, "nosuch"),
        ({"name": "nosuch"}, "train"),
        ({"path": str(tmp_path / "nosuch")}, "train"),
    ):
        broken = HubSource(**({"path": source.path, "cache_dir": source.cache_dir} | options))
        with pytest.raises(UserError, match=r"data=hub: cannot load .*nosuch.*; check data\.name") as caught:
            broken.load(mrpc, split)
        assert "\n" not in str(caught.value)


def test_hub_unreachable(tmp_path: Path) -> None:
    """Check in a process of its own, as the library reads HF_HUB_OFFLINE when it is imported."""
    program = (
        "import sys; from effective_attention.data.sources import HubSource; "
        "from effective_attention.data.tasks import Task\n"
        f"HubSource(cache_dir={str(tmp_path)!r}).load(Task(**{mrpc.to_dict()!r}), 'train')"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert "UserError: data=hub: the hub cannot be reached and nyu-mll/glue mrpc is not in the cache" in last
    assert "add data=local data.dir=<folder> or data=sample instead" in last
    assert "load_dataset('nyu-mll/glue', 'mrpc') and set HF_HOME" in last


# --- configuration ---


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [(["sample"], SampleSource), (["hub"], HubSource), (["local", "data.dir=../glue"], LocalSource)],
)
def test_data_files_instantiate(overrides: list[str], expected: type) -> None:
    source = instantiate(config(f"+data={overrides[0]}", *overrides[1:]).data.source)
    assert type(source) is expected
    assert source.name == overrides[0]
    assert getattr(source, "skip_broken_rows", False) is False


def test_data_options_reach_the_source() -> None:
    options = [
        "data.source.path=me/glue",
        "data.source.name=mine",
        "data.source.revision=v1",
        "data.skip_broken_rows=true",
    ]
    source = instantiate(config("+data=hub", *options).data.source)
    assert (source.path, source.configuration, source.revision, source.skip_broken_rows) == (
        "me/glue",
        "mine",
        "v1",
        True,
    )
    short = ["data.name=me/glue", "data.configuration=mine", "data.revision=v1"]
    same = instantiate(config("+data=hub", *short).data.source)
    assert (same.path, same.configuration, same.revision) == ("me/glue", "mine", "v1")
    assert instantiate(config("+data=hub").data.source).path == "nyu-mll/glue"
    source = instantiate(config("+data=local", "data.dir=x", "data.skip_broken_rows=true").data.source)
    assert (source.dir, source.skip_broken_rows) == (Path("x"), True)


def test_importing_sources_does_not_import_datasets() -> None:
    program = (
        "import sys, effective_attention.data.sources; "
        "sys.exit(any(m in sys.modules for m in ('datasets', 'torch', 'pyarrow')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
