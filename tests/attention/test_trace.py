"""A trace holds what the model really did, for every family, and leaves the model as it was."""

import pytest
import torch
from transformers import (
    AutoModel,
    BertConfig,
    DistilBertConfig,
    ElectraConfig,
    GPT2Config,
    LlamaConfig,
    MPNetConfig,
    PreTrainedModel,
    RobertaConfig,
    XLNetConfig,
)

from effective_attention import decompose
from effective_attention.attention.trace import trace

SMALL = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
FAMILIES = {
    "bert": BertConfig(**SMALL),
    "roberta": RobertaConfig(**SMALL, max_position_embeddings=64),
    "distilbert": DistilBertConfig(vocab_size=50, dim=32, n_layers=2, n_heads=4, hidden_dim=32),
    "electra": ElectraConfig(**SMALL, embedding_size=32),
    "gpt2": GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4),
    "llama": LlamaConfig(**SMALL, num_key_value_heads=2),
    "mpnet": MPNetConfig(**SMALL, max_position_embeddings=64),
    "xlnet": XLNetConfig(vocab_size=50, d_model=32, n_layer=2, n_head=4, d_inner=32),
}


def make(config, seed=0) -> PreTrainedModel:
    torch.manual_seed(seed)
    return AutoModel.from_config(config).eval()


def batch(lengths=(12, 7)) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": torch.randint(3, 50, mask.shape, generator=generator) * mask, "attention_mask": mask}


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_is_what_the_eager_model_returns(family):
    model = make(FAMILIES[family])
    inputs = batch()
    seen = trace(model, inputs)
    model.set_attn_implementation("eager")
    expected = model(**inputs, output_attentions=True, output_hidden_states=True)
    assert len(seen.layers) == 2
    for layer, attention in zip(seen.layers, expected.attentions, strict=True):
        torch.testing.assert_close(layer.attention, attention, rtol=0, atol=0)
    for mine, theirs in zip(seen.hidden, expected.hidden_states, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    torch.testing.assert_close(seen.logits, expected.last_hidden_state)


@pytest.mark.parametrize("family", FAMILIES)
def test_both_parts_give_the_same_output(family):
    inputs = batch()
    seen = trace(make(FAMILIES[family]), inputs)
    for layer in seen.layers:
        assert layer.value.shape[1] == layer.attention.shape[1]
        real = seen.mask[:, None, :, None]
        torch.testing.assert_close(layer.part("effective") @ layer.value * real, layer.attention @ layer.value * real)
        torch.testing.assert_close(layer.part("effective") + layer.part("null"), layer.part("standard"))


def test_effective_is_the_split_over_real_keys():
    inputs = batch((20, 11))  # longer than d_head = 8
    seen = trace(make(FAMILIES["bert"]), inputs)
    for layer in seen.layers:
        expected = decompose(layer.attention, layer.value, inputs["attention_mask"])
        torch.testing.assert_close(layer.exact.effective, expected.effective)
        assert float(layer.part("null").abs().max()) > 1e-3
        assert layer.exact.rank.max() <= 8


def test_values_are_those_of_the_layer():
    model = make(FAMILIES["bert"])
    inputs = batch()
    seen = trace(model, inputs)
    for number, layer in enumerate(seen.layers):
        projected = model.encoder.layer[number].attention.self.value(seen.hidden[number])
        torch.testing.assert_close(layer.value, projected.view(2, 12, 4, 8).transpose(1, 2))


def test_mode_attention_and_random_state_are_restored():
    model = make(FAMILIES["bert"])
    model.train()
    model.encoder.layer[0].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    before = model.config._attn_implementation
    state = torch.get_rng_state()
    first = trace(model, batch())
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert model.config._attn_implementation == before
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(first.logits, trace(model.eval(), batch()).logits, rtol=0, atol=0)  # no dropout


def test_restored_after_an_error():
    model = make(FAMILIES["bert"])
    before = model.config._attn_implementation
    with pytest.raises(IndexError):
        trace(model, {"input_ids": torch.tensor([[999]])})
    assert model.config._attn_implementation == before


def test_without_a_mask_every_token_is_real():
    seen = trace(make(FAMILIES["bert"]), {"input_ids": batch()["input_ids"]})
    assert bool(seen.mask.all())
    assert seen.lengths.tolist() == [12, 12]
    assert seen.reference is None


def test_labels_and_index_are_kept_from_the_model():
    inputs = batch() | {"labels": torch.tensor([0, 1]), "index": torch.tensor([5, 6])}
    assert trace(make(FAMILIES["bert"]), inputs).inputs["index"].tolist() == [5, 6]


def test_the_padded_reading_is_the_published_protocol():
    inputs = batch((20, 11))
    model = make(FAMILIES["bert"])
    for layer, exact in zip(trace(model, inputs, reading="padded").layers, trace(model, inputs).layers, strict=True):
        expected = decompose(layer.attention, layer.value, inputs["attention_mask"], reading="padded")
        torch.testing.assert_close(layer.part("effective"), expected.effective)
        torch.testing.assert_close(layer.part("null"), layer.attention - expected.effective)
        torch.testing.assert_close(layer.exact.effective, exact.part("effective"))
        assert not torch.allclose(layer.part("effective"), exact.part("effective"), atol=1e-3)
