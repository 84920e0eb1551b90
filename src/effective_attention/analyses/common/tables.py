"""Turn tensors into tidy tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Trace
from effective_attention.attributions.ranking import bootstrap


def tidy(values: Tensor, names: Mapping[str, Any], **columns: Tensor) -> pd.DataFrame:
    """Write a tensor as rows: one column per axis, named and labelled by ``names``, then ``value``, then ``columns``.

    >>> tidy(torch.tensor([[1.0, 2.0]]), {"attention": ["standard"], "head": range(2)}).to_dict("list")
    {'attention': ['standard', 'standard'], 'head': [0, 1], 'value': [1.0, 2.0]}
    """
    index = pd.MultiIndex.from_product([list(labels) for labels in names.values()], names=list(names))
    table = index.to_frame(index=False)
    for column, tensor in {"value": values, **columns}.items():
        table[column] = tensor.detach().cpu().expand(values.shape).reshape(-1).numpy()
    return table


def mean_over(total: Tensor, count: Tensor) -> Tensor:
    """Divide sums by counts; where nothing was counted, the result is NaN."""
    return torch.where(count > 0, total / count.clamp_min(1), torch.nan)


def over_examples(values: Float[Tensor, "example place"], seed: int) -> pd.DataFrame:
    """Return mean, standard deviation, interval and count over examples of each place; NaN is left out."""
    count = (~values.isnan()).sum(dim=0)
    low, high = bootstrap(values, seed=seed) if len(values) else (torch.nan * count, torch.nan * count)
    mean = values.nanmean(dim=0)
    spread = ((values - mean).square().nansum(dim=0) / (count - 1).clamp_min(1)).sqrt()
    return pd.DataFrame({"value": mean, "std": spread, "low": low, "high": high, "count": count})


def name_tokens(table: pd.DataFrame, trace: Trace, tokenizer: Any) -> None:
    """Add the tokens of a text at ``query`` and ``key`` as columns ``query_token`` and ``key_token``."""
    for axis, one in (("query", trace), ("key", trace.keys)):
        tokens = tokenizer.convert_ids_to_tokens(one.inputs["input_ids"][0].tolist())
        table[f"{axis}_token"] = [tokens[place] for place in table[axis]]
