"""Numbers that are NaN or infinite stop a run, in one line that says where they are.

Looking costs one reduction. On a GPU the answer costs a wait for everything that is queued, so a ``Watch`` collects and
is asked once for many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from effective_attention.errors import UserError

Place = TypeVar("Place")


class NotFiniteError(UserError, ValueError):
    """A number is NaN or infinite where none may be: a model has diverged or overflowed, or its file is damaged."""


def all_finite(numbers: Tensor) -> bool:
    """Return whether no number is NaN or infinite.

    >>> all_finite(torch.tensor([1e38, -1e38])), all_finite(torch.tensor([1.0, torch.nan])), all_finite(torch.ones(0))
    (True, False, True)
    """
    return all(math.isfinite(number) for number in _extremes(numbers).tolist())


def check_weights(weights: Mapping[str, Tensor], owner: str) -> None:
    """Refuse weights that are not finite.

    Args:
        weights: By name, as in a ``state_dict``; those that are no floating-point numbers do not count.
        owner: What has them, as the message begins.

    Raises:
        NotFiniteError: Names the first of them.
    """
    name = first_not_finite(weights)
    if name is not None:
        wrong = int((~weights[name].isfinite()).sum())
        raise NotFiniteError(
            f"{owner}: {wrong} of {weights[name].numel()} numbers of {name} are NaN or infinite, "
            "so whatever it answers means nothing"
        )


def first_not_finite(weights: Mapping[str, Tensor]) -> str | None:
    """Return the name of the first weights that are not finite; None: all are."""
    watch = Watch[str](patience=len(weights) + 1)
    for name, numbers in weights.items():
        if numbers.is_floating_point():
            watch.add(name, numbers)
    return watch.first()


def first_not_finite_part(model: nn.Module, run: Callable[[], object]) -> str | None:
    """Return the name of the first part of ``model`` whose output is not finite while ``run`` runs it; None: no part.

    Waits for the device after every part: for naming what is known to be wrong, not for looking.
    """
    found: list[str] = []

    def look(name: str, output: object) -> None:
        if not found and any(numbers.is_floating_point() and not all_finite(numbers) for numbers in _tensors(output)):
            found.append(name)

    handles = [
        part.register_forward_hook(lambda _part, _inputs, output, name=name: look(name, output))
        for name, part in model.named_modules()
    ]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


def _tensors(output: object) -> Iterator[Tensor]:
    """Yield the tensors of what a module returns: one, several, or some with names."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Mapping | tuple | list):
        for part in output.values() if isinstance(output, Mapping) else output:
            yield from _tensors(part)


class Watch(Generic[Place]):
    """Collects whether numbers are finite, place by place, without waiting for the device.

    Args:
        patience: After so many places ``due`` says that it is time to ask, so that memory does not grow.
    """

    def __init__(self, patience: int = 64) -> None:
        self.patience = patience
        self._seen: list[tuple[Place, Tensor]] = []

    def add(self, place: Place, numbers: Tensor) -> None:
        self._seen.append((place, _extremes(numbers)))

    @property
    def due(self) -> bool:
        """Tell whether to ask now: what is on the CPU costs no wait, and else when enough has come together."""
        return bool(self._seen) and (self._seen[-1][1].device.type == "cpu" or len(self._seen) >= self.patience)

    def first(self) -> Place | None:
        """Return the first place with numbers that are not finite, and forget all; None: there is none."""
        seen, self._seen = self._seen, []
        if not seen or all(bool(part.isfinite().all()) for part in _by_device(seen)):
            return None
        return next(place for place, extremes in seen if not bool(extremes.isfinite().all()))


def _extremes(numbers: Tensor) -> Tensor:
    """Return the smallest and the largest number: both are finite only if all numbers are, and neither can overflow."""
    if numbers.numel() == 0:
        return torch.zeros(2, device=numbers.device)
    return torch.stack(torch.aminmax(numbers.detach()))


def _by_device(seen: list[tuple[Place, Tensor]]) -> list[Tensor]:
    """Return all extremes in one tensor for each device, so that each is waited for once."""
    devices = dict.fromkeys(extremes.device for _, extremes in seen)
    return [torch.cat([extremes for _, extremes in seen if extremes.device == device]) for device in devices]
