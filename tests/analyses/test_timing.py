"""Table 3: what testing measured, as a table."""

import dataclasses

import pytest

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.timing import SCHEMA, Timing

MEASURED = {
    "test/standard/timed_batches": 9, "test/standard/seconds": 2.0, "test/standard/examples_per_second": 4.5,
    "test/standard/accuracy": 0.7, "test/padded/timed_batches": 9, "test/padded/seconds": 3.0,
    "test/padded/examples_per_second": 3.0, "test/padded/seconds_ratio": 1.5, "test/padded/seconds_ratio_low": 1.25,
    "test/padded/seconds_ratio_high": 2.0,
}  # fmt: skip
NUMBERS = ["seconds", "examples_per_second", "ratio", "ratio_low", "ratio_high"]


def timing(facts, subject, context):
    table = run_analyses(subject, {"a": Timing().setup(dataclasses.replace(context, facts=facts))})["a"]
    SCHEMA.check(table, "timing")
    return table


def test_each_attention_that_was_tested(subject, context):
    table = timing(MEASURED, subject, context).set_index("attention")
    assert table.loc["standard"].tolist() == ["exact", 2.0, 4.5, 1.0, 1.0, 1.0, 9]
    assert table.loc["padded"].tolist() == ["padded", 3.0, 3.0, 1.5, 1.25, 2.0, 9]


def test_without_standard_there_is_no_ratio(subject, context):
    alone = {name: value for name, value in MEASURED.items() if "padded" in name and "ratio" not in name}
    table = timing(alone, subject, context)
    assert table["seconds"].tolist() == [3.0]
    assert table[NUMBERS[2:]].isna().all(axis=None)


def test_few_batches_have_no_numbers(subject, context):
    few = {"test/standard/timed_batches": 4, "test/effective/timed_batches": 4, "test/effective/accuracy": 0.5}
    table = timing(few, subject, context)
    assert table["attention"].tolist() == ["standard", "effective"]
    assert table["batches"].tolist() == [4, 4]
    assert table[NUMBERS].isna().all(axis=None)


def test_nothing_tested_is_an_empty_table_with_its_columns(subject, context):
    table = timing({}, subject, context)
    assert table.columns.tolist() == SCHEMA.names
    assert table.empty


def test_a_ratio_alone_is_no_attention(subject, context):
    facts = {**MEASURED, "test/effective/seconds_ratio": 1.0}
    assert timing(facts, subject, context)["ratio"].tolist() == pytest.approx([1.0, 1.5])
