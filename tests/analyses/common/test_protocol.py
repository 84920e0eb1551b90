"""Presets and the options that override them, the class that is explained, and models without gradients to sum."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from effective_attention.analyses.common.protocol import (
    PRESETS,
    PROTOCOL_COLUMNS,
    Protocol,
    choose_protocol,
    no_sum,
    protocol_facts,
    targets,
)
from effective_attention.errors import UserError
from helpers.cases import build_case


def test_options_override_a_preset_and_null_leaves_it() -> None:
    empty = dict.fromkeys(("gradient", "query", "ties", "delimiters", "target"))
    assert choose_protocol("x", "ours", **empty) == PRESETS["ours"]
    assert choose_protocol("x", "abnar2020", **{**empty, "delimiters": False, "target": "correct"}) == Protocol(
        "sum", "max", "dense", False, "correct"
    )
    assert choose_protocol("x", "abnar2020") == Protocol("sum", "max", "dense", True, "first")


@pytest.mark.parametrize("given", [{"delimiters": "yes"}, {"delimiters": 0}, {"ties": True}, {"query": ["max"]}])
def test_what_is_no_such_word_is_refused(given: Any) -> None:
    (option,) = given
    with pytest.raises(UserError, match=rf"^analysis\.x\.{option} must be .*, or null \(as protocol=ours says\), got "):
        choose_protocol("x", "ours", **given)


def test_facts_are_the_columns() -> None:
    assert list(protocol_facts("ours", PRESETS["ours"])) == [column.name for column in PROTOCOL_COLUMNS]


def test_targets_by_hand() -> None:
    logits = torch.tensor([[0.1, 0.7, 0.2], [0.9, 0.0, 0.3]])
    trace: Any = SimpleNamespace(logits=logits, inputs={"labels": torch.tensor([2, 1])})
    found = {name: targets(trace, name).tolist() for name in ("predicted", "correct", "first")}
    assert found == {"predicted": [1, 0], "correct": [2, 1], "first": [0, 0]}
    trace = SimpleNamespace(logits=logits[:, :1], inputs={})  # a score has one target
    assert targets(trace, "correct").tolist() == [0, 0]


def test_a_model_that_hands_out_copies_has_no_gradients_to_sum() -> None:
    for family, reason in (("bert", None), ("xlnet", "gradient=sum: XLNetForSequenceClassification hands out copies")):
        found = no_sum(SimpleNamespace(probe=build_case(family).trace))  # type: ignore[arg-type]
        assert found is None if reason is None else str(found).startswith(reason)
