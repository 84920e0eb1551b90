"""Made-up tables generated from the analyses' schemas, signed with the columns that a command writes in front."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from effective_attention.analyses.common.schema import Schema
from effective_attention.reports.chapters import CHAPTERS
from helpers.fakes import with_facts

FRONT = {"task": "mrpc", "model": "m", "data": "local", "split": "validation", "checkpoint": "", "examples": 408}


def schema_of(analysis: str) -> Schema:
    """Return the schema that the analysis' module states; of a package its module ``analysis``."""
    module = import_module(f"effective_attention.analyses.{analysis}")
    if hasattr(module, "__path__"):
        module = import_module(f"{module.__name__}.analysis")
    return module.SCHEMA


def axes_of(layers: int, heads: int) -> dict[str, list[Any]]:
    """Return the values of keys that nearly every table has, and of what is the same in a whole table."""
    return {"layer": list(range(layers)), "head": list(range(heads)), "convention": ["absolute"]}


def random_for(analysis: str, task: str, seed: int) -> np.random.Generator:
    """Return a source of numbers that no other table draws from."""
    return np.random.default_rng([seed, *task.encode(), *analysis.encode()])


def plain_tables(
    without: Collection[str], front: dict[str, Any], seed: int, layers: int, heads: int
) -> dict[str, pd.DataFrame]:
    """Make up the tables of all analyses with figures, but for some: random numbers, as their schemas allow."""
    found = {}
    for name in (chapter.analysis for chapter in CHAPTERS if chapter.figures and chapter.analysis not in without):
        schema = schema_of(name)
        body = schema.fake(random_for(name, str(front["task"]), seed), axes_of(layers, heads))
        if "examples" in body:
            body["examples"] = front["examples"]
        schema.check(body, name)
        found[name] = with_facts(body, front)
    return found
