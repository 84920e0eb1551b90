"""One head of one example."""

import dataclasses

import numpy as np
import pytest
import torch

from effective_attention.analyses.common.base import UserText
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.heatmap import ALL_PARTS, SCHEMA, Heatmap
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


def matrices(table):
    """Each attention's matrix, in the order of the table."""
    wide = {
        name: rows.pivot(index="query", columns="key", values="value").to_numpy()
        for name, rows in table.groupby("attention", sort=False)
    }
    assert list(wide) == [name for name in ALL_PARTS if name in wide]
    return wide


def test_maps_with_the_same_output(subject, context, singles):
    """The longest example: more tokens than [V, 1] has rank, so that the maps are others than standard attention."""
    example = max(range(9), key=lambda number: int(singles[number].lengths))
    table = run_analyses(subject, {"a": Heatmap(example=example, head=1).setup(context)})["a"]
    SCHEMA.check(table, "heatmap")
    found = matrices(table)
    assert list(found) == list(ALL_PARTS)
    layer = singles[example].layers[-1]
    value = layer.value[0, 1].double().numpy()
    width = value.shape[1]
    assert len(value) > width + 1
    np.testing.assert_allclose(found["affine"], layer.part("affine")[0, 1], atol=2e-6)
    for name in ("affine", "sparse", "smallest"):
        np.testing.assert_allclose(found[name].sum(axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(found[name] @ value, found["standard"] @ value, atol=2e-6)
    assert min(found[name].min() for name in ("sparse", "smallest")) >= 0
    assert (found["sparse"] > 0).sum(axis=1).max() <= width + 1 < (found["standard"] > 0).sum(axis=1).min()
    norms = {name: np.linalg.norm(matrix) for name, matrix in found.items()}
    assert norms["affine"] < norms["smallest"] < norms["standard"] < norms["sparse"]


@pytest.mark.parametrize("maps", [[], ["smallest"], ["sparse", "affine"]])
def test_the_maps_that_are_asked_for(subject, context, maps):
    table = run_analyses(subject, {"a": Heatmap(maps=maps).setup(context)})["a"]
    SCHEMA.check(table, "heatmap")
    assert set(matrices(table)) == {"standard", "effective", "null", *maps}


@pytest.mark.parametrize("maps", ["affine", ["null"], ["sparse", "sparse"], None])
def test_maps_that_there_are_not(maps):
    with pytest.raises(
        UserError, match=r"^analysis\.heatmap\.maps must be a list of some of affine, sparse, smallest, each"
    ) as no:
        Heatmap(maps=maps)
    assert "\n" not in str(no.value)


@pytest.mark.parametrize(("option", "message"), [("head", "from 0 to 3, got 4"), ("example", "from 0 to 8, got 99")])
def test_bad_options(context, option, message):
    with pytest.raises(UserError, match=rf"analysis\.heatmap\.{option} must be {message}"):
        Heatmap(**{option: 4 if option == "head" else 99}).setup(context)
