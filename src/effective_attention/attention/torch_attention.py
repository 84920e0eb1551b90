"""Attention that a layer leaves to PyTorch: ``scaled_dot_product_attention`` and ``nn.MultiheadAttention``.

Their arguments say everything: queries, keys, values and masks. So a call is made of them as of a model that goes
through transformers' interface, and the fast way to effective attention is open to them too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from effective_attention.attention.call import AttentionOutput, ScoredCall, head_outputs
from effective_attention.attention.decomposition import for_each_head
from effective_attention.attention.precision import without_autocast

Run = Callable[[Callable[..., ScoredCall]], AttentionOutput]
"""Has a call handled: from what makes it to the output, (batch, query, head, d_value), and weights."""
_SIGNATURE = inspect.signature(functional.multi_head_attention_forward)


def softmax_attention(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scaling: float,
    dropout: float = 0.0,
) -> AttentionOutput:
    """Compute ``softmax(scaling Q K^T + mask) V`` and the weights: what PyTorch's fast kernel is defined as."""
    with without_autocast(query.device):
        scores = query @ for_each_head(key, query.shape[1]).mT * scaling  # (batch, head, query, key)
        weights = (scores if mask is None else scores + mask).softmax(dim=-1)
        weights = functional.dropout(weights, dropout) if dropout else weights
    return head_outputs(weights, value), weights


def dot_product_attention(module: nn.Module, run: Run, arguments: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    """Do what ``scaled_dot_product_attention`` does with these arguments, by way of ``run``."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = dict(zip(names, arguments, strict=False)) | options
    query, key, value = _of_one_batch([_with_heads(given[name]) for name in names[:3]])
    mask = _additive(given.get("attn_mask"), query.dtype)
    if given.get("is_causal"):
        mask = _causal(query, key)
    scale = given.get("scale")
    facts = {
        "scaling": query.shape[-1] ** -0.5 if scale is None else scale,
        "dropout": given.get("dropout_p", 0.0),
    }
    mask = None if mask is None else _four_axes(mask, given["query"].ndim)
    output, _ = run(_maker(module, query, key, value, _finite(mask), facts))
    output = _without_blind(output, mask).transpose(1, 2)  # (batch, head, query, d_value)
    return _as_before(output, given["query"].ndim)


def multi_head_attention(
    module: nn.Module, run: Run, arguments: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Tensor, Tensor | None]:
    """Do what ``nn.functional.multi_head_attention_forward`` does with these arguments, by way of ``run``.

    Its tensors are (token, batch, width), or (token, width) of a text alone.

    Raises:
        ValueError: ``is_causal``, which is a hint at what the mask holds, comes without a mask; PyTorch refuses it too.
            Or keys or values come ready made (``static_k``, ``static_v``).
    """
    bound = _SIGNATURE.bind(*arguments, **options)
    bound.apply_defaults()
    given = bound.arguments
    if given["is_causal"] and given["attn_mask"] is None:
        raise ValueError(
            "nn.MultiheadAttention needs attn_mask=... beside is_causal=True, which only hints at its form"
        )
    if given["static_k"] is not None or given["static_v"] is not None:
        raise ValueError(
            f"{type(module).__name__} calls multi_head_attention_forward with static_k or static_v, which cannot be "
            "swapped or traced; compute keys and values from tokens (docs/models.md)"
        )
    alone = given["query"].ndim == 2
    query, key, value = (_projected(given, name, alone) for name in ("query", "key", "value"))
    mask = _joint_mask(given, query, key, alone)
    dropout = given["dropout_p"] if given["training"] else 0.0
    facts = {"scaling": query.shape[-1] ** -0.5, "dropout": dropout}
    output, weights = run(_maker(module, query, key, value, _finite(mask), facts))
    joined = _without_blind(output, mask).transpose(0, 1).flatten(2)  # (query, batch, width)
    joined = functional.linear(joined, given["out_proj_weight"], given["out_proj_bias"])
    shown = weights if given["need_weights"] else None
    if shown is not None and given["average_attn_weights"]:
        shown = shown.mean(dim=1)
    if not alone:
        return joined, shown
    return joined[:, 0], None if shown is None else shown[0]


def _maker(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: dict[str, Any]
) -> Callable[..., ScoredCall]:
    def build(**facts: Any) -> ScoredCall:
        return ScoredCall(
            module=module,
            query=query,
            key=key,
            value=value,
            mask=mask,
            options=options,
            function=softmax_attention,
            has_fast_kernel=True,
            **facts,
        )

    return build


def _projected(given: dict[str, Any], name: str, alone: bool) -> Tensor:
    """Return queries, keys or values, (batch, head, token, d_head), with the extra token that some layers add."""
    place = ("query", "key", "value").index(name)
    width = given["embed_dim_to_check"]
    if given["use_separate_proj_weight"]:
        weight = given[f"{name[0]}_proj_weight"]
    else:
        weight = given["in_proj_weight"][place * width : (place + 1) * width]
    bias = None if given["in_proj_bias"] is None else given["in_proj_bias"][place * width : (place + 1) * width]
    tokens = given[name].unsqueeze(1) if alone else given[name]  # (token, batch, width)
    part = functional.linear(tokens, weight, bias)
    extra = given.get(f"bias_{name[0]}")  # bias_k, bias_v
    if extra is not None:
        part = torch.cat([part, extra.expand(1, part.shape[1], width)])
    if given["add_zero_attn"] and name != "query":
        part = torch.cat([part, part.new_zeros(1, *part.shape[1:])])
    heads = given["num_heads"]
    return torch.unflatten(part, -1, (heads, width // heads)).permute(1, 2, 0, 3)


def _joint_mask(given: dict[str, Any], query: Tensor, key: Tensor, alone: bool) -> Tensor | None:
    """Join the mask of padding and that of pairs, (batch, 1 or head, 1 or query, key); True hides in both."""
    padding = given["key_padding_mask"]
    pairs = given["attn_mask"]
    added = []
    if padding is not None:
        padding = padding[None] if alone else padding
        added.append(_additive(_inverse(padding), query.dtype)[:, None, None])
    if pairs is not None:
        pairs = _additive(_inverse(pairs), query.dtype)
        batch, heads = query.shape[:2]
        added.append(pairs[None, None] if pairs.ndim == 2 else torch.unflatten(pairs, 0, (batch, heads)))
    if not added:
        return None
    mask = sum(added[1:], added[0])
    extra = key.shape[2] - mask.shape[-1]  # tokens that the layer has added itself, which all see
    return functional.pad(mask, (0, extra))


def _inverse(mask: Tensor) -> Tensor:
    return ~mask if mask.dtype == torch.bool else mask


def _additive(mask: Any, dtype: torch.dtype) -> Any:
    """Turn a mask that is True on what may be seen into one to add; others stay."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, -torch.inf)
    return mask.to(dtype)


def _finite(mask: Tensor | None) -> Tensor | None:
    """Return an additive mask without infinities, of which softmax would make NaN where a query sees nothing."""
    return None if mask is None else mask.clamp_min(torch.finfo(mask.dtype).min)


def _without_blind(output: Tensor, mask: Tensor | None) -> Tensor:
    """Set to 0 what heads hand on, (batch, query, head, d_value), where a query sees nothing, as PyTorch's kernel does.

    Only where the mask is infinite: one of large numbers leaves a softmax of equal weights, there as here.
    """
    if mask is None:
        return output
    blind = mask.isneginf().all(dim=-1)  # (1 or batch, 1 or head, 1 or query)
    return output.masked_fill(blind.transpose(1, 2)[..., None], 0) if bool(blind.any()) else output


def _causal(query: Tensor, key: Tensor) -> Tensor:
    ones = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    return _additive(ones.tril(), query.dtype)


def _with_heads(part: Tensor) -> Tensor:
    """Return (batch, head, token, width) of (batch, token, width) and (token, width) too.

    Raises:
        ValueError: There are more axes, of which nobody can tell which are the heads.
    """
    if part.ndim > 4:
        raise ValueError(
            "scaled_dot_product_attention was called with tensors of "
            f"{part.ndim} axes; to swap or trace attention, give it (batch, head, token, width)"
        )
    return part if part.ndim == 4 else part[None, None] if part.ndim == 2 else part[:, None]


def _as_before(output: Tensor, axes: int) -> Tensor:
    """Take away the axes that ``_with_heads`` has added."""
    return output if axes == 4 else output[0, 0] if axes == 2 else output[:, 0]


def _of_one_batch(parts: list[Tensor]) -> list[Tensor]:
    """Repeat what all texts of a batch share, as PyTorch's kernel does."""
    batch = max(len(part) for part in parts)
    return [part.expand(batch, *part.shape[1:]) for part in parts]


def _four_axes(mask: Tensor, axes: int) -> Tensor:
    """Return (batch or 1, head or 1, query, key) of a mask that fits queries of so many axes, counted from the last."""
    if axes == 3 and mask.ndim == 3:  # (batch, query, key)
        return mask[:, None]
    return mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
