"""Turn tensors into tidy tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from effective_attention.attention.trace import Trace


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


def name_tokens(table: pd.DataFrame, trace: Trace, tokenizer: Any) -> None:
    """Add the tokens of a text at ``query`` and ``key`` as columns ``query_token`` and ``key_token``."""
    for axis, one in (("query", trace), ("key", trace.keys)):
        tokens = tokenizer.convert_ids_to_tokens(one.inputs["input_ids"][0].tolist())
        table[f"{axis}_token"] = [tokens[place] for place in table[axis]]
