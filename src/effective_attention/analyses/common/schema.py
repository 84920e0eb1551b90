"""The contract of a table: its columns, what they mean, which values they may take, and what makes a row unique.

Every analysis states its schema; the runner checks each table against it before anybody reads the table. Documentation
(``docs/tables.md``) and the made-up tables of the tests are generated from it.

A table may hold several blocks of rows, one for each thing that is measured (``alternative_attention`` has weights,
distances and more in one table). A block says which columns are fixed, and which keys its rows have; other keys are
missing there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd

Kind = Literal["name", "whole", "number", "flag"]
FACTS = ("task", "model", "data", "split", "checkpoint", "examples", "reading")
"""What a command writes in front of every row; no analysis needs to state them."""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: Name of the column.
        meaning: What it holds, in a few words, with the unit.
        kind: ``name`` (text), ``whole`` number, ``number``, or ``flag`` (true or false).
        values: All names that may occur; empty: any.
        low: No number is smaller; None: any. Rounding is forgiven.
        high: No number is larger; None: any.
        key: Whether it is part of what makes a row unique.
        missing: Whether it may be empty.
    """

    name: str
    meaning: str
    kind: Kind = "number"
    values: tuple[str, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    key: bool = False
    missing: bool = False


@dataclass(frozen=True)
class Block:
    """Rows of one kind.

    Attributes:
        fixed: What some columns are in all of these rows; a tuple: one of these.
        keys: The other keys these rows have; every other key is missing.
        numbers: The numbers these rows have; None: all.
    """

    fixed: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    numbers: tuple[str, ...] | None = None


class SchemaError(ValueError):
    """A table does not keep its contract: a mistake of the analysis, not of its user."""


@dataclass(frozen=True)
class Schema:
    """The columns of a table, and its blocks.

    Attributes:
        columns: In the order of the table.
        blocks: Kinds of rows; empty: there is one kind, which has all keys.
    """

    columns: tuple[Column, ...]
    blocks: tuple[Block, ...] = ()

    @property
    def names(self) -> list[str]:
        """Return the names of the columns, in order."""
        return [column.name for column in self.columns]

    @property
    def keys(self) -> list[str]:
        """Return the names of the columns that make a row unique."""
        return [column.name for column in self.columns if column.key]

    def check(self, table: pd.DataFrame, analysis: str) -> None:
        """Refuse a table that does not keep the contract.

        Raises:
            SchemaError: Names the analysis, the column, what was expected and what came.
        """
        found = [str(name) for name in table.columns if name not in FACTS or name in self.names]
        if found != self.names:
            raise SchemaError(f"the table of {analysis} must have the columns {self.names}, got {found}")
        for column in self.columns:
            _check_column(column, table[column.name], analysis)
        strange = ~self._in_a_block(table)
        if bool(strange.any()):
            keys = {name: value for name, value in table.loc[strange, self.keys].iloc[0].items() if pd.notna(value)}
            raise SchemaError(f"the table of {analysis} has a row for {keys}, which no block of its schema allows")
        twice = table.duplicated(self.keys) if self.keys else pd.Series(False, index=table.index)
        if bool(twice.any()):
            row = table.loc[twice, self.keys].iloc[0].to_dict()
            raise SchemaError(f"the table of {analysis} has two rows for {row}; its keys are {self.keys}")

    def _in_a_block(self, table: pd.DataFrame) -> pd.Series:
        """Tell which rows have what one of the blocks fixes, and no keys but that block's."""
        allowed = pd.Series(not self.blocks, index=table.index)
        for block in self.blocks:
            mine = pd.Series(True, index=table.index)
            for name, value in block.fixed.items():
                mine &= table[name].isin([value] if isinstance(value, str) else list(value))
            for name in set(self.keys) - set(block.keys) - set(block.fixed):
                mine &= table[name].isna()
            allowed |= mine
        return allowed

    def fake(self, random: np.random.Generator, axes: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
        """Make up a table that keeps the contract, for tests and examples.

        Args:
            random: Generator of the numbers.
            axes: The values of keys that have no list of values of their own, such as ``layer`` or ``query``.
        """
        blocks = self.blocks or (Block(keys=tuple(self.keys)),)
        parts = [self._fake_block(block, random, axes) for block in blocks]
        return pd.concat(parts, ignore_index=True).infer_objects()  # text as pandas reads it from a file

    def _fake_block(self, block: Block, random: np.random.Generator, axes: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
        by_name = {column.name: column for column in self.columns}
        choices: dict[str, Sequence[Any]] = {
            name: (value,) if isinstance(value, str) else value for name, value in block.fixed.items()
        }
        choices |= {name: axes.get(name) or by_name[name].values for name in block.keys}
        empty = [name for name, values in choices.items() if len(values) == 0]
        if empty:
            raise ValueError(f"axes must say which values {', '.join(empty)} take")
        rows = pd.DataFrame(list(product(*choices.values())), columns=list(choices))
        for column in self.columns:
            if column.name not in rows:
                rows[column.name] = _fake_values(column, len(rows), random, axes, block)
        return rows[self.names].astype({column.name: _DTYPES[column.kind] for column in self.columns})


_DTYPES: dict[str, Any] = {"name": "object", "whole": "Int64", "number": "float64", "flag": "bool"}


def _fake_values(
    column: Column, count: int, random: np.random.Generator, axes: Mapping[str, Sequence[Any]], block: Block
) -> Any:
    if column.key or (column.kind == "number" and block.numbers is not None and column.name not in block.numbers):
        return [None] * count  # a key that these rows do not have, or a number
    given = axes.get(column.name) or column.values
    if column.kind == "name":
        return random.choice(list(given or ["some"]), count)
    if column.kind == "flag":
        return [False] * count
    low = 0.0 if column.low is None else column.low
    high = low + (1.0 if column.kind == "number" else 100.0) if column.high is None else column.high
    values = random.uniform(low, high, count)
    return np.rint(values) if column.kind == "whole" else values


def _check_column(column: Column, values: pd.Series, analysis: str) -> None:
    place = f"column {column.name!r} of the table of {analysis}"
    known = values.dropna()
    if not column.missing and len(known) < len(values) and column.kind != "number":
        raise SchemaError(f"{place} must not be empty, but {len(values) - len(known)} rows have nothing there")
    if column.kind == "name":
        strange = sorted({str(value) for value in known} - set(column.values)) if column.values else []
        if strange:
            raise SchemaError(f"{place} must be one of {list(column.values)}, got {strange[:3]}")
        return
    if column.kind == "flag":
        if not all(isinstance(value, bool | np.bool_) for value in known):
            raise SchemaError(f"{place} must be true or false, got {known.iloc[0]!r}")
        return
    _check_numbers(column, known, place)


def _check_numbers(column: Column, known: pd.Series, place: str) -> None:
    numbers = pd.to_numeric(known, errors="coerce").astype(float)
    if bool(numbers.isna().any()) or (column.kind == "whole" and bool((numbers != numbers.round()).any())):
        raise SchemaError(f"{place} must hold {'whole ' if column.kind == 'whole' else ''}numbers")
    slack = 1e-6
    if column.low is not None and bool((numbers < column.low - slack).any()):
        raise SchemaError(f"{place} must be at least {column.low}, got {numbers.min()}")
    if column.high is not None and bool((numbers > column.high + slack).any()):
        raise SchemaError(f"{place} must be at most {column.high}, got {numbers.max()}")


# --- columns that many tables share ---


def attention_column(*names: str) -> Column:
    """Return the column ``attention``, whose values are these names."""
    return Column("attention", "whose weights: standard, effective, or another variant", "name", names, key=True)


LAYER = Column("layer", "counted from 0", "whole", low=0, key=True)
HEAD = Column("head", "counted from 0", "whole", low=0, key=True)
SPECIAL_TOKENS = Column("special_tokens", "whether pairs with [CLS], [SEP] or another special token count", "flag")
FIRST_TOKEN = Column("first_token", "whether attention to the first token of a text counts", "flag")
RECEPTIVE_FIELD = Column(
    "receptive_field", "whether rollout and flow are divided by what even attention would bring", "flag"
)
CONVENTION = Column(
    "convention", "what negative weights became: their size, or nothing", "name", ("absolute", "positive")
)


def count_column(of: str) -> Column:
    """Return the column ``count``: how many of something are behind the value."""
    return Column("count", f"how many {of} are behind the value", "whole", low=0)
