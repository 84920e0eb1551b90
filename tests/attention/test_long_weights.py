"""Long texts: weights that are made row by row are those that would have been kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from pandas.testing import assert_frame_equal

from effective_attention import analyse, trace
from effective_attention.attention import long_weights
from effective_attention.models.encoders import PretrainedEncoder

SIZES: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
MODELS = {
    "both ways": lambda words: hf.BertModel(hf.BertConfig(vocab_size=words, hidden_size=16, **SIZES)),
    "causal": lambda words: hf.LlamaModel(
        hf.LlamaConfig(vocab_size=words, hidden_size=16, num_key_value_heads=2, pad_token_id=0, **SIZES)
    ),
}
SUMS = ["distance", "entropy", "variability", "pos_attention", "token_type_profile", "delimiters", "token_types"]


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> hf.PreTrainedModel:
    torch.manual_seed(0)
    built = MODELS[request.param](30522).eval()
    with torch.no_grad():  # the usual 0.02 makes nearly uniform attention
        for parameter in built.parameters():
            parameter.mul_(6 if parameter.ndim > 1 else 1)
    return built


def batch() -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 30000, (2, 30), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(30) < torch.tensor([[30], [23]])).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def test_rows_are_those_of_the_whole(model: hf.PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trace(model, batch())
    monkeypatch.setattr(long_weights, "LARGEST", 0)
    monkeypatch.setattr(long_weights, "_BLOCK", 2 * 4 * 30 * 7)
    seen = trace(model, batch())
    real = batch()["attention_mask"].bool()
    torch.testing.assert_close(seen.logits[real], whole.logits[real], atol=1e-5, rtol=1e-5)
    for long, kept in zip(seen.layers, whole.layers, strict=True):
        assert (long.is_long, kept.is_long) == (True, False)
        assert [rows.stop - rows.start for rows in long.blocks()] == [7, 7, 7, 7, 2]
        assert kept.blocks() == [slice(0, 30)]
        assert torch.equal(long.rank, kept.rank)
        for part in ("standard", "effective", "null", "affine"):
            found = torch.cat([long.rows(part, rows) for rows in long.blocks()], dim=2)
            torch.testing.assert_close(
                found.transpose(1, 2)[real], kept.part(part).transpose(1, 2)[real], atol=1e-5, rtol=0
            )
        torch.testing.assert_close(long.attention, long.rows("standard", slice(None)))
        with pytest.raises(ValueError, match="attention must be one of standard, effective, null, affine, got 'loud'"):
            long.rows("loud", slice(None))


def test_rows_where_the_output_proves_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = MODELS["causal"](30522).eval()
    with torch.no_grad():  # values of rank 2 of 4, up to rounding
        for layer in model.layers:
            weight = layer.self_attn.v_proj.weight
            weight[2:4] = weight[:2]
            weight[6:8] = weight[4:6]
    kept = trace(model, batch()).layers[0]
    monkeypatch.setattr(long_weights, "LARGEST", 0)
    monkeypatch.setattr("effective_attention.attention.long_weights.factors_of", lambda *_: None)
    long = trace(model, batch()).layers[0]
    assert torch.equal(long.rank, kept.rank)
    real = batch()["attention_mask"].bool()
    found = long.rows("effective", slice(0, 30)).transpose(1, 2)[real]
    torch.testing.assert_close(found, kept.part("effective").transpose(1, 2)[real], atol=1e-5, rtol=0)


def test_analyses_sum_over_blocks_of_queries(model: hf.PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = PretrainedEncoder("minilm").tokenizer()
    texts = [
        "The old cat sat on the mat, and the dogs ran after a red car that the men drove to the house last night.",
        "Profits fell in the last year, the company said on Friday. Why did they not say so before?",
    ]
    names = [*SUMS, "null_space"]
    expected = analyse(model, tokenizer, texts, names, progress=False)
    monkeypatch.setattr(long_weights, "LARGEST", 0)
    monkeypatch.setattr(long_weights, "_BLOCK", 2 * 4 * 30 * 5)
    found = analyse(model, tokenizer, texts, names, progress=False)
    kept = expected["null_space"]
    expected["null_space"] = kept[kept["reading"] == "exact"].reset_index(drop=True)  # others need whole matrices
    for name in names:
        assert_frame_equal(found[name], expected[name], check_exact=False, atol=2e-5, rtol=2e-4, obj=name)


def test_no_whole_matrix_is_ever_made(model: hf.PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = PretrainedEncoder("minilm").tokenizer()
    text = " ".join(["The old cat sat on the mat, and the dogs ran after a red car."] * 3)
    length = len(tokenizer(text)["input_ids"])
    monkeypatch.setattr(long_weights, "LARGEST", 0)
    monkeypatch.setattr(long_weights, "_BLOCK", 4 * length * 5)
    largest = 0
    own = long_weights.Plain.weights

    def watch(self: Any, *given: Any) -> torch.Tensor:
        nonlocal largest
        found = own(self, *given)
        largest = max(largest, found.shape[2])
        return found

    monkeypatch.setattr(long_weights.Plain, "weights", watch)
    analyse(model, tokenizer, [text], [*SUMS, "null_space"], progress=False)
    assert 0 < largest < length / 2  # the first rows of a causal text, and blocks of five
