"""The numbers a dashboard follows."""

import pandas as pd
import pytest

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.scalars import named_scalars


def test_cosine_per_layer_is_the_mean_over_heads():
    rows = [("standard", 0, 0, 0.5), ("standard", 0, 1, 0.7), ("standard", 11, 0, 0.1), ("effective", 0, 0, 0.2)]
    table = pd.DataFrame(rows, columns=["attention", "layer", "head", "value"])
    assert named_scalars({"finetuning_shift": table}, CHAPTERS) == pytest.approx(
        {"cosine/standard/layer_00": 0.6, "cosine/standard/layer_11": 0.1, "cosine/effective/layer_00": 0.2}
    )


def test_token_attention_is_the_largest_weight_in_the_last_layer():
    rows = [
        ("standard", 1, 0, "sep", "largest", 0.4),
        ("standard", 1, 1, "sep", "largest", 0.6),
        ("standard", 1, 0, "sep", "mean", 9.0),
        ("standard", 0, 0, "sep", "largest", 9.0),
    ]
    table = pd.DataFrame(rows, columns=["attention", "layer", "head", "token_type", "statistic", "value"])
    assert named_scalars({"token_types": table}, CHAPTERS) == pytest.approx({"token_attention/standard/sep": 0.5})


def test_delimiters_and_patterns_are_means_over_layers_and_heads():
    rows = [("standard", 0, "cls", 0.2), ("standard", 1, "cls", 0.4), ("standard", 0, "sep", 0.1)]
    table = pd.DataFrame(rows, columns=["attention", "layer", "delimiter", "value"])
    expected = {"delimiters/standard/cls": 0.3, "delimiters/standard/sep": 0.1}
    assert named_scalars({"delimiters": table}, CHAPTERS) == pytest.approx(expected)
    rows = [("effective", pd.NA, "block", 0.5), ("effective", 0, "block", 0.9)]
    table = pd.DataFrame(rows, columns=["attention", "layer", "pattern", "value"])
    assert named_scalars({"patterns": table}, CHAPTERS) == pytest.approx({"patterns/effective/block": 0.5})


def test_other_tables_give_none():
    assert named_scalars({"timing": pd.DataFrame({"seconds": [1.0]})}, CHAPTERS) == {}
