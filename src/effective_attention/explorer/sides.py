"""One side of the page: what is shown of one model and one text.

These are tokens, the prediction, and per layer the attention, its effective part, queries and keys.

A side is cut out of a ``Trace``: one of its examples, without padding. Of a model that reads one text and writes
another each of its three attentions is a side; that of cross-attention has other tokens as keys than as queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from effective_attention.attention.stacks import Stack
from effective_attention.attention.trace import Layer, Trace
from effective_attention.explorer.maps import DEFAULT_MAPS, Maps, maps_of
from effective_attention.explorer.words import Words, words_of

Array = NDArray[np.float64]
Prediction = dict[str, Any]
# marks that can be seen
_SPACE = "\u2581"  # ▁
_NEWLINE = "\u21b5"  # ↵
_TAB = "\u21e5"  # ⇥


@dataclass(frozen=True, eq=False)
class KeyTokens:
    """The tokens that are looked at, which of them are special, and the words they make; None: each is one."""

    tokens: list[str]
    special: list[bool]
    words: Words | None = None


@dataclass(frozen=True, eq=False)
class Side:
    """One model on one text.

    Attributes:
        texts: The text, or the two of a pair.
        tokens: Readable names of the tokens; where ``keys`` has others, of the queries.
        special: Which of them the tokenizer added or knows as special.
        segments: Which of ``texts`` each belongs to, from 0.
        standard: Standard attention per layer, (head, query, key).
        effective: Effective attention per layer, (head, query, key); None: not known, as the values are not.
        ranks: The rank of each head's values, per layer; None: likewise.
        scaling: Per layer, the factor of query times key; None: not known.
        query: The queries per layer, (head, query, d_key); None: left out.
        key: The keys per layer, (head, key, d_key); None: left out.
        prediction: ``{"kind": "class", "probabilities": [[label, probability] ...]}``, ``{"kind": "score", "score":
            ...}``, or None where the model predicts nothing, or nothing it has learnt.
        model: Name of the model.
        checkpoint: Where its weights come from; None: not from a checkpoint.
        name: What to call the side; empty where there is only one.
        keys: The tokens that are looked at, where they are others than ``tokens``.
        stack: Which attention of the model, where it has three; see ``attention.stacks``.
        words: The words that ``tokens`` make; None: each is one, or nobody knows.
        gold: What the data says is right: the name of a label, or a score; None: not known.
        maps: Other maps with the same output; see ``maps``.
    """

    texts: tuple[str, ...]
    tokens: list[str]
    special: list[bool]
    segments: list[int]
    standard: list[Array]
    effective: list[Array] | None
    ranks: list[list[int]] | None
    scaling: list[float] | None
    query: list[Array] | None
    key: list[Array] | None
    prediction: Prediction | None = None
    model: str = ""
    checkpoint: str | None = None
    name: str = ""
    keys: KeyTokens | None = None
    stack: Stack | None = None
    words: Words | None = None
    gold: str | float | None = None
    maps: Maps = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.tokens)

    @property
    def longest(self) -> int:
        """Return how many tokens the longer text has."""
        return self.size if self.keys is None else max(self.size, len(self.keys.tokens))

    @property
    def right(self) -> bool | None:
        """Tell whether the most probable label is the gold one; None where there is no such thing."""
        best = best_label(self.prediction)
        return None if best is None or self.gold is None else best[0] == self.gold

    @property
    def causal(self) -> bool:
        """Tell whether no token looks at a later one."""
        return self.size > 1 and self.keys is None and not any(np.triu(weights, 1).any() for weights in self.standard)


def side_of(
    trace: Trace,
    tokenizer: Any,
    texts: Sequence[str],
    *,
    row: int = 0,
    segments: Sequence[int] | None = None,
    neurons: bool = True,
    maps: Sequence[str] = DEFAULT_MAPS,
    **facts: Any,
) -> Side:
    """Build a side from one example of a trace.

    Args:
        trace: Made by ``attention.trace.trace``.
        tokenizer: Names the tokens.
        texts: What was tokenised.
        row: The example's row in the batch.
        segments: Which text each token belongs to; None: as segment ids, or the separators between texts, tell.
        neurons: Whether to include queries and keys.
        maps: Names of other maps to include.
        facts: ``prediction``, ``gold``, ``model``, ``checkpoint`` and ``name`` of the side.

    Raises:
        ValueError: The model's layers are not of one shape, or there is nobody to name their keys.
    """
    _check(trace)
    places, keys = (one.mask[row].nonzero()[:, 0] for one in (trace, trace.keys))
    named = _named(trace, row, places, tokenizer)
    scaling = [layer.scaling for layer in trace.layers]
    return Side(
        texts=tuple(texts),
        tokens=named.tokens,
        special=named.special,
        segments=list(segments or _segments(trace, row, places, tokenizer, len(texts))),
        standard=[_cut(layer.attention[row], places, keys) for layer in trace.layers],
        effective=[_cut(layer.part("effective")[row], places, keys) for layer in trace.layers],
        ranks=[layer.rank[row].tolist() for layer in trace.layers],
        scaling=None if None in scaling else [float(factor) for factor in scaling if factor is not None],
        query=_neurons(trace.layers, "query", row, places) if neurons else None,
        key=_neurons(trace.layers, "key", row, keys) if neurons else None,
        keys=None if trace.source is None else _named(trace.source, row, keys, tokenizer),
        words=named.words,
        maps=maps_of(trace, row, maps),
        **facts,
    )


def _named(trace: Trace, row: int, places: Tensor, tokenizer: Any) -> KeyTokens:
    """Name an example's tokens, tell which of them are special, and which make a word."""
    ids = trace.inputs["input_ids"][row, places].tolist()
    known = set(tokenizer.all_special_ids)
    tokens = readable(ids, tokenizer)
    special = [token in known for token in ids]
    return KeyTokens(tokens, special, words_of(tokens, special, tokenizer))


def _check(trace: Trace) -> None:
    layers = trace.layers
    for layer in layers:
        queries, keys = layer.shape[-2:]
        if queries != keys and trace.source is None:
            raise ValueError(
                f"the explorer shows attention of a text to itself, and this model has attention of {queries} queries "
                f"to {keys} keys; choose an encoder or a decoder alone"
            )
    shapes = {(layer.shape[1:], None if layer.query is None else layer.query.shape[1:]) for layer in layers}
    if len(shapes) > 1:
        raise ValueError(f"the explorer needs layers of one shape, and this model's differ: {sorted(map(str, shapes))}")


def _cut(weights: Tensor, queries: Tensor, keys: Tensor) -> Array:
    return weights[:, queries][:, :, keys].double().cpu().numpy()  # (head, query, key)


def _neurons(layers: Sequence[Layer], name: str, row: int, places: Tensor) -> list[Array] | None:
    found = [getattr(layer, name) for layer in layers]
    if any(part is None for part in found):
        return None
    return [part[row][:, places].double().cpu().numpy() for part in found]  # (head, query or key, d_key)


def _segments(trace: Trace, row: int, places: Tensor, tokenizer: Any, texts: int) -> list[int]:
    types = trace.inputs.get("token_type_ids")
    if types is not None:
        return types[row, places].clamp_max(max(texts - 1, 0)).tolist()  # XLNet's [CLS], the last, is of a third kind
    separators = trace.inputs["input_ids"][row, places] == (
        -1 if tokenizer.sep_token_id is None else tokenizer.sep_token_id
    )
    before = separators.long().cumsum(0) - separators.long()  # a separator belongs to the text it ends
    return before.clamp_max(1).tolist()


def readable(ids: Sequence[int], tokenizer: Any) -> list[str]:
    """Return the names of the tokens in readable letters.

    Byte-level vocabularies spell bytes with letters of their own: those become what they stand for.

    A space at the front becomes ``▁``, as other vocabularies have it; a token that holds only part of a letter stays as
    it is.
    """
    names: list[str] = tokenizer.convert_ids_to_tokens(list(ids))
    if "\u0120" not in tokenizer.get_vocab():  # Ġ, a space
        return names
    known = set(tokenizer.all_special_ids)
    return [name if token in known else _spelt_out(name, tokenizer) for token, name in zip(ids, names, strict=True)]


def _spelt_out(name: str, tokenizer: Any) -> str:
    text: str = tokenizer.convert_tokens_to_string([name])
    if "\ufffd" in text or not text:
        return name
    return text.replace(" ", _SPACE).replace("\n", _NEWLINE).replace("\t", _TAB)


def prediction_of(logits: Tensor, labels: Sequence[str], *, several: bool = False) -> Prediction | None:
    """Return what one example's logits (outputs,) predict: a score, or the probability of each label.

    Args:
        logits: A single one is a score; several are one for each label.
        labels: Names of the labels.
        several: Whether several labels may be right at once.

    >>> prediction_of(torch.tensor([0.0, 0.0]), ["no", "yes"])
    {'kind': 'class', 'probabilities': [['no', 0.5], ['yes', 0.5]]}
    """
    values = logits.detach().double().cpu()
    if len(values) == 1 and len(labels) <= 1:
        return {"kind": "score", "score": float(values[0])}
    chances = values.sigmoid() if several else torch.softmax(values, dim=0)
    named = [[str(label), float(chance)] for label, chance in zip(labels, chances, strict=True)]
    return {"kind": "class", "probabilities": named}


def best_label(prediction: Prediction | None) -> tuple[str, float] | None:
    """Return the most probable label and its probability; None where nothing, or a score, is predicted."""
    if prediction is None or prediction["kind"] == "score":
        return None
    label, chance = max(prediction["probabilities"], key=lambda answer: float(answer[1]))
    return label, chance
