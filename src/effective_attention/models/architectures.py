"""Build the model that a checkpoint describes, and nothing else that a stranger's checkpoint might ask for.

A checkpoint says which architecture its weights are of. Of that, only the fields of transformers' own config class for
a text classifier are taken (the allow-list); what else the entry holds is left out, so that it names no attention
implementation or kernel, no quantisation, no code on the hub, no folder. What is left must be what JSON could hold. Its
numbers may not be larger than what the weights can fill, and the model is first built without memory (on the device
``meta``): its tensors must have the names and shapes of the weights before one byte is allocated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook
from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers import PretrainedConfig as Config
from transformers.initialization import no_init_weights
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS

from effective_attention.errors import first_line, quoted, shorten

_LEFT_OUT = {"transformers_version", "architectures", "output_hidden_states", "return_dict", "chunk_size_feed_forward"}
"""Fields that every config has, and that say nothing of the weights."""
_DTYPES = ("float64", "float32", "float16", "bfloat16")
_DEPTH = 6  # the deepest entry of any config is five levels down
_LONGEST = 1000  # characters of a text
_FREE_NUMBER = 2**20  # numbers that no weight need account for: positions of a rotary embedding, token ids
_FREE_LAYERS = 256  # layers may share their weights
_FREE_BUFFERS = 2**28  # bytes of what is computed rather than stored: causal masks, positions


_FREE_PARAMETERS = 1000  # parameters that are tied to others, or thrown away by the model that made them


class ArchitectureError(ValueError):
    """An architecture that is malformed, or that the weights do not fit; the text is one line."""


def stored_config(stored: Any, weights: Mapping[str, Tensor]) -> Config:
    """Make the config that a checkpoint describes.

    Args:
        stored: What the checkpoint says, by any hand.
        weights: Its tensors, which bound every size.

    Raises:
        ArchitectureError: It is not what we write.
    """
    if not isinstance(stored, dict):
        raise ArchitectureError(f"must be a dictionary, got {type(stored).__name__}")
    model_type = stored.get("model_type")
    if not isinstance(model_type, str) or model_type not in CLASSIFIERS:
        raise ArchitectureError(f"model_type is none of transformers' text classifiers: {quoted(model_type)}")
    elements = sum(tensor.numel() for tensor in weights.values())
    config_class = CONFIG_MAPPING[model_type]
    options = _allowed(config_class, stored)
    _check_values(options, largest=max(elements, _FREE_NUMBER), most_layers=max(len(weights), _FREE_LAYERS))
    try:
        return config_class(**options)
    except Exception as error:  # each config class raises what it likes
        raise ArchitectureError(_reason(error)) from error


def check_fit(config: Config, weights: Mapping[str, Tensor]) -> None:
    """Refuse a config whose model does not have the tensors of a checkpoint; nothing is allocated.

    Args:
        config: The architecture.
        weights: Name → tensor, by the names of the model's own ``state_dict``.

    Raises:
        ArchitectureError: The model cannot be built, or differs.
    """
    try:
        with torch.device("meta"), no_init_weights(), _at_most(2 * len(weights) + _FREE_PARAMETERS):
            model = _build(config)
    except Exception as error:  # a division by zero heads, a negative size, an unknown activation
        raise ArchitectureError(f"no model can be built of it ({_reason(error)})") from error
    here, there = ({name: _kind(tensor) for name, tensor in state.items()} for state in (model.state_dict(), weights))
    for name in sorted(here.keys() | there.keys()):
        wanted, found = here.get(name, "none"), there.get(name, "none")
        if wanted != found:
            raise ArchitectureError(f"the weights do not fit it: {shorten(name)} must be {wanted}, got {found}")
    stored = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    computed = sum(tensor.numel() * tensor.element_size() for tensor in model.buffers())
    if computed > max(_FREE_BUFFERS, stored):
        raise ArchitectureError(f"it asks for {computed / 1e9:.0f} GB besides its weights")


def empty_model(config: Config) -> PreTrainedModel:
    """Build a model of a checked config, with weights that a checkpoint will replace; reads no file."""
    try:
        return _build(config)
    except Exception as error:  # what the device ``meta`` lets pass: random numbers with a negative spread
        raise ArchitectureError(f"no model can be built of it ({_reason(error)})") from error


@contextmanager
def _at_most(count: int) -> Iterator[None]:
    """Stop the building of a model that makes more parameters than that: a million layers take hours to make."""
    made = itertools.count(1)

    def watch(*_: Any) -> None:
        if next(made) > count:
            raise ArchitectureError("it has more parts than there are weights")

    handle = register_module_parameter_registration_hook(watch)
    try:
        yield
    finally:
        handle.remove()


def _build(config: Config) -> PreTrainedModel:
    return AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)


def _allowed(config_class: type[Config], stored: Mapping[Any, Any]) -> dict[str, Any]:
    """Keep the fields of a config class, and in the configs of its parts theirs."""
    names = {field.name for field in fields(config_class)} - _LEFT_OUT
    options = {name: stored[name] for name in names if name in stored}
    for part, specification in config_class.sub_configs_defaults.items():
        if isinstance(options.get(part), dict):
            own = specification.config_class
            part_class = own if issubclass(own, Config) else CONFIG_MAPPING[specification.model_type]
            options[part] = _allowed(part_class, options[part])
    if options.get("dtype") is not None and options["dtype"] not in _DTYPES:
        raise ArchitectureError(f"dtype must be one of {', '.join(_DTYPES)}, got {quoted(options['dtype'])}")
    return options


def _check_values(values: Any, *, largest: int, most_layers: int, name: str = "", depth: int = 0) -> None:
    """Refuse what JSON could not hold, and numbers that the weights do not account for."""
    if depth > _DEPTH:
        raise ArchitectureError(f"{shorten(name)} is nested too deeply")
    if isinstance(values, dict | list):
        pairs = values.items() if isinstance(values, dict) else ((name, value) for value in values)
        for key, value in pairs:
            if not isinstance(key, str | int):
                raise ArchitectureError(f"{shorten(name)} has a key that is no text: {quoted(key)}")
            _check_values(value, largest=largest, most_layers=most_layers, name=str(key), depth=depth + 1)
    elif not _fits(name, values, largest, most_layers):
        raise ArchitectureError(f"{shorten(name)} is out of bounds: {quoted(values)}")


def _fits(name: str, value: Any, largest: int, most_layers: int) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and abs(value) <= (most_layers if "layer" in name else largest)


def _kind(tensor: Tensor) -> str:
    """Describe a tensor by what must be the same in a model and in its weights; the precision need not be."""
    numbers = "real numbers" if tensor.is_floating_point() else "whole numbers"
    return f"{list(tensor.shape)} {numbers}"


def _reason(error: Exception) -> str:
    """Say why a library refused: the last line, where transformers' strict configs put it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return shorten(lines[-1], 200) if lines else first_line(error)
