"""What a model tells of itself: one of transformers' has a config, a home-made one need not have any."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig


def config_of(model: nn.Module) -> PreTrainedConfig | None:
    """Return the config of a transformers model; None: it is a home-made one."""
    config = getattr(model, "config", None)
    return config if isinstance(config, PreTrainedConfig) else None


def text_config_of(model: nn.Module) -> Any:
    """Return the config of the part that reads text; None: there is none."""
    config = config_of(model)
    return None if config is None else config.get_text_config()


def device_of(model: nn.Module) -> torch.device:
    """Return where the model's weights are."""
    weight = next(model.parameters(), None)
    return torch.device("cpu") if weight is None else weight.device


def longest_text(model: nn.Module) -> int | None:
    """Return how many tokens the model has positions for; None: it does not say, or has no limit (XLNet: -1)."""
    positions = getattr(config_of(model), "max_position_embeddings", None)
    if positions is None or positions < 1:
        return None
    embeddings = getattr(getattr(model, "base_model", model), "embeddings", None)
    unused = getattr(embeddings, "padding_idx", None)  # RoBERTa counts positions from after that of padding
    return int(positions) - (0 if unused is None else int(unused) + 1)


def class_names(model: nn.Module, outputs: int) -> tuple[str, ...]:
    """Return what the model calls its outputs; their numbers where it does not say."""
    called = getattr(config_of(model), "id2label", None) or {}
    return tuple(str(called.get(number, number)) for number in range(outputs))


def accepted_inputs(model: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a batch without segments (``token_type_ids``) where the model's ``forward`` takes none."""
    arguments = inspect.signature(model.forward).parameters
    takes_any = any(argument.kind is argument.VAR_KEYWORD for argument in arguments.values())
    takes_segments = takes_any or "token_type_ids" in arguments
    return {name: value for name, value in inputs.items() if takes_segments or name != "token_type_ids"}
