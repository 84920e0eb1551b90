"""Table 2, Fig. 4: shares of patterns among random maps."""

from collections import Counter

import pandas as pd
import pytest
import torch

from effective_attention.analyses.common.base import Context
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.patterns import SCHEMA, Patterns, draw_maps
from effective_attention.errors import UserError
from effective_attention.models.pattern_net import PATTERNS, load_pattern_net, to_image
from helpers.subjects import make_context


def shape(**changes) -> Context:
    return make_context(**{"layers": 6, "heads": 12, "width": 384, "max_length": 128, "examples": 500, **changes})


def image_length(seen) -> int:
    return seen.layers[0].part("standard").shape[-1]


@pytest.mark.parametrize("maps", [100_000, 35])
def test_against_a_naive_loop(subject, context, singles, maps):
    table = run_analyses(subject, {"a": Patterns(maps=maps).setup(context)})["a"]
    net, expected = load_pattern_net(), Counter()
    for index, seen in enumerate(singles):
        chosen = draw_maps(torch.tensor([index]), context, maps)[0]
        for layer in range(context.layers):
            for head in range(context.heads):
                for attention in ("standard", "effective"):
                    image = to_image(seen.layers[layer].part(attention)[:, head])
                    pattern = PATTERNS[net(image, torch.tensor([image_length(seen)])).argmax().item()]
                    expected[attention, layer, pattern] += int(chosen[layer, head])
    for attention in ("standard", "effective"):
        rows = table[table["attention"] == attention]
        for layer in (pd.NA, *range(context.layers)):
            found = [number for number in range(context.layers) if layer is pd.NA or number == layer]
            count = {pattern: sum(expected[attention, number, pattern] for number in found) for pattern in PATTERNS}
            mine = rows[rows["layer"].isna()] if layer is pd.NA else rows[rows["layer"].eq(layer).fillna(False)]
            assert mine["pattern"].tolist() == list(PATTERNS)
            assert mine["count"].unique().tolist() == [sum(count.values())]
            assert (mine["value"] * mine["count"]).tolist() == pytest.approx(list(count.values()))


def test_the_columns(subject, context):
    table = run_analyses(subject, {"a": Patterns().setup(context)})["a"]
    SCHEMA.check(table, "patterns")
    assert table.columns.tolist() == ["attention", "layer", "head", "pattern", "value", "corrected", "count"]
    assert len(table) == 2 * (1 + context.layers) * len(PATTERNS)
    assert table["head"].isna().all()
    assert table["layer"].dtype == table["head"].dtype == "Int64"
    shares = table.groupby(["attention", "layer"], dropna=False)["value"].sum()
    assert shares.tolist() == pytest.approx([1] * 2 * (1 + context.layers))
    corrected = table.groupby(["attention", "layer"], dropna=False)["corrected"].sum()
    assert corrected.tolist() == pytest.approx([1] * 2 * (1 + context.layers))


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_corrected_shares_take_back_the_nets_errors(subject, context, monkeypatch):
    # a net that takes every other vertical map for heterogeneous, and makes no other mistake
    rates = torch.eye(len(PATTERNS), dtype=torch.float64)
    rates[0, 0], rates[0, 4] = 0.5, 0.5
    monkeypatch.setattr("effective_attention.analyses.patterns.error_rates", lambda: rates)
    analysis = Patterns().setup(context)
    counts = torch.zeros_like(analysis.found)
    counts[0, 0] = torch.tensor([30, 10, 20, 0, 40])
    analysis.found += counts
    table = analysis.compute()
    rows = table[(table["attention"] == "standard") & table["layer"].eq(0).fillna(False)]
    assert rows["value"].tolist() == pytest.approx([0.3, 0.1, 0.2, 0.0, 0.4])
    assert rows["corrected"].tolist() == pytest.approx([0.6, 0.1, 0.2, 0.0, 0.1], abs=1e-4)


def test_about_as_many_maps_as_asked_for_from_everywhere():
    context = shape()
    chosen = draw_maps(torch.arange(500), context, 1000)
    assert chosen.shape == (500, 6, 12)
    assert 900 < chosen.sum() < 1100
    assert chosen.sum(dim=(0, 2)).min() > 120
    assert chosen.sum(dim=(0, 1)).min() > 50


def test_a_map_is_drawn_by_itself_and_by_the_seed():
    context = shape()
    chosen = draw_maps(torch.arange(500), context, 1000)
    assert torch.equal(draw_maps(torch.tensor([41, 7]), context, 1000), chosen[[41, 7]])
    assert not torch.equal(draw_maps(torch.arange(500), shape(seed=1), 1000), chosen)


def test_small_splits_are_taken_whole():
    assert draw_maps(torch.arange(3), shape(examples=3), 1000).all()


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_a_layer_nothing_was_drawn_from_has_no_shares(context):
    table = Patterns(maps=1).setup(context).compute()
    assert table["count"].eq(0).all()
    assert table[["value", "corrected"]].isna().all(axis=None)


@pytest.mark.parametrize("maps", [0, -1])
def test_a_wrong_number_is_refused(context, maps):
    with pytest.raises(UserError, match=r"analysis\.patterns\.maps must be a whole number"):
        Patterns(maps=maps).setup(context)
