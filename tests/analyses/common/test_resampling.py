"""Intervals over examples: beside the slow way, which shows an analysis each drawn example again."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from effective_attention.analyses import find_analysis
from effective_attention.analyses.common import resampling as module
from effective_attention.analyses.common.resampling import HIGH, LOW, Resampling, can_be_resampled, percentiles
from effective_attention.analyses.common.run import run_analyses

RESAMPLED = (
    "delimiters",
    "dependency_alignment",
    "distance",
    "entropy",
    "finetuning_shift",
    "null_space",
    "patterns",
    "pos_attention",
    "token_type_profile",
    "token_types",
)
NOT = (
    "exemplars",
    "faithfulness",
    "protocols",
    "head_ablation",
    "identified",
    "sinks",
    "variability",
    "heatmap",
    "timing",
)
OPTIONS = {"dependency_alignment": {"least": 0}, "patterns": {"maps": 60}, "null_space": {"padded_examples": 4}}


def ready(name, context):
    made = find_analysis(name)(**OPTIONS.get(name, {}))
    return made.setup(dataclasses.replace(context, folder=None))


def drawn_examples(count, resampling):
    """The examples of each draw, with repetition, as the module draws them."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(resampling.seed)).tolist()
    generator = torch.Generator().manual_seed(resampling.seed)
    draws = torch.randint(count, (resampling.draws, count), generator=generator)
    return [[order.index(place) for place in draw] for draw in draws.tolist()]


@pytest.fixture(scope="module")
def singles_by_index(subject):
    return {index: subject.trace([index]) for index in range(len(subject.split))}


@pytest.mark.parametrize("name", RESAMPLED)
def test_a_draw_is_what_the_analysis_says_of_the_drawn_examples(name, subject, context, singles_by_index):
    resampling = Resampling(draws=3, seed=4)
    analysis = ready(name, context)
    plain = run_analyses(subject, {name: ready(name, context)})[name]
    table = run_analyses(subject, {name: analysis}, resampling=resampling)[name]
    pd.testing.assert_frame_equal(table.drop(columns=[LOW, HIGH]), plain, rtol=1e-6, atol=1e-9)
    keys = analysis.schema.keys
    found = list(resampling.tables(name))
    assert len(found) == 3
    for examples, got in zip(drawn_examples(len(singles_by_index), resampling), found, strict=True):
        again = ready(name, context)
        for index in examples:
            again.update(singles_by_index[index])
        expected = got[keys].merge(again.compute()[[*keys, "value"]], on=keys, how="left")["value"]
        np.testing.assert_allclose(got["value"].to_numpy(float), expected.to_numpy(float), rtol=2e-4, atol=2e-6)


def test_intervals_are_the_percentiles_of_the_draws(subject, context):
    resampling = Resampling(draws=200)
    table = run_analyses(subject, {"delimiters": ready("delimiters", context)}, resampling=resampling)["delimiters"]
    values = np.array([one["value"] for one in resampling.tables("delimiters")])
    np.testing.assert_allclose(table[LOW], np.quantile(values, 0.025, axis=0))
    np.testing.assert_allclose(table[HIGH], np.quantile(values, 0.975, axis=0))
    inside = (table[LOW] <= table["value"]) & (table["value"] <= table[HIGH])
    assert inside.mean() > 0.9
    assert (table[HIGH] - table[LOW]).gt(0).all()


def test_the_spread_is_the_standard_error(context):
    """Of a mean of plain numbers, whose standard error everybody knows."""
    numbers = torch.randn(400, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for groups in (400, 50):
        resampling = Resampling(draws=2000, groups=groups)
        found = fed_with(numbers, resampling, context)
        low, high = found.iloc[0][[LOW, HIGH]]
        expected = 2 * 1.96 * float(numbers.std()) / len(numbers) ** 0.5
        tolerance = 0.05 if groups == 400 else 0.2  # the spread of 50 groups' means is itself known to a tenth
        assert high - low == pytest.approx(expected, rel=tolerance)


def fed_with(numbers, resampling, context):
    """Resample a mean of numbers that stand for examples."""
    from types import SimpleNamespace

    from effective_attention.analyses import Column, Schema, SplitAnalysis

    class Mean(SplitAnalysis):
        schema = Schema((Column("name", "", "name", key=True), Column("value", "")))

        def setup(self, context):
            super().setup(context)
            self.add_sum("total")
            self.add_sum("count")
            return self

        def update(self, trace):
            self.total += trace.number
            self.count += 1

        def compute(self):
            return pd.DataFrame({"name": ["mean"], "value": [float(self.total / self.count)]})

    split = dataclasses.replace(context.split, examples=len(numbers))
    analysis = Mean().setup(dataclasses.replace(context, split=split))
    (sums,) = resampling.watch({"mean": analysis}).values()
    for index, number in enumerate(numbers):
        sums.update(SimpleNamespace(inputs={"index": torch.tensor([index])}, number=number))
    sums.gather()
    table = analysis.compute()
    assert table["value"].item() == pytest.approx(float(numbers.mean()))
    return resampling.with_intervals("mean", sums, table)


def test_sums_do_not_grow_with_the_split(subject, context):
    small, large = (
        Resampling(draws=1, groups=5).watch({"delimiters": ready("delimiters", with_examples(context, count))})
        for count in (40, 40_000)
    )
    sizes = [{name: one.shape for name, one in found["delimiters"].sums.items()} for found in (small, large)]
    assert sizes[0] == sizes[1]
    counts = np.bincount(large["delimiters"].group_of)
    assert counts.tolist() == [8000] * 5


def with_examples(context, count):
    return dataclasses.replace(context, split=dataclasses.replace(context.split, examples=count))


def test_which_can_be_resampled(context):
    assert all(can_be_resampled(ready(name, context)) for name in RESAMPLED)
    assert not any(can_be_resampled(ready(name, context)) for name in NOT)


def test_what_nobody_reads_of_a_draw_is_not_computed(subject, context, monkeypatch):
    from effective_attention.analyses import patterns

    calls = []
    correct = patterns.corrected_shares
    monkeypatch.setattr(patterns, "corrected_shares", lambda *given: calls.append(1) or correct(*given))
    analyses = {"patterns": ready("patterns", context)}
    table = run_analyses(subject, analyses, resampling=Resampling(draws=5))["patterns"]
    assert len(calls) == 1
    plain = run_analyses(subject, {"patterns": ready("patterns", context)})["patterns"]
    pd.testing.assert_series_equal(table["corrected"], plain["corrected"])


def test_others_are_left_as_they_are(subject, context):
    got = run_analyses(subject, {"variability": ready("variability", context)}, resampling=Resampling(draws=2))
    plain = run_analyses(subject, {"variability": ready("variability", context)})
    pd.testing.assert_frame_equal(got["variability"], plain["variability"])


def test_a_row_that_few_draws_have_has_no_interval():
    values = np.array([[1.0, np.nan, 3.0], [2.0, np.nan, np.nan], [3.0, 5.0, 4.0]])
    low, high = percentiles(values)
    assert low[0] == pytest.approx(1.05)
    assert high[0] == pytest.approx(2.95)
    assert np.isnan(low[1])
    assert low[2] == pytest.approx(3.025)


def test_rows_are_found_again_by_their_keys():
    table = pd.DataFrame({"a": ["x", "y", "z"], "n": pd.array([0, pd.NA, 2], dtype="Int64"), "value": [1.0, 2.0, 3.0]})
    drawn = table.iloc[[2, 1]].assign(value=[30.0, 20.0])
    got = module._in_order(drawn, table, ["a", "n"])
    assert np.isnan(got[0])
    assert got[1:].tolist() == [20.0, 30.0]
