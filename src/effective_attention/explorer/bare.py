"""A side made of bare tensors: attention of any model, also one that knows nothing of texts.

Values are optional: without them nobody can tell what of the attention reaches the output, and the page has standard
attention alone. A key of weight 0 in all heads of a layer is taken for hidden from that query, as causal masks and
padding make it, and its effective weight is 0 then. The weights do not tell more: where a score is some 104 below the
largest, the softmax is 0 in float32, and a key that was visible to the query is taken for hidden, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from effective_attention.analyses.common.alone import HeadRows
from effective_attention.attention.decomposition import Decomposition, decompose
from effective_attention.attention.extra_maps import SIMPLEX
from effective_attention.attention.readings import Space
from effective_attention.explorer.maps import DEFAULT_MAPS, Maps, simplex_maps
from effective_attention.explorer.sides import Array, KeyTokens, Side

_ATTENTION = "(layer, head, query, key)"
_VALUE = "(layer, head, key, d_head)"
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def bare_side(
    attention: Any, value: Any, tokens: Any, key_tokens: Any, *, model: str = "", maps: Sequence[str] = DEFAULT_MAPS
) -> Side:
    """Build a side from tensors; see ``explore.explore``.

    Raises:
        ValueError: A shape, a number or a token does not fit; says which.
    """
    layers = _layers("attention", attention, _ATTENTION)
    _, queries, keys = layers[0].shape
    names = _names("tokens", tokens, queries, "queries")
    key_names = names if key_tokens is None else _names("key_tokens", key_tokens, keys, "keys")
    if len(key_names) != keys:
        raise ValueError(f"attention has {queries} queries and {keys} keys; add key_tokens=[...], a name for each key")
    same = key_names == names
    values = None if value is None else _checked(layers, _layers("value", value, _VALUE))
    split = None if values is None else [_parts(*pair) for pair in zip(layers, values, strict=True)]
    return Side(
        texts=(),
        tokens=names,
        special=[False] * queries,
        segments=[0] * queries,
        standard=[_array(weights) for weights in layers],
        effective=None if split is None else [_array(parts.effective[0]) for parts in split],
        ranks=None if split is None else [parts.rank[0].tolist() for parts in split],
        scaling=None,
        query=None,
        key=None,
        model=model,
        keys=None if same else KeyTokens(key_names, [False] * keys),
        maps={} if values is None else _maps(layers, values, maps),
    )


def _layers(name: str, given: Any, axes: str) -> list[Tensor]:
    """Return the tensor of each layer, three axes each: one tensor for all, or a list with one for each layer.

    As transformers returns them, each with a batch of one, will do too.
    """
    if isinstance(given, Tensor | np.ndarray):
        whole = _tensor(name, given)
        given = list(whole) if whole.ndim == 4 else whole
    if isinstance(given, Tensor | str) or not isinstance(given, Sequence) or len(given) == 0:
        got = f"shape {tuple(given.shape)}" if hasattr(given, "shape") else type(given).__name__
        raise ValueError(f"{name} must be a tensor {axes}, or a list of one tensor for each layer, got {got}")
    layers = [_layer(name, layer, axes) for layer in given]
    shapes = sorted({tuple(layer.shape) for layer in layers})
    if len(shapes) > 1:
        raise ValueError(f"{name} must have layers of one shape, got {shapes[0]} and {shapes[1]}")
    return layers


def _layer(name: str, given: Any, axes: str) -> Tensor:
    if not isinstance(given, Tensor | np.ndarray):
        raise ValueError(f"{name} must hold tensors or arrays, got {type(given).__name__}")
    layer = _tensor(name, given)
    layer = layer[0] if layer.ndim == 4 and len(layer) == 1 else layer
    if layer.ndim != 3 or 0 in layer.shape:
        raise ValueError(f"{name} must be {axes} and not empty, got a layer of shape {tuple(layer.shape)}")
    if not bool(layer.isfinite().all()):
        raise ValueError(f"{name} must be finite numbers, got NaN or infinite ones; replace them, by 0 for instance")
    return layer.to(torch.promote_types(layer.dtype, torch.float32))


def _tensor(name: str, given: Tensor | np.ndarray[Any, Any]) -> Tensor:
    """Return a dense tensor of floating-point numbers in memory."""
    trouble = _array_trouble(given) if isinstance(given, np.ndarray) else _tensor_trouble(given)
    if trouble is not None:
        raise ValueError(f"{name} must be {trouble}")
    return torch.from_numpy(_plain(given)) if isinstance(given, np.ndarray) else given.detach().cpu()


def _array_trouble(given: np.ndarray[Any, Any]) -> str | None:
    """Say what an array must be, what it is, and what to give in its place; None: it will do."""
    if given.dtype.kind == "c":
        return f"real numbers, got {given.dtype}; give their real part, .real, or their size, np.abs(...)"
    if given.dtype.names is not None:
        return f"floating-point numbers, got an array of the fields {', '.join(given.dtype.names)}; give one of them"
    if given.dtype.kind == "O":
        return "floating-point numbers, got an array of objects; give .astype(float), or a list of one for each layer"
    return None if given.dtype.kind == "f" else f"floating-point numbers, got {given.dtype}; give .astype(float)"


def _tensor_trouble(given: Tensor) -> str | None:
    """Likewise of a tensor."""
    if given.is_complex():
        return f"real numbers, got {given.dtype}; give their real part, .real, or their size, .abs()"
    if given.is_nested:
        return "a dense tensor, got a nested one; give a list of one tensor for each layer"
    if given.layout != torch.strided:
        return f"a dense tensor, got one of layout {given.layout}; give .to_dense()"
    if given.is_meta:
        return "a tensor with numbers, got one on the meta device, which has none; run the model on a CPU or a GPU"
    if given.is_quantized:
        return f"floating-point numbers, got {given.dtype}; give .dequantize()"
    return None if given.dtype in _FLOATS else f"floats of 16 to 64 bits, got {given.dtype}; give .float()"


def _plain(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array as PyTorch takes it: not turned round, and of no more or other bytes than it knows."""
    return np.array(given, dtype=np.float32 if given.dtype.itemsize <= 4 else np.float64)


def _names(option: str, given: Any, count: int, what: str) -> list[str]:
    listed = not isinstance(given, str) and isinstance(given, Sequence)
    if not listed or len(given) != count:
        got = f"{len(given)}" if listed else type(given).__name__
        raise ValueError(f"{option} must be a list of strings, one for each of {count} {what}, got {got}")
    others = [type(name).__name__ for name in given if not isinstance(name, str)]
    if others:
        raise ValueError(f"{option} must be strings, got {others[0]}; give [str(token) for token in {option}]")
    return list(given)


def _checked(layers: list[Tensor], values: list[Tensor]) -> list[Tensor]:
    """Refuse values that do not fit."""
    if len(values) != len(layers):
        raise ValueError(f"value must have as many layers as attention, {len(layers)}, got {len(values)}")
    (heads, _, keys), (sets, value_keys, _) = layers[0].shape, values[0].shape
    if keys != value_keys or heads % sets:
        raise ValueError(
            f"value must be {_VALUE} with {keys} keys, and its heads must divide {heads}, got a layer of shape "
            f"{tuple(values[0].shape)}"
        )
    return values


def _seen(attention: Tensor) -> Tensor:
    """Tell which keys each query sees, (query, key)."""
    seen = (attention != 0).any(dim=0)
    return seen | ~seen.any(dim=-1, keepdim=True)


def _parts(attention: Tensor, value: Tensor, space: Space = "value") -> Decomposition:
    wide = torch.promote_types(attention.dtype, value.dtype)
    return decompose(attention[None].to(wide), value[None].to(wide), _seen(attention)[None, None], space=space)


def _maps(layers: list[Tensor], values: list[Tensor], names: Sequence[str]) -> Maps:
    """Find the other maps with the same output."""
    pairs = list(zip(layers, values, strict=True))
    if any(name in SIMPLEX for name in names) and any(bool((layer < 0).any()) for layer in layers):
        raise ValueError("attention has weights below 0, so sparse and smallest do not exist; leave them out of maps")
    affine = {"affine": [_array(_parts(*pair, space="affine").effective[0]) for pair in pairs]}
    found = simplex_maps((_rows(*pair) for pair in pairs), sum(len(layer) for layer in layers), names)
    return (affine if "affine" in names else {}) | found


def _rows(attention: Tensor, value: Tensor) -> HeadRows:
    heads = len(attention)
    value = value.repeat_interleave(heads // len(value), dim=0)
    return _array(attention), _array(value), _seen(attention).expand(attention.shape).numpy()


def _array(weights: Tensor) -> Array:
    return weights.double().numpy()
