"""Run a model with another attention: standard, effective or padded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from effective_attention.attention.call import AttentionCall, AttentionOutput
from effective_attention.attention.hook import attention_hook, check_model
from effective_attention.attention.record import AttentionSwap
from effective_attention.attention.variants import variant_to_run


@contextmanager
def use_attention(model: nn.Module, kind: str) -> Iterator[AttentionSwap]:
    """Run ``model`` with another attention inside the ``with`` block; restore its own after it, also after an error.

    Args:
        model: Any model whose layers take the product of a softmax and values; see ``docs/models.md``.
        kind: ``standard`` (the model's eager attention), ``effective`` (same output, attention without its null part)
            or ``padded`` (the published protocol; wants inputs padded to the maximum length, and changes the output).
            Ask ``forward`` for ``output_attentions=True`` to see the weights.

    Yields:
        A record of the calls and, for ``padded``, of the change of the output.

    Raises:
        ValueError: The model attends in a way that cannot be followed, so nothing could be swapped.
    """
    function = variant_to_run(kind).function
    record = AttentionSwap(kind)

    def handle(call: AttentionCall) -> AttentionOutput:
        assert function is not None
        return function(call, record)

    with attention_hook(model, handle, counter=record):
        yield record


def check_swappable(model: nn.Module, kind: str) -> None:
    """Refuse at once what ``use_attention`` would refuse later."""
    variant_to_run(kind)
    check_model(model)
