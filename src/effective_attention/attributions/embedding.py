"""Where a model turns tokens into vectors: its embedding, with the batch first in whatever order the model has them.

XLNet turns its ids round before it embeds them, (key, batch). Attributions are per text, so that their hooks, and
captum, which puts the steps of its way side by side in the batch, must find the batch first.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from effective_attention.attention.hook import evaluation_mode
from effective_attention.attention.trace import Trace, one_text

_TURNED: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()  # by the embedding


class _BatchFirst(nn.Module):
    """The embedding of a model that has the batch second: turned round before it and after it."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.embedding(ids.transpose(0, 1))  # (batch, key, width)
        return vectors.transpose(0, 1)


@contextmanager
def token_embedding(trace: Trace) -> Iterator[nn.Module]:
    """Give the module that embeds the model's tokens, (batch, key) to (batch, key, width), inside the block.

    Raises:
        ValueError: The model is a home-made one.
    """
    model = trace.transformer
    embedding = model.get_input_embeddings()
    if not _is_turned(trace, embedding):
        yield embedding
        return
    model.set_input_embeddings(_BatchFirst(embedding))
    try:
        yield embedding
    finally:
        model.set_input_embeddings(embedding)


def _is_turned(trace: Trace, embedding: nn.Module) -> bool:
    """Tell whether the model embeds (key, batch): run one text, once for each model, and see."""
    if embedding not in _TURNED:
        shapes: list[tuple[int, ...]] = []
        hook = embedding.register_forward_pre_hook(lambda _, given: shapes.append(tuple(given[0].shape)))
        text = one_text(trace, 0)
        try:
            with torch.no_grad(), evaluation_mode(trace.model):
                base = trace.transformer.base_model
                known = inspect.signature(base.forward).parameters  # what is meant for the head is not handed on
                base(**{name: value for name, value in text.items() if name in known})
        finally:
            hook.remove()
        length = text["input_ids"].shape[1]
        if length == 1:  # tells nothing, and there is nothing to turn
            return False
        _TURNED[embedding] = shapes[:1] == [(length, 1)]
    return _TURNED[embedding]
