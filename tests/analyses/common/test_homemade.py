"""A home-made classifier through ``analyse`` and ``explore``: numbers of texts run one by one, and what is refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from effective_attention import analyse, explore, trace
from effective_attention.analyses.alternative_attention import AlternativeAttention
from effective_attention.analyses.common.registry import analysis_names, find_analysis
from effective_attention.errors import UserError
from helpers.homemade import build_classifier
from helpers.subjects import StubTagger

TEXTS = ["A cat sat on the mat, and nobody minded at all.", "It purred.", "Then the dog came in and barked loudly."]
NEEDS = ("explain", "faithfulness", "protocols", "token_identity", "token_mixing")
"""They start from embeddings, or read hidden states."""
ALONE = ("pronouns", "number_flip")  # a sentence with a gap, in a masked language model; texts with marked subjects


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return build_classifier(tokenizer)


def run(model: Any, tokenizer: Any, analyses: list[Any], **options: Any) -> dict[str, pd.DataFrame]:
    known = {"labels": [0, 1, 0], "reference": model, "tagger": StubTagger(), "progress": False}
    return analyse(model, tokenizer, TEXTS, analyses, **{**known, **options})


def test_every_other_analysis_makes_its_table(model: Any, tokenizer: Any) -> None:
    names = [name for name in analysis_names() if name not in (*NEEDS, *ALONE, "alternative_attention")]
    tables = run(model, tokenizer, [*names, AlternativeAttention(heads="shown", starts=1, bound=False)])
    assert tables.keys() == {*names, "alternative_attention"}
    for name, table in tables.items():
        assert len(table) > 0 or name == "timing"  # which a run of the commands measures
    assert (tables["null_space"]["reading"] == "padded").any()


@pytest.mark.parametrize("name", NEEDS)
def test_what_needs_embeddings_says_so_in_one_line(name: str, model: Any, tokenizer: Any) -> None:
    assert find_analysis(name).needs_embeddings
    with pytest.raises(ValueError, match=rf"analysis {name} is not possible: .* not of Classifier; leave it out$"):
        run(model, tokenizer, ["distance", name])


def test_batches_are_texts_run_one_by_one(model: Any, tokenizer: Any) -> None:
    table = run(model, tokenizer, ["null_space"], batch_size=3)["null_space"]
    row = table.query("reading == 'exact' and quantity == 'nullity' and layer == 1 and head == 2")
    lengths = [len(tokenizer(text)["input_ids"]) for text in TEXTS]
    assert row["value"].item() == pytest.approx(np.mean([max(length - 4, 0) for length in lengths]))  # heads of width 4
    singles = run(model, tokenizer, ["entropy"], batch_size=1)["entropy"]
    pd.testing.assert_frame_equal(run(model, tokenizer, ["entropy"])["entropy"], singles, atol=1e-6, rtol=1e-5)


def test_the_page(model: Any, tokenizer: Any) -> None:
    page = explore(model, tokenizer, TEXTS[0], labels=["bad", "good"], name="mine").html
    assert "Attention of mine" in page
    assert "good" in page
    seen = trace(
        model, {name: tokenizer(TEXTS[0], return_tensors="pt")[name] for name in ("input_ids", "attention_mask")}
    )
    assert seen.hidden == ()
    assert seen.logits.shape == (1, 2)


def test_two_models_beside_each_other(model: Any, tokenizer: Any) -> None:
    torch.manual_seed(1)
    other = type(model)(len(tokenizer)).eval()
    assert "first model" in explore(model, tokenizer, TEXTS[0], beside=other).html


class LinearAttention(nn.Module):
    """Its queries are a softmax over features: a product with values, but of no attention from token to token."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, 8)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.words(input_ids)[:, None]  # (batch, 1, token, width)
        return (states.softmax(-1) @ (states.softmax(-2).mT @ states))[:, 0]


class Chunks(nn.Module):
    """Its queries are taken eight at a time: of a short text all at once."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, 8)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.words(input_ids)[:, None]
        hidden = (attention_mask == 0)[:, None, None]
        chunks = [(some @ states.mT).masked_fill(hidden, -1e9).softmax(-1) @ states for some in states.split(8, dim=2)]
        return torch.cat(chunks, dim=2)[:, 0]


def test_queries_that_are_taken_in_chunks(tokenizer: Any) -> None:
    with pytest.raises(UserError, match=r"attends from 8 places to \d+, in a text of \d+ tokens"):
        run(Chunks(len(tokenizer)), tokenizer, ["token_types"])


@pytest.mark.parametrize("answer", [None, {"loss": None}])
def test_a_model_without_an_answer(answer: Any, tokenizer: Any) -> None:
    class Silent(Chunks):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
            super().forward(input_ids, attention_mask)
            return answer

    with pytest.raises(ValueError, match="the model must return logits or vectors, alone, in a tuple or in a dict"):
        run(Silent(len(tokenizer)), tokenizer, ["distance"])


def test_attention_to_something_else_than_tokens(tokenizer: Any) -> None:
    with pytest.raises(UserError, match=r"attends from \d+ places to 8, .* not one of tokens to tokens"):
        run(LinearAttention(len(tokenizer)), tokenizer, ["distance"])
