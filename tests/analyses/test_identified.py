"""Error bars on attention: by hand, against cold programs example by example, and put into the model."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers as hf

from effective_attention import analyse
from effective_attention.analyses.common.alone import head_rows
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.common.samples import sample
from effective_attention.analyses.identified import NECESSARY, SCHEMA, TARGETS, Identified, interval_sums
from effective_attention.attention.row_space import reached_by
from effective_attention.attention.trace import trace
from effective_attention.data.annotation.tagging import KINDS
from effective_attention.errors import UserError
from effective_attention.kernels import simplex_reference
from helpers.subjects import make_context

DECODER = {"vocab_size": 50, "num_labels": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


class Words:
    """Of a tokenizer what naming tokens takes; there are periods, but no [CLS]."""

    def get_vocab(self):
        return {".": 7, "a": 8}

    def convert_ids_to_tokens(self, ids):
        return [f"w{number}" for number in ids]


def weights_of(table):
    return table[table["quantity"] == "weight"].set_index(["layer", "head", "target"])


# --- by hand ---


def test_three_keys_in_a_line():
    """Check values 0, 1, 2: weight goes from the middle in equal parts to both ends, or back."""
    attention, value = np.array([[[0.2, 0.5, 0.3]]]), np.array([[[0.0], [1.0], [2.0]]])
    types = np.array([[True, True, False], [False, False, True], [False, False, False]])
    sums, rows = interval_sums((attention, value, np.full((1, 1, 3), True)), types)
    weight, low, high, ends, necessary, keys = sums[:, 0]
    np.testing.assert_allclose(weight, [0.7, 0.3, 0], atol=1e-9)
    np.testing.assert_allclose(low, [0.45, 0.1, 0], atol=1e-9)  # the first two together: each alone can be 0
    np.testing.assert_allclose(high, [0.9, 0.55, 0], atol=1e-9)
    np.testing.assert_allclose(ends, [0, 0.1, 0], atol=1e-9)
    assert necessary.tolist() == [0, 1, 0]
    assert keys.tolist() == [2, 1, 0]
    assert rows.tolist() == [[1, 1, 0]]


# --- against cold programs ---


def test_against_cold_programs(subject, context, singles):
    table = run_analyses(subject, {"a": Identified(examples=1, queries=4, put_in=0).setup(context)})["a"]
    found = weights_of(table)
    index = int(sample(context, 1).nonzero())
    size = singles[index].layers[0].shape[2]
    queries = np.random.default_rng([context.seed, index]).choice(size, 4, replace=False).tolist()
    for layer, head in ((0, 1), (1, 3)):
        total = dict.fromkeys(["weight", "ends", "needed", "keys", "rows"], 0.0)
        cls = []
        attention, value, _ = head_rows(singles[index].layers[layer], queries)
        reached = reached_by(value[head])
        for row in attention[head]:
            low, high = simplex_reference.ends_of(simplex_reference.Polytope(reached, row), row)
            total["ends"] += low.sum()
            total["needed"] += (low > NECESSARY).sum()
            total["keys"] += len(row)
            total["rows"] += 1
            cls.append((row[0], low[0], high[0]))
        every = found.loc[(layer, head, "all")]
        assert every["identified"] == pytest.approx(total["ends"] / total["rows"], abs=1e-5)
        assert every["necessary"] == pytest.approx(total["needed"] / total["keys"], abs=1e-3)
        assert every["count"] == total["rows"]
        got = found.loc[(layer, head, "cls"), ["value", "low", "high"]].astype(float)
        np.testing.assert_allclose(got, np.mean(cls, axis=0), atol=1e-5)


def test_the_table(subject, context):
    table = run_analyses(subject, {"a": Identified(examples=4, queries=3, put_in=3, layer=0, head=2).setup(context)})[
        "a"
    ]
    SCHEMA.check(table, "identified")
    found = weights_of(table)
    assert set(found.index.get_level_values("target")) <= {*TARGETS, "all"} - {"first"}  # [CLS] is first
    assert (found["low"] <= found["value"] + 1e-9).all()
    assert (found["value"] <= found["high"] + 1e-9).all()
    every = found.xs("all", level="target")
    np.testing.assert_allclose(every["value"], 1)
    assert (every["count"] == 12).all()
    assert (every["examples"] == 4).all()
    row = table[table["quantity"] == "row"]
    assert row["value"].sum() == pytest.approx(1)
    assert (row["low"] <= row["value"]).all()
    assert (row["value"] <= row["high"]).all()
    assert set(zip(row["layer"], row["head"], row["query_token"], strict=True)) == {(0, 2, "[CLS]")}
    changes = table.set_index("quantity")["value"]
    assert changes["logit_change"] < 1e-5
    assert int(table.set_index("quantity").loc["logit_change", "count"]) == 6


# --- other models ---


@pytest.mark.parametrize(
    "config",
    [
        hf.GPT2Config(**DECODER, n_embd=32, n_layer=2, n_head=4),
        hf.LlamaConfig(
            **DECODER, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32,
            num_key_value_heads=2,
        ),
    ],
    ids=["causal", "grouped queries"],
)  # fmt: skip
def test_causal_models(config):
    torch.manual_seed(0)
    model = hf.AutoModelForSequenceClassification.from_config(config).eval()
    ids = 3 + torch.randperm(47, generator=torch.Generator().manual_seed(1))[None, :16]
    ids[0, 5] = 7  # a period
    seen = trace(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    kinds = torch.full_like(ids, KINDS.index("word"))
    seen = dataclasses.replace(seen, inputs={**seen.inputs, "index": torch.tensor([0])}, tokens={"kind": kinds})
    context = make_context(layers=2, heads=4, width=32, max_length=64, examples=1, tokenizer=Words())
    analysis = Identified(examples=None, queries=16, put_in=4).setup(context)
    assert analysis.wants([0])
    analysis.update(seen)
    table = analysis.compute()
    SCHEMA.check(table, "identified")
    found = weights_of(table)
    assert set(found.index.get_level_values("target")) == {"first", "punctuation", "other", "all"}
    assert (found.xs("first", level="target")["count"] == 16).all()
    assert (found.xs("other", level="target")["count"] == 15).all()  # the first query sees no other token
    assert (found.xs("all", level="target")["identified"] < 1).any()
    row = table[table["quantity"] == "row"]
    assert set(row["query"]) == {15}  # a causal model answers from the last token
    assert table.set_index("quantity").loc["logit_change", "value"] < 1e-5


def test_no_freedom():
    """Check a model whose heads are as wide as the text is long: all is identified."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = hf.BertForSequenceClassification(hf.BertConfig(vocab_size=50, **sizes)).eval()
    ids = torch.arange(3, 12)[None]
    seen = trace(model, {"input_ids": ids, "index": torch.tensor([0])})
    seen = dataclasses.replace(seen, tokens={"kind": torch.full_like(ids, KINDS.index("word"))})
    context = make_context(layers=1, heads=2, width=32, max_length=64, examples=1, tokenizer=Words())
    analysis = Identified(put_in=2).setup(context)
    analysis.update(dataclasses.replace(seen, inputs={**seen.inputs, "index": torch.tensor([0])}))
    found = weights_of(analysis.compute())
    np.testing.assert_allclose(found["identified"], 1)
    np.testing.assert_allclose(found["low"], found["high"])


def test_both_ends_of_a_hundred_intervals_leave_the_logits_of_minilm_alone():
    from effective_attention.models.embedded import embedded_folder

    torch.manual_seed(0)
    folder = embedded_folder()
    model = hf.AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():  # a new head's answers are all but 0
        model.classifier.weight.mul_(50)
    texts = [
        "Farmers on the slopes of the mountain say that old volcanic soil gives their coffee its unusual flavour, but "
        "nobody who buys it in the city, they add, has ever tasted any difference at all between that and the rest.",
        "The committee, which had met every week since the spring, published its report on Tuesday; it found that most "
        "of the money had been spent on roads that were never built, and on lawyers who had advised against them.",
    ]
    analysis = Identified(examples=None, queries=1, put_in=100)
    table = analyse(model, hf.AutoTokenizer.from_pretrained(folder), texts, [analysis], progress=False)["identified"]
    changes = table.set_index("quantity")
    assert changes.loc["logit_change", "count"] == 200
    assert changes.loc["logit_change", "value"] < 1e-5
    assert changes.loc["control_change", "value"] > 1e-3
    every = weights_of(table).xs("all", level="target")["identified"]
    assert 0 < every.min() < every.max() <= 1


# --- options ---


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"examples": 0}, "identified.examples must be at least 1"),
        ({"queries": 0}, "identified.queries must be at least 1"),
        ({"put_in": -1}, "identified.put_in must be at least 0"),
        ({"example": 99}, "identified.example must be from 0 to"),
        ({"layer": 2}, "identified.layer must be from 0 to 1"),
        ({"head": 4}, "identified.head must be from 0 to 3"),
        ({"query": 10**4}, "identified.query must be from 0 to"),
    ],
)
def test_wrong_options(subject, context, options, what):
    with pytest.raises(UserError, match=what):
        Identified(**options).setup(context)


def test_without_a_tokenizer():
    with pytest.raises(UserError, match="needs a tokenizer"):
        Identified().setup(make_context(layers=1, heads=2, width=8, max_length=64, examples=1))
