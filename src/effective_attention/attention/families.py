"""How many layers of attention a model has, and which kinds of model have none that could be split."""

from __future__ import annotations

from typing import Any

from torch import nn

from effective_attention.attention.model_facts import config_of

_NO_MATRIX = {
    "nystromformer": "it approximates attention by landmarks",
    "longformer": "it attends in overlapping chunks and never makes an attention matrix",
    "longt5": "its encoder attends in blocks",
    "led": "its encoder attends in overlapping chunks and never makes an attention matrix",
    "big_bird": "it attends in blocks, some of them drawn at random",
    "bigbird_pegasus": "its encoder attends in blocks, some of them drawn at random",
    "reformer": "it attends within buckets of similar tokens",
    "yoso": "it approximates attention by random hashes",
    "fnet": "it mixes tokens by a Fourier transform and has no attention",
    "funnel": "it pools its tokens between layers, so that there is no one attention matrix",
    "mamba": "it has no attention",
    "rwkv": "it has no attention matrix",
    "pegasus_x": "its encoder attends in blocks",
    "diffllama": "it subtracts one attention from another, and both meet two sets of values",
}
"""What keeps models of a family from being split, by transformers' ``model_type``."""


def check_family(model: nn.Module) -> None:
    """Refuse a model of a family that is known to have no attention matrix.

    Raises:
        ValueError: Says why.
    """
    for part in model.modules():
        reason = _NO_MATRIX.get(str(getattr(getattr(part, "config", None), "model_type", "")))
        if reason is not None:
            raise ValueError(
                f"{type(part).__name__} has no attention matrix to split: {reason}; choose another (docs/models.md)"
            )


def expected_layers(model: nn.Module, *, has_read: bool = False) -> int | None:
    """Return how many times a forward pass attends; None: only the model's own code could tell.

    Args:
        model: The one that is run.
        has_read: Whether it is given what its encoder has made of the text that is read.
    """
    config = config_of(model)
    if config is None:
        return None
    if getattr(config, "is_encoder_decoder", False):
        if model.get_encoder() is model or model.get_decoder() is model:  # type: ignore[operator]
            return None  # a part that is run alone
        own = [getattr(config, name, None) for name in ("encoder_layers", "decoder_layers")]
        return None if None in own else (0 if has_read else own[0]) + 2 * own[1]  # type: ignore[operator]
    layers: Any = getattr(config.get_text_config(), "num_hidden_layers", None)
    return layers if isinstance(layers, int) else None
