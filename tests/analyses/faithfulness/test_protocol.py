"""The league by the paper's protocol and by single options of it, against loops over texts with SciPy's ranks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.faithfulness import SCHEMA, Faithfulness
from effective_attention.attributions import flow as flow_method
from helpers.plain_agreement import (
    blank_out_of,
    by_scipy,
    by_the_formula,
    maps_of,
    probability,
    summed,
    words_of,
)

METHODS = ["raw", "rollout", "flow"]
QUICK: dict[str, Any] = {"limit": None, "methods": METHODS, "steps": 1, "shares": [0.2]}


def league(subject: Any, context: Any, **options: Any) -> pd.DataFrame:
    made = run_analyses(subject, {"faithfulness": Faithfulness(**{**QUICK, **options}, compare=None).setup(context)})[
        "faithfulness"
    ]
    SCHEMA.check(made, "faithfulness")
    return made[made["measure"] != "milliseconds"]


def mean_of(table: pd.DataFrame, method: str, measure: str, attention: str, layer: int) -> float:
    rows = table[(table["method"] == method) & (table["measure"] == measure) & (table["layer"] == layer)]
    return float(rows.loc[rows["attention"] == attention, "value"].item())


# --- the paper's protocol ---


@pytest.fixture(scope="module")
def theirs(subject: Any, context: Any) -> pd.DataFrame:
    return league(subject, context, protocol="abnar2020")


@pytest.mark.parametrize(("attention", "layer"), product(["standard", "effective"], [0, 1]))
def test_table_3_against_loops(theirs: Any, subject: Any, singles: list[Any], attention: str, layer: int) -> None:
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    for one in singles:
        worth = summed(subject, one)
        for method, whole in maps_of(one, attention, layer).items():
            found[method].append(by_the_formula(whole.max(axis=0), worth))
    for method, values in found.items():  # rounding orders near ties
        got = mean_of(theirs, method, "spearman_gradients", attention, layer)
        assert got == pytest.approx(np.mean(values), abs=2e-2), method


def test_the_table_says_by_which_protocol(theirs: pd.DataFrame, subject: Any, context: Any) -> None:
    facts = ["protocol", "gradient", "query", "ties", "delimiters", "target", "receptive_field"]
    assert theirs[facts].drop_duplicates().to_numpy().tolist() == [
        ["abnar2020", "sum", "max", "dense", True, "first", False]
    ]
    mixed = league(subject, context, limit=1, methods=["raw"], ties="dense", target="correct")
    assert mixed[facts[:-1]].drop_duplicates().to_numpy().tolist() == [
        ["ours", "norm", "answer", "dense", False, "correct"]
    ]


def test_a_flow_is_computed_once(subject: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(graph: Any, *given: Any, **options: Any) -> Any:
        calls.append(len(graph))
        return flows(graph, *given, **options)

    flows = flow_method.flows
    monkeypatch.setattr(flow_method, "flows", counted)
    league(subject, context, protocol="abnar2020")
    assert sum(calls) == 2 * len(subject.split)  # each example once for each attention


@pytest.mark.parametrize("changes", [{"batch_size": 1}, {"padding": "max_length"}], ids=str)
def test_neither_batching_nor_padding_matters(theirs: pd.DataFrame, make_subject: Any, changes: Any) -> None:
    other = make_subject(**changes)
    made = league(other, other.context(seed=0, task=other.data.task), protocol="abnar2020")
    np.testing.assert_allclose(made["value"], theirs["value"], atol=2e-2)


def test_their_code_divides_no_rollout_in_a_causal_model(context: Any) -> None:
    causal = replace(context, causal=True)
    divided = {name: Faithfulness(protocol=name).setup(causal).settings for name in ("ours", "abnar2020")}  # type: ignore[attr-defined]
    assert {name: one.receptive_field for name, one in divided.items()} == {"ours": True, "abnar2020": False}
    assert Faithfulness(protocol="abnar2020", receptive_field=True).setup(causal).settings.receptive_field  # type: ignore[attr-defined]


# --- single options ---


def test_gradient_and_ties_alone(subject: Any, context: Any, singles: list[Any]) -> None:
    made = {ties: league(subject, context, gradient="sum", ties=ties, target="first") for ties in ("mean", "dense")}
    expected: dict[str, list[float]] = {"mean": [], "dense": []}
    for one in singles:
        chosen = words_of(one)
        both = maps_of(one, "standard", 1)["rollout"][0][chosen], summed(subject, one)[chosen]
        expected["mean"].append(by_scipy(*both))
        expected["dense"].append(by_the_formula(*both))
    for ties, values in expected.items():
        got = mean_of(made[ties], "rollout", "spearman_gradients", "standard", 1)
        assert got == pytest.approx(np.mean(values), abs=2e-2)


def test_query_alone_changes_raw_rollout_and_flow_only(subject: Any, context: Any, singles: list[Any]) -> None:
    methods = [*METHODS, "norm", "gradient_rollout"]
    row, largest = (league(subject, context, query=query, methods=methods) for query in ("answer", "max"))
    for method in ("norm", "gradient_rollout"):
        same = [table.loc[table["method"] == method, "value"] for table in (row, largest)]
        np.testing.assert_array_equal(*same)
    for method in METHODS:
        moved = [table.loc[table["method"] == method, "value"].to_numpy() for table in (row, largest)]
        assert np.abs(moved[0] - moved[1]).max() > 0.01
    maps = [maps_of(one, "standard", 1)["flow"].max(axis=0)[words_of(one)] for one in singles]
    worth = [blank_out_of(subject, one, int(one.logits[0].argmax()))[words_of(one)] for one in singles]
    expected = np.nanmean([by_scipy(*both) for both in zip(maps, worth, strict=True)])
    got = mean_of(largest, "flow", "spearman_blank_out", "standard", 1)
    assert got == pytest.approx(expected, abs=3e-2)


def test_summed_gradients_are_no_method_so_the_norm_is_compared_with_them(subject: Any, context: Any) -> None:
    made = league(subject, context, methods=["input_gradient", "blank_out"], gradient="sum")
    measured = made.groupby("method")["measure"].agg(set)
    assert "spearman_gradients" in measured["input_gradient"]
    assert "spearman_blank_out" not in measured["blank_out"]


@pytest.mark.parametrize("target", ["predicted", "correct", "first"])
def test_the_target_is_that_of_methods_references_and_erasure(
    subject: Any, context: Any, singles: list[Any], target: str
) -> None:
    made = league(subject, context, methods=["raw", "random"], target=target, shares=[0.5])
    agreement, lost = [], []
    for one in singles:
        labels = {"predicted": int(one.logits[0].argmax()), "correct": int(one.inputs["labels"][0]), "first": 0}
        label, places = labels[target], np.flatnonzero(words_of(one))
        weights = one.layers[1].attention[0].mean(dim=0)[0].numpy()[places]
        agreement.append(by_scipy(weights, blank_out_of(subject, one, label)[places]))
        top = places[np.argsort(-weights, kind="stable")[: int(np.ceil(len(places) / 2))]]
        keep = np.setdiff1d(np.arange(one.inputs["input_ids"].shape[1]), top)
        rest = {name: tensor[:, keep] for name, tensor in one.inputs.items() if tensor.ndim == 2}
        lost.append(probability(subject, one.inputs, label) - probability(subject, rest, label))
    got = mean_of(made, "raw", "spearman_blank_out", "standard", 1)
    assert got == pytest.approx(np.mean(agreement), abs=2e-2)
    assert mean_of(made, "raw", "comprehensiveness", "standard", 1) == pytest.approx(np.mean(lost), abs=1e-4)


def test_only_the_correct_class_needs_labels() -> None:
    assert Faithfulness(target="correct").needs_labels
    assert not Faithfulness().needs_labels
    assert Faithfulness().needs_answer
