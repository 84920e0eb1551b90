"""Attention to and from types of tokens."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers as hf

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.token_type_profile import (
    SCHEMA,
    SOURCES,
    TARGETS,
    TokenTypeProfile,
    period_and_comma_ids,
    type_profile,
)
from effective_attention.attention.trace import trace
from effective_attention.data.annotation.tagging import KINDS
from effective_attention.errors import UserError
from helpers.subjects import make_context


class Vocabulary:
    """Of a tokenizer what finding periods takes."""

    def __init__(self, tokens):
        self.tokens = tokens

    def get_vocab(self):
        return {token: number for number, token in enumerate(self.tokens)}


def test_by_hand():
    """Three tokens: [CLS], a comma, a word."""
    attention = torch.tensor([[[[0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [0.2, 0.8, 0.0]]]])
    types = torch.tensor([[[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]], dtype=torch.bool)
    sources = torch.cat([torch.ones(1, 1, 3, dtype=torch.bool), types.mT], dim=1)
    found = type_profile(attention, types, sources)[0, 0]
    expected = [[0.7 / 3, 0, 1.05 / 3, 1.25 / 3], [0.5, 0, 0.25, 0.25], [0, 0, 0, 0], [0, 0, 0, 1], [0.2, 0, 0.8, 0]]
    assert found.numpy() == pytest.approx(np.array(expected), abs=1e-6)


@pytest.mark.parametrize("token", [".", ",", "Ġ,", "▁.", "##.", ",</w>"])
def test_periods_and_commas(token):
    assert period_and_comma_ids({"a": 0, token: 7}) == [7]


@pytest.mark.parametrize("token", ["...", ";", "▁", "a.", "Ġ.,", "##"])
def test_neither_periods_nor_commas(token):
    assert period_and_comma_ids({"a": 0, token: 7}) == []


def types_of(seen, tokenizer):
    """The type of each token of a text, from its name."""
    names = tokenizer.convert_ids_to_tokens(seen.inputs["input_ids"][0].tolist())
    return [
        {"[CLS]": "cls", "[SEP]": "sep", ".": "punctuation", ",": "punctuation"}.get(name, "other") for name in names
    ]


def test_against_a_naive_loop(subject, context, singles):
    table = run_analyses(subject, {"a": TokenTypeProfile().setup(context)})["a"]
    assert table[["attention", "layer", "head", "source", "target"]].duplicated().sum() == 0
    assert len(table) == 2 * 2 * 4 * 5 * 4
    SCHEMA.check(table, "token_type_profile")
    types = [types_of(seen, context.tokenizer) for seen in singles]
    for row in table.sample(120, random_state=0).itertuples():
        values, shares = [], []
        for seen, names in zip(singles, types, strict=True):
            attention = seen.layers[row.layer].part(row.attention)[0, row.head].double().numpy()
            queries = [place for place, name in enumerate(names) if row.source in ("all", name)]
            keys = [place for place, name in enumerate(names) if name == row.target]
            if queries:
                values.append(np.mean([attention[query, keys].sum() for query in queries]))
                shares.append(len(keys) / len(names))
        assert row.value == pytest.approx(np.mean(values), abs=1e-6)
        assert row.even == pytest.approx(np.mean(shares), abs=1e-6)
        assert row.count == len(values)


def test_standard_sums_to_one_and_effective_does_not(subject, context):
    table = run_analyses(subject, {"a": TokenTypeProfile().setup(context)})["a"]
    sums = table.groupby(["attention", "layer", "head", "source"])[["value", "even"]].sum()
    assert sums.loc["standard", "value"].to_numpy() == pytest.approx(1, abs=1e-6)
    assert sums["even"].to_numpy() == pytest.approx(1, abs=1e-6)
    assert np.abs(sums.loc["effective", "value"] - 1).max() > 1e-3


def decoder(tokens, kinds=None, length=6):
    """A causal model without delimiters on one text."""
    torch.manual_seed(0)
    model = hf.AutoModel.from_config(hf.GPT2Config(vocab_size=len(tokens), n_embd=16, n_layer=1, n_head=2)).eval()
    ids = torch.arange(length)[None] % len(tokens)
    kind = torch.full_like(ids, KINDS.index("word")) if kinds is None else kinds
    return trace(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, tokens={"kind": kind})


def test_a_tokenizer_without_delimiters():
    """GPT-2's way: types that no text has are left out, and even attention is over what a query may see."""
    tokens = ["a", "b", "Ġ,", "c", ".", "d"]
    shape = {"layers": 1, "heads": 2, "width": 16, "max_length": 8, "examples": 1}
    made = TokenTypeProfile().setup(make_context(**shape, tokenizer=Vocabulary(tokens)))
    made.update(decoder(tokens))
    table = made.compute()
    assert set(table["source"]) == {"all", "punctuation", "other"}
    assert set(table["target"]) == {"punctuation", "other"}
    assert set(table["count"]) == {1}
    SCHEMA.check(table, "token_type_profile")
    even = table[(table["source"] == "all") & (table["target"] == "punctuation")]["even"]
    assert even.to_numpy() == pytest.approx(np.mean([0, 0, 1 / 3, 1 / 4, 2 / 5, 2 / 6]))
    own = table[(table["source"] == "punctuation") & (table["target"] == "punctuation")]["even"]
    assert own.to_numpy() == pytest.approx((1 / 3 + 2 / 5) / 2)


def test_names():
    assert ("all", *TARGETS) == SOURCES
    assert TARGETS == ("cls", "sep", "punctuation", "other")


def test_a_tokenizer_is_needed(context):
    with pytest.raises(UserError, match="token_type_profile needs a tokenizer"):
        TokenTypeProfile().setup(dataclasses.replace(context, tokenizer=None))
