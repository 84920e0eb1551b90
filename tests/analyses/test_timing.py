"""Table 3: what testing measured, as a table."""

import dataclasses

import pytest

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.timing import SCHEMA, Timing

MEASURED = {
    "test/standard/seconds": 2.0, "test/standard/examples_per_second": 4.5, "test/standard/accuracy": 0.7,
    "test/padded/seconds": 3.0, "test/padded/examples_per_second": 3.0, "test/padded/seconds_ratio": 1.5,
}  # fmt: skip


def test_each_attention_that_was_tested(subject, context):
    table = run_analyses(subject, {"a": Timing().setup(dataclasses.replace(context, facts=MEASURED))})["a"]
    SCHEMA.check(table, "timing")
    assert table.set_index("attention").to_dict("index") == {
        "standard": {"reading": "exact", "seconds": 2.0, "examples_per_second": 4.5, "ratio": 1.0},
        "padded": {"reading": "padded", "seconds": 3.0, "examples_per_second": 3.0, "ratio": 1.5},
    }


def test_without_standard_there_is_no_ratio(subject, context):
    alone = {name: value for name, value in MEASURED.items() if "padded" in name and "ratio" not in name}
    table = run_analyses(subject, {"a": Timing().setup(dataclasses.replace(context, facts=alone))})["a"]
    assert table["ratio"].tolist() == pytest.approx([float("nan")], nan_ok=True)
    SCHEMA.check(table, "timing")


def test_nothing_tested_is_an_empty_table_with_its_columns(subject, context):
    table = run_analyses(subject, {"a": Timing().setup(dataclasses.replace(context, facts={}))})["a"]
    assert table.columns.tolist() == SCHEMA.names
    assert table.empty
