"""The contract of a table: what it refuses, and the tables it makes up."""

import numpy as np
import pandas as pd
import pytest

from effective_attention.analyses.common.schema import Block, Column, Schema, SchemaError

PLAIN = Schema(
    (
        Column("attention", "whose", "name", ("standard", "effective"), key=True),
        Column("layer", "from 0", "whole", low=0, key=True),
        Column("value", "a share", low=0, high=1),
        Column("count", "how many", "whole", low=0),
        Column("fine", "whether", "flag"),
    )
)
BLOCKS = Schema(
    (
        Column("quantity", "what", "name", ("weight", "error"), key=True),
        Column("layer", "from 0", "whole", low=0, key=True),
        Column("query", "from 0", "whole", low=0, key=True, missing=True),
        Column("value", "of it"),
    ),
    blocks=(
        Block({"quantity": "weight"}, keys=("layer", "query")),
        Block({"quantity": "error"}, keys=("layer",)),
    ),
)


def good() -> pd.DataFrame:
    return PLAIN.fake(np.random.default_rng(0), {"layer": range(3)})


def test_made_up_tables_keep_the_contract() -> None:
    table = good()
    assert len(table) == 2 * 3
    PLAIN.check(table, "some")
    blocks = BLOCKS.fake(np.random.default_rng(0), {"layer": range(2), "query": range(4)})
    assert len(blocks) == 2 * 4 + 2
    assert blocks.loc[blocks["quantity"] == "error", "query"].isna().all()
    BLOCKS.check(blocks, "some")


def test_facts_in_front_are_no_matter() -> None:
    PLAIN.check(good().assign(task="mrpc", examples=3), "some")


def test_missing_numbers_are_allowed() -> None:
    PLAIN.check(good().assign(value=np.nan), "some")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "must have the columns"),
        ({"value": 1.5}, "column 'value' of the table of some must be at most 1, got 1.5"),
        ({"value": -0.1}, "column 'value' of the table of some must be at least 0"),
        ({"value": "much"}, "column 'value' of the table of some must hold numbers"),
        ({"count": 0.5}, "column 'count' of the table of some must hold whole numbers"),
        ({"count": pd.NA}, "column 'count' of the table of some must not be empty, but 6 rows"),
        ({"attention": "other"}, r"column 'attention' of the table of some must be one of \['standard', 'effective'\]"),
        ({"layer": 0}, "the table of some has two rows for"),
        ({"fine": "yes"}, "column 'fine' of the table of some must be true or false"),
    ],
    ids=str,
)
def test_what_breaks_the_contract_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        PLAIN.check(good().assign(**change), "some")


def test_columns_must_be_there_and_in_order() -> None:
    with pytest.raises(SchemaError, match="must have the columns"):
        PLAIN.check(good().drop(columns="count"), "some")
    with pytest.raises(SchemaError, match="must have the columns"):
        PLAIN.check(good()[["layer", "attention", "value", "count", "fine"]], "some")


def test_a_made_up_table_wants_to_know_its_axes() -> None:
    with pytest.raises(ValueError, match="axes must say which values layer take"):
        PLAIN.fake(np.random.default_rng(0), {})


def test_a_row_that_no_block_allows() -> None:
    table = BLOCKS.fake(np.random.default_rng(0), {"layer": range(2), "query": range(4)})
    table.loc[table["quantity"] == "error", "query"] = 1
    with pytest.raises(
        SchemaError, match=r"has a row for \{'quantity': 'error', .*\}, which no block of its schema allows"
    ):
        BLOCKS.check(table, "some")
