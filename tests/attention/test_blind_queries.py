"""Padding that sees nothing has even weights over everything; what counts as seen is what real tokens see."""

from typing import Any

import pytest
import torch
import transformers as hf

from effective_attention import trace, use_attention
from effective_attention.attention import long_weights

COMMON = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
GIVEN = {"cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}
MODELS: dict[str, Any] = {
    "mistral": lambda: hf.MistralModel(hf.MistralConfig(**COMMON, num_key_value_heads=2, sliding_window=5)),
    "modernbert": lambda: hf.ModernBertModel(
        hf.ModernBertConfig(**COMMON, **GIVEN, local_attention=4, global_attn_every_n_layers=2)
    ),
    "gpt2": lambda: hf.GPT2Model(hf.GPT2Config(vocab_size=60, n_embd=32, n_layer=2, n_head=4)),
    "llama": lambda: hf.LlamaModel(hf.LlamaConfig(**COMMON)),
}


@pytest.fixture(params=[(name, side) for name in MODELS for side in ("left", "right")], ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[Any, dict[str, torch.Tensor]]:
    """Make a model, and texts of 16 and of 4 tokens; heads are 8 wide."""
    name, side = request.param
    torch.manual_seed(0)
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[1, slice(4, None) if side == "right" else slice(0, 12)] = 0
    return MODELS[name]().eval(), {"input_ids": torch.randint(5, 60, (2, 16)), "attention_mask": mask}


def ranks(model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the rank of each layer's and head's values of real tokens, (layer, batch, head)."""
    real = inputs["attention_mask"].bool()
    own = [
        [
            [torch.linalg.matrix_rank(head[keep].double(), rtol=1e-6) for head in text]
            for text, keep in zip(layer.value, real, strict=True)
        ]
        for layer in trace(model, inputs).layers
    ]
    return torch.tensor(own)


def test_the_rank_is_that_of_real_tokens(case: Any) -> None:
    model, inputs = case
    expected = ranks(model, inputs)
    seen = trace(model, inputs)
    assert torch.equal(torch.stack([layer.rank for layer in seen.layers]), expected)
    assert torch.equal(torch.stack([layer.exact.rank for layer in seen.layers]), expected)
    assert torch.equal(seen.example(1).layers[0].rank, expected[0, 1:])
    with torch.no_grad(), use_attention(model, "effective") as record:
        model(**inputs)
    lengths = inputs["attention_mask"].sum(dim=-1)
    assert record.nontrivial == int((lengths[:, None] > expected).sum())


def test_of_a_long_text_too(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = case
    expected = ranks(model, inputs)
    monkeypatch.setattr(long_weights, "LARGEST", 0)
    seen = trace(model, inputs)
    assert any(layer.is_long for layer in seen.layers)
    assert torch.equal(torch.stack([layer.rank for layer in seen.layers]), expected)


@torch.no_grad()
@pytest.mark.parametrize("least", [-1e4, -1e9, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_a_mask_of_ones_own_with_large_numbers(name: str, least: float) -> None:
    torch.manual_seed(0)
    model = hf.BertModel(hf.BertConfig(**COMMON)) if name == "bert" else MODELS[name]()
    mask = torch.full((14, 14), least).triu(1)[None, None]
    with use_attention(model.eval(), "effective"):
        found = model(torch.randint(5, 60, (1, 14)), attention_mask=mask, output_attentions=True).attentions
    for layer in found:
        assert not layer.triu(1).any()


def test_heads_that_hand_on_something_else_are_refused() -> None:
    """GraniteSWA takes a part away after the product, of which neither weights nor values tell."""
    pytest.importorskip("transformers.models.granite_swa")
    sizes = {**COMMON, "bos_token_id": 1, "eos_token_id": 2}
    model = hf.GraniteSWAModel(hf.GraniteSWAConfig(**sizes, num_key_value_heads=2, sliding_window=7)).eval()
    for name, parameter in model.named_parameters():
        if "sink" in name:
            torch.nn.init.ones_(parameter)
    with (
        pytest.raises(ValueError, match="GraniteSWAAttention changes what its heads hand on after weights have met"),
        use_attention(model, "effective"),
    ):
        model(torch.randint(5, 60, (1, 12)))
