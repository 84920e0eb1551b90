"""Scores with a head, or a layer, reduced to averaging."""

import pytest
import torch

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.head_ablation import SCHEMA, HeadAblation, ablated_logits
from effective_attention.errors import UserError


def by_hand(model, inputs, layer, heads):
    """The same by replacing queries: a head whose queries are all zero attends evenly, whatever its keys are."""
    attention = model.bert.encoder.layer[layer].attention.self
    weight, bias = attention.query.weight.clone(), attention.query.bias.clone()
    with torch.no_grad():
        for head in heads:
            attention.query.weight[head * 8 : head * 8 + 8] = 0
            attention.query.bias[head * 8 : head * 8 + 8] = 0
        logits = model(**inputs).logits
        attention.query.weight.copy_(weight)
        attention.query.bias.copy_(bias)
    return logits


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("heads", [[0], [3], [0, 1, 2, 3]])
def test_uniform_heads_against_zeroed_queries(subject, layer, heads):
    seen = subject.trace([0, 3, 4])
    inputs = {name: seen.inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    chosen = torch.zeros(3, 4, dtype=torch.bool)
    chosen[:, heads] = True
    expected = by_hand(subject.model, inputs, layer, heads)
    got = ablated_logits(subject.model, inputs, layer, chosen)
    torch.testing.assert_close(got, expected)
    assert not torch.allclose(got, seen.logits)


def test_rows_are_ablated_one_by_one(subject):
    seen = subject.trace([0, 3])
    chosen = torch.tensor([[True, False, False, False], [False] * 4])
    logits = ablated_logits(subject.model, seen.inputs, 0, chosen)
    torch.testing.assert_close(logits[1], seen.logits[1])
    assert not torch.allclose(logits[0], seen.logits[0])


def test_against_a_naive_loop(subject, context):
    table = run_analyses(subject, {"a": HeadAblation(limit=None).setup(context)})["a"]
    data, split = subject.data, subject.split
    inputs = data.collate(split, range(len(split)))
    labels = inputs["labels"]
    given = {name: value for name, value in inputs.items() if name not in ("labels", "index")}
    before = (subject.model(**given).logits.argmax(-1) == labels).double().mean().item()
    accuracy = table[table["metric"] == "accuracy"]
    assert len(accuracy) == 2 * (4 + 1)
    for row in accuracy.itertuples():
        heads = range(4) if row.head is not None and str(row.head) == "<NA>" else [int(row.head)]
        expected = (by_hand(subject.model, given, row.layer, heads).argmax(-1) == labels).double().mean().item()
        assert row.value == pytest.approx(expected)
        assert row.change == pytest.approx(expected - before)
    assert set(table["count"]) == {len(split)}


def test_regression(make_subject):

    subject = make_subject(task="stsb", examples=6)
    table = run_analyses(subject, {"a": HeadAblation(limit=None).setup(subject.context(task=subject.data.task))})["a"]
    assert set(table["metric"]) == {"pearson", "spearman"}


def test_a_subset(subject, context):
    table = run_analyses(subject, {"a": HeadAblation(limit=3).setup(context)})["a"]
    SCHEMA.check(table, "head_ablation")
    assert set(table["count"]) == {3}
    assert set(table["examples"]) == {3}


def test_bad_option(context):
    with pytest.raises(UserError, match=r"head_ablation\.limit must be at least 1"):
        HeadAblation(limit=0).setup(context)
