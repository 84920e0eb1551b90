"""The architecture of a checkpoint is taken field by field, bounded by its weights, and built without memory first."""

from typing import Any

import pytest
import torch
import transformers.utils.hub
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification

from effective_attention.models.architectures import ArchitectureError, check_fit, empty_model, stored_config

SIZES: dict[str, dict[str, Any]] = {
    "bert": {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16},
    "albert": {"hidden_size": 8, "num_hidden_layers": 24, "num_attention_heads": 2, "intermediate_size": 16},
    "deberta-v2": {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16},
    "distilbert": {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16},
    "gpt2": {"n_embd": 8, "n_layer": 2, "n_head": 2},
    "llama": {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16},
    "xlnet": {"d_model": 8, "n_layer": 2, "n_head": 2, "d_inner": 16},
}


def tiny(model_type: str, **options: Any) -> Any:
    options |= {**SIZES[model_type], "vocab_size": 99, "num_labels": 3, "pad_token_id": 0}
    config = AutoConfig.for_model(model_type, **options)
    return AutoModelForSequenceClassification.from_config(config)


@pytest.mark.parametrize("model_type", SIZES)
def test_what_transformers_wrote_comes_back(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers.utils.hub, "cached_files", lambda *_, **__: pytest.fail("reached for files"))
    model = tiny(model_type)
    weights = model.state_dict()
    config = stored_config(model.config.to_dict(), weights)
    assert config.to_dict() == model.config.to_dict()
    before = torch.random.get_rng_state()
    check_fit(config, weights)
    assert torch.equal(torch.random.get_rng_state(), before)
    again = empty_model(config)
    again.load_state_dict(weights)
    assert {parameter.device.type for parameter in again.parameters()} == {"cpu"}


def test_half_precision_stays_so() -> None:
    model = tiny("bert", dtype="bfloat16")
    assert empty_model(stored_config(model.config.to_dict(), model.state_dict())).dtype == torch.bfloat16


def test_weights_of_another_precision_fit() -> None:
    model = tiny("bert")
    check_fit(model.config, {name: tensor.double() for name, tensor in model.state_dict().items()})


def test_what_is_computed_besides_the_weights_is_bounded() -> None:
    """GPT-J keeps a table of its positions that no weight accounts for: here 4 TB."""
    config = AutoConfig.for_model("gptj", n_embd=8, n_layer=1, n_head=1, rotary_dim=4, vocab_size=99, num_labels=3)
    weights = AutoModelForSequenceClassification.from_config(config).state_dict()
    stored = config.to_dict()
    check_fit(stored_config(stored, weights), weights)
    with pytest.raises(ArchitectureError, match=r"it asks for \d+ GB besides its weights"):
        check_fit(stored_config({**stored, "n_positions": 2**20, "rotary_dim": 2**20}, weights), weights)


def test_a_model_of_many_parts_is_not_built_to_its_end() -> None:
    """Not only layers are counted: here the blocks of a layer."""
    config = AutoConfig.for_model("mobilebert", num_feedforward_networks=10**6, num_labels=3)
    with pytest.raises(ArchitectureError, match="it has more parts than there are weights"):
        check_fit(config, {"a": torch.zeros(1)})
    nn.Linear(1, 1)  # the watch is over
    assert not torch.nn.modules.module._global_parameter_registration_hooks


def test_parts_of_a_model_are_filtered_too() -> None:
    stored = {"model_type": "gemma3", "text_config": {"_attn_implementation": "x/y", "hidden_size": 8, "auto_map": {}}}
    config = stored_config(stored, {})
    assert config.text_config.hidden_size == 8
    assert config.text_config._attn_implementation != "x/y"
    assert not hasattr(config.text_config, "auto_map")
