"""One example as a graph: raw attention against the trace, rollout against a loop over paths, flow against networkx."""

import dataclasses
from itertools import product

import networkx
import numpy as np
import pytest
import torch

from effective_attention.analyses.attention_graph import SCHEMA, AttentionGraph, row_maps
from effective_attention.analyses.common.base import UserText
from effective_attention.analyses.common.run import run_analyses
from effective_attention.attention.trace import trace
from effective_attention.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore:The ``compute`` method")  # of a text there is nothing to update with


def naive_graph(seen, part, convention):
    """(layer, query, key) of a trace of one unpadded example, in numpy: signs go first, then heads are averaged."""
    weights = np.stack([layer.part(part)[0].double().numpy() for layer in seen.layers])
    weights = (np.abs(weights) if convention == "absolute" else np.maximum(weights, 0)).mean(axis=1)
    return weights / weights.sum(axis=-1, keepdims=True)


def with_residual(graph, residual):
    return residual * np.eye(graph.shape[-1]) + (1 - residual) * graph


def walks(graph, layer, row):
    """What reaches each input token from a node: the sum over all paths of the product of their weights."""
    size = graph.shape[-1]
    found = np.zeros(size)
    for path in product(range(size), repeat=layer + 1):
        weight, here = 1.0, row
        for depth, there in zip(range(layer, -1, -1), path, strict=True):
            weight, here = weight * graph[depth, here, there], there
        found[here] += weight
    return found


def flows(graph, layer, row):
    net = networkx.DiGraph()
    for depth, query, key in product(range(layer + 1), range(graph.shape[-1]), range(graph.shape[-1])):
        net.add_edge((depth + 1, query), (depth, key), capacity=graph[depth, query, key])
    values = np.array([networkx.maximum_flow_value(net, (layer + 1, row), (0, key)) for key in range(graph.shape[-1])])
    return values / values.sum()


def cells(table, attention, method):
    rows = table[(table["attention"] == attention) & (table["method"] == method)].sort_values(["layer", "query", "key"])
    return rows["value"].to_numpy().reshape(rows["layer"].nunique(), rows["query"].nunique(), -1)


def test_three_nodes_by_hand():
    graph = torch.tensor([[[0.0, 1.0], [0.5, 0.5]], [[0.2, 0.8], [1.0, 0.0]]], dtype=torch.float64)
    maps = row_maps(graph, 0)
    torch.testing.assert_close(maps["raw"], graph[:, 0])
    # with the residual, layer 0 is [[.5, .5], [.25, .75]] and row 0 of layer 1 is [.6, .4]
    torch.testing.assert_close(maps["rollout"], torch.tensor([[0.5, 0.5], [0.4, 0.6]], dtype=torch.float64))
    # to token 0: min(.6, .5) + min(.4, .25) = .75; to token 1: min(.6, .5) + min(.4, .75) = .9
    expected = torch.tensor([[0.5, 0.5], [0.75 / 1.65, 0.9 / 1.65]], dtype=torch.float64)
    torch.testing.assert_close(maps["flow"], expected)


@pytest.mark.parametrize("convention", ["absolute", "positive"])
def test_raw_rollout_and_flow_of_the_chosen_row(subject, context, convention):
    inputs = context.tokenizer("The key to the old cabinets of my aunt is here.", return_tensors="pt")
    own = dataclasses.replace(context, text=UserText(("a text",), trace(subject.model, inputs)))
    assert int(own.text.trace.layers[0].exact.rank.max()) < int(
        own.text.trace.lengths
    )  # so that effective attention is another
    table = AttentionGraph(row=2, residual=0.3, convention=convention).setup(own).compute()
    assert set(table["convention"]) == {convention}
    for part in ("standard", "effective"):
        graph = naive_graph(own.text.trace, part, convention)
        np.testing.assert_allclose(cells(table, part, "raw"), graph, atol=2e-6)
        mixed = with_residual(graph, 0.3)
        expected = np.stack([walks(mixed, layer, 2) for layer in range(2)])
        np.testing.assert_allclose(cells(table, part, "rollout")[:, 0], expected, atol=2e-6)
        expected = np.stack([flows(mixed, layer, 2) for layer in range(2)])
        np.testing.assert_allclose(cells(table, part, "flow")[:, 0], expected, atol=2e-6)
    assert set(table[table["method"] != "raw"]["query"]) == {2}


def test_the_chosen_example_of_the_split(subject, context, singles):
    table = run_analyses(subject, {"a": AttentionGraph(example=5, row=2).setup(context)})["a"]
    SCHEMA.check(table, "attention_graph")
    assert set(table["examples"]) == {1}
    for part in ("standard", "effective"):
        graph = naive_graph(singles[5], part, "absolute")
        np.testing.assert_allclose(cells(table, part, "raw"), graph, atol=2e-6)
        mixed = with_residual(graph, 0.5)
        np.testing.assert_allclose(
            cells(table, part, "rollout")[:, 0], [mixed[0, 2], mixed[1, 2] @ mixed[0]], atol=2e-6
        )
        np.testing.assert_allclose(cells(table, part, "flow").sum(axis=-1), 1.0)


def right_chances(singles):
    return [float(one.logits[0].double().softmax(dim=-1)[int(one.inputs["labels"][0])]) for one in singles]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_worst_example_is_the_one_whose_right_class_is_least_likely(make_subject, singles, batch_size):
    subject = make_subject(batch_size=batch_size)
    context = subject.context(task=subject.data.task)
    table = run_analyses(subject, {"a": AttentionGraph(example="worst", row=2).setup(context)})["a"]
    SCHEMA.check(table, "attention_graph")
    chances = right_chances(singles)
    index = int(np.argmin(chances))
    assert set(table["example"]) == {index}
    labels = subject.data.task.labels
    assert set(table["gold"]) == {labels[int(singles[index].inputs["labels"][0])]}
    assert set(table["predicted"]) == {labels[int(singles[index].logits[0].argmax())]}
    assert (set(table["gold"]) != set(table["predicted"])) == (min(chances) < 0.5)
    np.testing.assert_allclose(
        cells(table, "standard", "raw"), naive_graph(singles[index], "standard", "absolute"), atol=2e-6
    )


def test_a_chosen_example_says_its_class_and_the_models(subject, context, singles):
    labelled = dataclasses.replace(context, task=subject.data.task)
    table = run_analyses(subject, {"a": AttentionGraph(example=5).setup(labelled)})["a"]
    assert set(table["example"]) == {5}
    assert set(table["gold"]) == {subject.data.task.labels[int(singles[5].inputs["labels"][0])]}
    own = dataclasses.replace(labelled, text=UserText(("a text",), singles[5]))
    rows = AttentionGraph().setup(own).compute()
    assert rows[["example", "gold"]].isna().all(axis=None)
    assert rows["predicted"].notna().all()


def test_worst_needs_classes(context, subject):
    with pytest.raises(UserError, match=r"attention_graph.example=worst needs a task with classes; give a number"):
        AttentionGraph(example="worst").setup(dataclasses.replace(context, task=None))
    with pytest.raises(UserError, match=r"attention_graph.example must be a number or worst, got 'best'"):
        AttentionGraph(example="best")


def test_tokens_are_named(subject, context, singles):
    table = run_analyses(subject, {"a": AttentionGraph(example=3).setup(context)})["a"]
    tokens = context.tokenizer.convert_ids_to_tokens(singles[3].inputs["input_ids"][0].tolist())
    assert (
        table.groupby("key")["key_token"].first().tolist()
        == tokens
        == table.groupby("query")["query_token"].first().tolist()
    )
    assert table.groupby("key")["key_token"].nunique().max() == 1
    assert set(table[table["method"] == "flow"]["query_token"]) == {"[CLS]"}


def test_standard_attention_is_the_same_under_both_conventions(subject, context):
    one, other = (
        run_analyses(subject, {"a": AttentionGraph(convention=name).setup(context)})["a"].query(
            "attention == 'standard'"
        )
        for name in ("absolute", "positive")
    )
    np.testing.assert_array_equal(one["value"], other["value"])


def test_a_text_of_the_users_also_when_it_is_padded(subject, context):
    encoded = context.tokenizer("A cat sat.", "It purred.", return_tensors="pt")
    padded = context.tokenizer("A cat sat.", "It purred.", return_tensors="pt", padding="max_length", max_length=20)
    tables = [
        AttentionGraph(row=1)
        .setup(dataclasses.replace(context, text=UserText(("a text",), trace(subject.model, inputs))))
        .compute()
        for inputs in (encoded, padded)
    ]
    assert tables[0]["key"].max() == encoded["input_ids"].shape[1] - 1
    np.testing.assert_allclose(tables[0]["value"], tables[1]["value"], atol=2e-6)
    assert tables[0]["key_token"].tolist() == tables[1]["key_token"].tolist()


def test_one_token_sees_itself(subject, context):
    one = trace(subject.model, {"input_ids": torch.tensor([[101]])})
    table = AttentionGraph().setup(dataclasses.replace(context, text=UserText(("a text",), one))).compute()
    assert len(table) == 2 * 3 * 2
    np.testing.assert_allclose(table["value"], 1.0)


def test_an_example_nobody_saw_gives_an_empty_table(subject, context):
    table = run_analyses(subject, {"a": AttentionGraph(example=3).setup(context)}, indices=[1, 2])["a"]
    assert len(table) == 0
    assert list(table.columns) == SCHEMA.names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"example": 99}, r"analysis\.attention_graph\.example must be from 0 to 8, got 99"),
        ({"row": -1}, r"analysis\.attention_graph\.row must be null or a token of the text, from 0 to 63, got -1"),
        ({"row": 64}, r"analysis\.attention_graph\.row must be null or a token of the text, from 0 to 63, got 64"),
        ({"residual": 1.5}, r"analysis\.attention_graph\.residual must be a number from 0 to 1, got 1\.5"),
        (
            {"convention": "squared"},
            r"analysis\.attention_graph\.convention must be one of absolute, positive, got 'squared'",
        ),
    ],
)
def test_bad_options(context, options, message):
    with pytest.raises(UserError, match=message):
        AttentionGraph(**options).setup(context)


def test_a_row_beyond_the_text_is_refused(subject, context, singles):
    last = int(singles[0].lengths) - 1
    made = AttentionGraph(row=last + 1).setup(context)
    with pytest.raises(
        UserError, match=rf"attention_graph\.row must be null or a token of the text, from 0 to {last}, got {last + 1}"
    ):
        run_analyses(subject, {"a": made})
    own = dataclasses.replace(
        context, text=UserText(("a text",), trace(subject.model, context.tokenizer("A cat.", return_tensors="pt")))
    )
    with pytest.raises(UserError, match=r"from 0 to 4, got 5"):
        AttentionGraph(row=5).setup(own)
