"""Every protocol against loops over texts with SciPy's ranks; paired intervals; every map computed once."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from effective_attention.analyses import protocols as module
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.faithfulness import Faithfulness
from effective_attention.analyses.protocols import DIFFERENCES, METHODS, SCHEMA, Protocols
from effective_attention.attributions import flow as flow_method
from effective_attention.attributions.ranking import draw_again
from effective_attention.errors import UserError
from helpers.cases import build_case
from helpers.plain_agreement import blank_out_of, by_scipy, by_the_formula, maps_of, norm_of, summed, words_of


def tabled(subject: Any, context: Any, **options: Any) -> pd.DataFrame:
    own = Protocols(**{"limit": None, **options}).setup(context)
    return run_analyses(subject, {"protocols": own})["protocols"]


@pytest.fixture(scope="module")
def table(subject: Any, context: Any) -> pd.DataFrame:
    return tabled(subject, context)


def rows(table: pd.DataFrame, **where: Any) -> pd.DataFrame:
    for name, value in where.items():
        table = table[table[name].isna() if value is None else table[name] == value]
    return table


def plain(subject: Any, one: Any, attention: str, layer: int) -> dict[tuple[Any, ...], dict[str, float]]:
    """One text by each protocol: (reference, gradient, query, ties, delimiters) to the correlation of each method."""
    label = int(one.logits[0].argmax())
    worths = {
        ("gradients", "norm"): norm_of(subject, one, label),
        ("gradients", "sum"): summed(subject, one, label),
        ("blank_out", None): blank_out_of(subject, one, label),
    }
    found = {}
    for (worth, values), query, ties, all_tokens in product(
        worths.items(), ("answer", "max"), ("mean", "dense"), (False, True)
    ):
        chosen = np.ones(len(values), dtype=bool) if all_tokens else words_of(one)
        measure = by_scipy if ties == "mean" else by_the_formula
        found[(*worth, query, ties, all_tokens)] = {
            method: measure((whole[0] if query == "answer" else whole.max(axis=0))[chosen], values[chosen])
            for method, whole in maps_of(one, attention, layer).items()
        }
    return found


@pytest.mark.parametrize(("attention", "layer"), [("standard", 1), ("effective", 0), ("effective", 1)])
def test_every_protocol_against_loops(
    table: pd.DataFrame, subject: Any, singles: list[Any], attention: str, layer: int
) -> None:
    every = [plain(subject, one, attention, layer) for one in singles]
    for way in every[0]:
        names = ("reference", "gradient", "query", "ties", "delimiters")
        got = rows(table, attention=attention, layer=layer, **dict(zip(names, way, strict=True))).set_index("method")
        assert len(got) == len(METHODS) + len(DIFFERENCES)
        values = {method: np.array([one[way][method] for one in every]) for method in METHODS}
        for method in METHODS:  # a random model has near ties, which rounding orders
            assert got.loc[method, "value"] == pytest.approx(values[method].mean(), abs=2e-2), (way, method)
        for difference in DIFFERENCES:
            first, second = difference.split(" - ")
            apart = values[first] - values[second]
            assert got.loc[difference, "value"] == pytest.approx(apart.mean(), abs=3e-2), (way, difference)
            assert got.loc[difference, "std"] == pytest.approx(apart.std(ddof=1), abs=5e-2), (way, difference)


def test_the_table(table: pd.DataFrame, context: Any) -> None:
    SCHEMA.check(table, "protocols")
    assert len(table) == 2 * (len(METHODS) + len(DIFFERENCES)) * context.layers * (16 + 8)
    assert set(table["target"]) == {"predicted"}
    assert set(table["count"]) == {context.examples} == set(table["examples"])


@pytest.mark.parametrize("preset", ["ours", "abnar2020"])
def test_a_preset_has_the_numbers_of_faithfulness(table: pd.DataFrame, subject: Any, context: Any, preset: str) -> None:
    own = Faithfulness(
        limit=None, methods=list(METHODS), steps=1, shares=[0.2], protocol=preset, target="predicted"
    ).setup(context)
    league = run_analyses(subject, {"faithfulness": own})["faithfulness"]
    facts = {name: league[name].iloc[0] for name in ("query", "ties", "delimiters")}
    for measure, more in (
        ("spearman_gradients", {"reference": "gradients", "gradient": league["gradient"].iloc[0]}),
        ("spearman_blank_out", {"reference": "blank_out"}),
    ):
        keys = ["attention", "method", "layer"]
        mine = rows(table, **facts, **more).set_index(keys)["value"]
        theirs = league[league["measure"] == measure].set_index(keys)["value"]
        np.testing.assert_allclose(mine.loc[theirs.index], theirs, atol=2e-2)  # rounding orders near ties


def test_intervals_of_differences_are_paired(subject: Any, context: Any) -> None:
    own = Protocols(limit=None).setup(context)
    made = run_analyses(subject, {"protocols": own})["protocols"]
    values = own.values[:, 0, :, 1, 0, 0, 0, 0].numpy()  # type: ignore[attr-defined]
    apart = values[:, 1] - values[:, 0]  # rollout - raw, standard, layer 1, by our protocol with gradients
    drawn = draw_again(len(apart), 1000, context.seed).numpy()
    low, high = np.quantile(apart[drawn].mean(axis=1), [0.025, 0.975])
    ours = {"reference": "gradients", "gradient": "norm", "query": "answer", "ties": "mean", "delimiters": False}
    (row,) = rows(made, attention="standard", layer=1, method="rollout - raw", **ours).to_dict("records")
    assert (row["low"], row["high"]) == pytest.approx((low, high), abs=1e-9)


def test_each_map_is_computed_once(subject: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    flows = flow_method.flows
    monkeypatch.setattr(
        flow_method, "flows", lambda *given, **more: calls.append(len(given[0])) or flows(*given, **more)
    )
    tabled(subject, context)
    assert sum(calls) == 2 * len(subject.split)  # each example once for each attention


@pytest.mark.parametrize("changes", [{"batch_size": 1}, {"padding": "max_length"}], ids=str)
def test_neither_batching_nor_padding_matters(table: pd.DataFrame, make_subject: Any, changes: Any) -> None:
    other = make_subject(**changes)
    made = tabled(other, other.context(seed=0, task=other.data.task))
    np.testing.assert_allclose(made["value"], table["value"], atol=2e-2)


def test_long_batches_are_cut(table: pd.DataFrame, subject: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAIRS", 1)  # one text at a time
    np.testing.assert_allclose(tabled(subject, context)["value"], table["value"], atol=2e-2)


def test_the_target(subject: Any, context: Any) -> None:
    assert Protocols(target="correct").needs_labels
    assert not Protocols().needs_labels
    made = tabled(subject, context, target="first", limit=2)
    assert set(made["target"]) == {"first"}
    assert set(made["examples"]) == {2}


def test_a_model_without_gradients_to_sum_is_no_subject(context: Any) -> None:
    theirs = replace(context, probe=build_case("xlnet").trace)
    found = str(Protocols().obstacle(theirs))
    assert found.startswith("gradient=sum: XLNetForSequenceClassification hands out copies of its embeddings")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, r"^analysis\.protocols\.limit must be at least 1, or null for all, got 0$"),
        ({"target": "gold"}, r"^analysis\.protocols\.target must be predicted or correct or first, got 'gold'$"),
        ({"residual": 2}, r"^analysis\.protocols\.residual must be a number from 0 to 1, got 2; the paper's is 0\.5$"),
        ({"convention": "x"}, r"^analysis\.protocols\.convention must be one of absolute, positive, got 'x'$"),
        ({"receptive_field": 1}, r"^analysis\.protocols\.receptive_field must be true, false or null"),
    ],
)
def test_wrong_options(options: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Protocols(**options)
