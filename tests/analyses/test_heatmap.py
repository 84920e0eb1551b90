"""One head of one example."""

import dataclasses

import pytest
import torch

from effective_attention.analyses.common.base import UserText
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.heatmap import SCHEMA, Heatmap
from effective_attention.attention.trace import trace
from effective_attention.errors import UserError


def test_the_chosen_example_layer_and_head(subject, context, singles):
    table = run_analyses(subject, {"a": Heatmap(example=5, layer=0, head=3).setup(context)})["a"]
    SCHEMA.check(table, "heatmap")
    assert set(table["examples"]) == {1}
    length = int(singles[5].lengths)
    for part in ("standard", "effective", "null"):
        rows = table[table["attention"] == part]
        matrix = torch.tensor(rows.pivot(index="query", columns="key", values="value").to_numpy())
        torch.testing.assert_close(matrix.float(), singles[5].layers[0].part(part)[0, 3])
        assert len(rows) == length**2
    first = table[(table["query"] == 0) & (table["attention"] == "standard")].sort_values("key")
    ids = singles[5].inputs["input_ids"][0].tolist()
    assert first["key_token"].tolist() == context.tokenizer.convert_ids_to_tokens(ids)
    assert set(first["query_token"]) == {"[CLS]"}
    assert set(table["layer"]) == {0}
    assert set(table["head"]) == {3}


def test_a_text_of_the_users(subject, context):
    inputs = context.tokenizer("A cat sat.", "It purred.", return_tensors="pt")
    own = dataclasses.replace(context, text=UserText(("a text",), trace(subject.model, inputs)))
    table = run_analyses(subject, {"a": Heatmap().setup(own)})["a"]
    tokens = table[(table["query"] == 0) & (table["attention"] == "null")].sort_values("key")["key_token"]
    assert tokens.tolist() == context.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())


@pytest.mark.parametrize(("option", "message"), [("head", "from 0 to 3, got 4"), ("example", "from 0 to 8, got 99")])
def test_bad_options(context, option, message):
    with pytest.raises(UserError, match=rf"analysis\.heatmap\.{option} must be {message}"):
        Heatmap(**{option: 4 if option == "head" else 99}).setup(context)
