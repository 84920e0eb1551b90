"""Run attribution methods on the same examples: the scores each gives to the tokens, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.attention.trace import Part
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions.registry import Method, registered
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import Measured, Settings, SharedWork


@dataclass(frozen=True, eq=False)
class Attribution:
    """What one method says of a batch.

    Attributes:
        method: Its name.
        attention: Which attention it read; None where it reads none.
        scores: One layer where the method has none. May be negative where the token speaks against the target.
        seconds: For the whole batch, beyond the forward pass that all share.
    """

    method: str
    attention: Part | None
    scores: Float[Tensor, "batch layer key"]
    seconds: float


def attribute(
    request: AttributionRequest,
    words: Bool[Tensor, "batch key"],
    settings: Settings,
    methods: Sequence[Method] | None = None,
    attentions: Sequence[Part] = ATTENTIONS,
) -> Iterator[Attribution]:
    """Run methods in turn, as ``runs`` orders them.

    Args:
        request: The batch and its targets.
        words: The tokens that may be blanked, so neither padding nor delimiters.
        settings: How the methods are computed.
        methods: Which; None: all that are registered.
        attentions: Which of them methods that read attention read.

    Raises:
        ValueError: A method's scores are of another shape than its record says, or it reads shared work that its record
            does not name.
    """
    work = SharedWork(request, words, settings)
    for method, attention in runs(registered() if methods is None else methods, attentions):
        if method.prepare is not None:
            method.prepare()
        given = (work,) if attention is None else (work, attention)
        found = work.measured(partial(method.function, *given))
        _check(method, found, work)
        scores = found.result[:, None] if attention is None else found.result
        yield Attribution(method.name, attention, scores, found.seconds)


def runs(methods: Sequence[Method], attentions: Sequence[Part] = ATTENTIONS) -> list[tuple[Method, Part | None]]:
    """Pair methods with attentions, in order.

    Neighbours that read attention all read the first of them, standard attention, then the next. So the order of the
    methods is kept, and what is read of one attention stands together.
    """
    found: list[tuple[Method, Part | None]] = []
    for reads_attention, group in groupby(methods, key=lambda method: method.reads_attention):
        neighbours = list(group)
        read: Sequence[Part | None] = attentions if reads_attention else (None,)
        found += [(method, attention) for attention in read for method in neighbours]
    return found


def _check(method: Method, found: Measured[Tensor], work: SharedWork) -> None:
    batch, keys = work.trace.mask.shape
    expected = (batch, len(work.trace.layers), keys) if method.reads_attention else (batch, keys)
    if tuple(found.result.shape) != expected:
        raise ValueError(
            f"attribution method {method.name!r} must give scores of shape {expected}, gave {tuple(found.result.shape)}"
        )
    unnamed = found.needs - set(method.needs)
    if unnamed:
        raise ValueError(
            f"attribution method {method.name!r} reads shared work that its needs do not name: "
            f"{', '.join(sorted(unnamed))}"
        )
