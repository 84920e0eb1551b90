"""Which pairs of a query and a key count, and how much does each weigh?

The analyses of Vig & Belinkov (2019) are averages over all pairs of tokens. A pair counts where both tokens are real
(no padding) and the query may see the key (a causal or a local mask hides some, from layer to layer perhaps different
ones).

**Special tokens.** The authors leave attention to the first token out, where heads of their model rest that find
nothing to look at. In an encoder that is what [CLS] and [SEP] are for, so ``special_tokens=False`` leaves out every
pair in which the query or the key is special.

**The first token.** ``first_token=False`` leaves out every pair whose key is the first token of the input, as the
authors do; the weights that are left stay as they are. Queries are not left out, but the first token of a causal model
sees only itself, so that nothing of its row is left. Where nobody decides (``first_token=None``), it is left out in
causal models and stays in others, whose first token is a special one, or a word like any other.

**Negative weights.** Effective attention has them, and an average cannot be weighted by them. ``convention`` is that of
``analyses.graph``: ``absolute`` takes their size, ``positive`` drops them. Rows are not divided by their sum: a row of
which little reaches the output has little say. Standard attention is not negative anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.analyses.common.base import Context
from effective_attention.attention.trace import Layer, Part, Trace
from effective_attention.data.annotation.tagging import KINDS
from effective_attention.graphs.conventions import Convention, unsigned

SPECIAL = tuple(KINDS.index(kind) for kind in ("cls", "sep", "other special"))


def counted_tokens(trace: Trace, *, special_tokens: bool) -> Bool[Tensor, "batch key"]:
    """Select the real tokens, with or without [CLS], [SEP] and other special ones."""
    if special_tokens:
        return trace.mask
    kinds = torch.tensor(SPECIAL, device=trace.mask.device)
    return trace.mask & ~torch.isin(trace.tokens["kind"], kinds)


def is_first(trace: Trace) -> Bool[Tensor, "batch key"]:
    """Select each text's first real token, wherever padding is."""
    return trace.mask & (trace.mask.cumsum(dim=-1) == 1)


def counts_first(first_token: bool | None, context: Context) -> bool:
    """Tell whether attention to the first token counts; None leaves it out in causal models."""
    return not context.causal if first_token is None else first_token


def counted(
    trace: Trace, *, special_tokens: bool, first_token: bool = True, layer: Layer | None = None
) -> Bool[Tensor, "batch query key"]:
    """Select the pairs that count: both tokens count, and the query may see the key.

    Args:
        trace: A batch.
        special_tokens: Whether pairs with a special token count.
        first_token: Whether pairs count whose key is the first real token.
        layer: Whose mask says what may be seen; None: what is seen in some layer counts.
    """
    queries = counted_tokens(trace, special_tokens=special_tokens)
    keys = counted_tokens(trace.keys, special_tokens=special_tokens)
    keys = keys if first_token else keys & ~is_first(trace.keys)
    pairs = queries[:, :, None] & keys[:, None, :]
    masks = [each.visible for each in (trace.layers if layer is None else (layer,))]
    seen = [
        mask[:, 0] for mask in masks if mask is not None
    ]  # no model that we know hides different keys from its heads
    if len(seen) < len(masks):  # some layer hides nothing
        return pairs
    return pairs & torch.stack([mask.expand(pairs.shape) for mask in seen]).any(dim=0)


def pair_weights(
    layer: Layer,
    attention: Part,
    pairs: Bool[Tensor, "batch some key"],
    convention: Convention = "absolute",
    queries: slice = slice(None),
) -> Float[Tensor, "batch head some key"]:
    """Return each head's weights in float64, made non-negative, and 0 on the pairs that do not count.

    Args:
        layer: Whose weights.
        attention: Which of its parts.
        pairs: Which pairs of these queries count.
        convention: What becomes of negative weights.
        queries: A block of queries (``Layer.blocks``).
    """
    weights = layer.rows(attention, queries) * pairs[:, None].double()
    return weights if attention == "standard" else unsigned(weights, convention)


def counted_blocks(
    trace: Trace, layer: Layer, *, special_tokens: bool, first_token: bool
) -> Iterator[tuple[slice, Bool[Tensor, "batch some key"]]]:
    """Go over a layer's queries block by block (one block, unless the text is long), with the pairs that count."""
    pairs = counted(trace, special_tokens=special_tokens, first_token=first_token, layer=layer)
    for queries in layer.blocks():
        yield queries, pairs[:, queries]


def even_weights(pairs: Bool[Tensor, "batch query key"]) -> Float[Tensor, "batch query key"]:
    """Return the weights of a head without preference: each query's are equal on all keys that count, and sum to 1."""
    return pairs.double() / pairs.sum(dim=-1, keepdim=True).clamp_min(1)


def distances(size: int, device: torch.device) -> Int[Tensor, "query key"]:
    """Return how many tokens each query and key are apart in the input.

    >>> distances(3, torch.device("cpu"))[0]
    tensor([0, 1, 2])
    """
    places = torch.arange(size, device=device)
    return (places[:, None] - places).abs()
