"""Another map with the same output, put into the real model."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers as hf

from effective_attention.analyses.alternative_attention import SCHEMA, AlternativeAttention, control_map
from effective_attention.analyses.common.base import UserText
from effective_attention.analyses.common.run import run_analyses
from effective_attention.attention.replacement import replaced_logits
from effective_attention.attention.trace import trace
from effective_attention.errors import UserError
from helpers.subjects import make_context

DECODER = {"vocab_size": 50, "num_labels": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
DECODERS = {
    "causal": hf.GPT2Config(**DECODER, n_embd=32, n_layer=2, n_head=4),
    "grouped queries": hf.LlamaConfig(**DECODER, **LLAMA, num_key_value_heads=2),
}


class Words:
    """Of a tokenizer what naming tokens takes."""

    def convert_ids_to_tokens(self, ids):
        return [f"w{number}" for number in ids]


def of_text(seen, **options):
    """The analysis of a single traced text."""
    layer = seen.layers[0]
    shape = {"layers": len(seen.layers), "heads": layer.value.shape[1]}
    context = make_context(
        **shape, width=seen.hidden[0].shape[-1], max_length=64, examples=1, tokenizer=Words(), text=UserText((), seen)
    )
    return AlternativeAttention(**options).setup(context).compute()


def decoder_trace(family, length=16):
    torch.manual_seed(0)
    model = hf.AutoModelForSequenceClassification.from_config(DECODERS[family]).eval()
    with torch.no_grad():  # a random model attends almost evenly, and its layers hardly change anything
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and (".h." in name or "layers." in name):
                weight.mul_(6)
    ids = (
        3 + torch.randperm(47, generator=torch.Generator().manual_seed(1))[None, :length]
    )  # no token twice: values would be equal
    return trace(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})


@pytest.fixture(scope="module")
def table(subject, context):
    return run_analyses(
        subject, {"a": AlternativeAttention(example=0, layer=1, head=2, starts=2, bound=False).setup(context)}
    )["a"]


def matrix(table, attention):
    rows = table[(table["quantity"] == "weight") & (table["attention"] == attention)]
    return rows.pivot(index="query", columns="key", values="value").to_numpy()


def value_of(table, quantity, **where):
    rows = table[table["quantity"] == quantity]
    for column, wanted in where.items():
        rows = rows[rows[column] == wanted]
    assert len(rows) == 1
    return rows["value"].item()


def test_the_shown_maps(table, singles, context):
    seen = singles[0]
    standard, alternative, effective = (matrix(table, name) for name in ("standard", "alternative", "effective"))
    value = seen.layers[1].value[0, 2].double().numpy()
    assert standard == pytest.approx(seen.layers[1].attention[0, 2].numpy(), abs=1e-6)
    assert effective == pytest.approx(seen.layers[1].part("effective")[0, 2].numpy(), abs=1e-6)
    assert alternative.min() >= 0
    assert alternative.sum(axis=1) == pytest.approx(np.ones(len(value)), abs=1e-8)
    assert alternative @ value == pytest.approx(standard @ value, abs=1e-8)
    shown = table[table["quantity"] == "weight"]
    SCHEMA.check(table, "alternative_attention")
    assert set(table["examples"]) == {1}
    assert set(zip(shown["layer"], shown["head"], strict=True)) == {(1, 2)}
    tokens = context.tokenizer.convert_ids_to_tokens(seen.inputs["input_ids"][0].tolist())
    assert shown[(shown["query"] == 3) & (shown["attention"] == "standard")]["key_token"].tolist() == tokens


def test_distances_and_freedom(table, singles):
    size = int(singles[0].lengths)
    rows = table[table["quantity"] == "distance"]
    assert len(rows) == 2 * 2 * 4 * size
    wide = rows.pivot(index=["layer", "head", "query"], columns="method", values="value")
    assert (wide["program"] >= wide["step"] - 1e-12).all()
    assert ((wide >= 0) & (wide <= 1)).all(axis=None)
    assert (wide["program"] > 0.01).mean() > 0.9
    shown = wide.loc[(1, 2)]
    standard, alternative = (matrix(table, name) for name in ("standard", "alternative"))
    assert shown["program"].to_numpy() == pytest.approx(np.abs(standard - alternative).sum(axis=1) / 2)
    freedom = table[table["quantity"] == "freedom"]["value"]
    assert len(freedom) == 2 * 4
    assert (freedom == size - 8 - 1).all()


def test_logits_do_not_change_but_could(table):
    for scope in ("head", "all"):
        assert value_of(table, "logit_change", attention="alternative", scope=scope) < 5e-6
        assert value_of(table, "logit_change", attention="control", scope=scope) > 2e-5
        before, same, other = (
            value_of(table, "probability", attention=name, scope=scope)
            for name in ("standard", "alternative", "control")
        )
        assert 0.5 <= before <= 1
        assert abs(same - before) < 2e-6
        assert abs(other - before) > 2e-6
    assert value_of(table, "output_change", attention="alternative") < 1e-8
    assert value_of(table, "output_change", attention="control") > 1e-2


@pytest.mark.parametrize("family", DECODERS)
def test_decoders(family):
    seen = decoder_trace(family)
    table = of_text(seen, layer=1, head=3)
    SCHEMA.check(table, "alternative_attention")  # with bounds
    for scope in ("head", "all"):
        assert value_of(table, "logit_change", attention="alternative", scope=scope) < 5e-6
        assert value_of(table, "logit_change", attention="control", scope=scope) > 2e-5
    alternative = matrix(table, "alternative")
    assert (np.triu(alternative, 1) == 0).all()
    rows = table[(table["quantity"] == "distance") & (table["method"] == "program")]
    assert (rows[rows["query"] <= 8]["value"] == 0).all()  # d_head is 8: nine visible keys leave no freedom
    assert rows[rows["query"] > 8]["value"].mean() > 0.01
    bound = table[table["quantity"] == "bound"]
    shown = rows[(rows["layer"] == 1) & (rows["head"] == 3)]
    assert set(zip(bound["layer"], bound["head"], strict=True)) == {(1, 3)}
    assert (shown["value"].to_numpy() <= bound["value"].to_numpy() + 1e-7).all()
    assert bound["value"].max() > 0.01
    assert set(table[table["quantity"] == "freedom"]["value"]) == {16 - 9}


def test_the_largest_distance_is_proved():
    table = of_text(decoder_trace("causal", length=12), heads="shown", starts=1, proof_seconds=20)
    SCHEMA.check(table, "alternative_attention")
    found, proved, bound = (
        table[(table["quantity"] == name) & (table["method"].fillna("program") == "program")]["value"].to_numpy()
        for name in ("distance", "proved", "bound")
    )
    assert len(proved) == 12
    np.testing.assert_allclose(proved, found, atol=2e-6)
    assert (proved <= bound + 2e-6).all()
    with pytest.raises(UserError, match="proof_seconds must be a number of seconds"):
        AlternativeAttention(proof_seconds=-1)


@pytest.mark.parametrize("heads", ["all", "shown"])
def test_no_freedom_is_said(heads):
    table = of_text(decoder_trace("causal", length=9), heads=heads)
    assert (table[table["quantity"] == "freedom"]["value"] == 0).all()
    assert (table[table["quantity"].isin(["distance", "bound", "output_change"])]["value"] < 1e-12).all()
    assert len(table[table["quantity"] == "bound"]) == 9
    assert (table[table["quantity"] == "logit_change"]["value"] < 1e-5).all()
    assert matrix(table, "alternative").tolist() == matrix(table, "standard").tolist()


def test_only_the_shown_head(subject, context):
    few = run_analyses(
        subject,
        {"a": AlternativeAttention(example=0, layer=1, head=2, heads="shown", starts=1, bound=False).setup(context)},
    )["a"]
    assert set(few["scope"].dropna()) == {"head"}
    assert "bound" not in set(few["quantity"])
    places = few[few["quantity"] == "distance"][["layer", "head"]].drop_duplicates()
    assert places.to_numpy().tolist() == [[1, 2]]
    seen = {
        frame["attention"].iloc[0]: matrix(frame, frame["attention"].iloc[0]) for _, frame in few.groupby("attention")
    }
    assert seen["alternative"].sum() == pytest.approx(len(seen["alternative"]))
    assert not np.allclose(seen["alternative"], seen["standard"], atol=1e-2)


def test_regression_has_no_probability(make_subject):
    subject = make_subject(task="stsb", examples=2)
    made = AlternativeAttention(heads="shown", starts=1, bound=False).setup(subject.context(task=subject.data.task))
    table = run_analyses(subject, {"a": made})["a"]
    assert "probability" not in set(table["quantity"])
    assert value_of(table, "logit_change", attention="alternative", scope="head") < 1e-5


def test_the_example_is_read_and_no_other(context):
    made = AlternativeAttention(example=4).setup(context)
    assert made.wants([3, 4])
    assert not made.wants([0, 1])
    assert (
        not AlternativeAttention(example=4)
        .setup(dataclasses.replace(context, text=UserText(("a text",), decoder_trace("causal"))))
        .wants([4])
    )
    assert AlternativeAttention().setup(context).compute().columns.tolist() == SCHEMA.names  # nothing was shown to it


# --- the control, and weights that are put in ---


def test_control_by_hand():
    attention, alternative = np.array([[0.5, 0.3, 0.2, 0.0]]), np.array([[0.1, 0.5, 0.4, 0.0]])
    visible = np.array([[True, True, True, False]])
    for seed in range(8):
        control = control_map(attention, alternative, np.random.default_rng(seed), visible)[0].round(9).tolist()
        assert control in ([0.1, 0.7, 0.2, 0], [0.1, 0.3, 0.6, 0])


def test_put_in_against_uniform_ablation(subject):
    from effective_attention.analyses.head_ablation import ablated_logits

    seen = subject.trace([0])
    size = int(seen.lengths)
    weights = torch.full((2, 4, size, size), 1 / size)
    replaced = torch.zeros(2, 4, dtype=torch.bool)
    replaced[1, [0, 3]] = True
    expected = ablated_logits(subject.model, seen.inputs, 1, replaced[1:])
    got = replaced_logits(subject.model, seen.inputs, weights, replaced)
    torch.testing.assert_close(got, expected)
    assert not torch.allclose(got, seen.logits)
    torch.testing.assert_close(
        replaced_logits(subject.model, seen.inputs, weights, torch.zeros_like(replaced)), seen.logits
    )


# --- bad options ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"example": 9}, r"example must be from 0 to 8, got 9"),
        ({"layer": 2}, r"layer must be from 0 to 1, got 2"),
        ({"head": -1}, r"head must be from 0 to 3, got -1"),
        ({"starts": 0}, r"starts must be at least 1, got 0"),
        ({"starts": True}, r"starts must be at least 1, got True"),
        ({"heads": "none"}, r"heads must be all or shown, got 'none'"),
        ({"bound": "yes"}, r"bound must be true or false, got 'yes'"),
    ],
    ids=str,
)
def test_bad_options(context, options, message):
    with pytest.raises(UserError, match=rf"^analysis\.alternative_attention\.{message}"):
        AlternativeAttention(**options).setup(context)
