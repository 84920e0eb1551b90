"""The units of work: one map of one layer, trained and tested on one fold, is one unit, done within minutes.

Experiments (Brunner et al. 2020; layer l counted from 0, e^l its output, x = e^-1 the input embedding):

- ``input``: e_i^l to x_i (Fig. 2a, 7, 38, 39);
- ``transfer``: the first fold's map of ``input``, tested on every layer (Fig. 2b, 8-10), so no unit of its own;
- ``previous``: e_i^l to e_i^(l-1), looked up among the states of layer l - 1 (Fig. 11-13);
- ``neighbours``: e_i^l to x_(i+k); tokens without such a neighbour are left out (Fig. 14-17);
- ``size``: as ``input``, but trained on a share of the training texts; smaller shares lie within larger ones (B.2).

What a unit finds depends on the unit, the seed and the optimiser's options only: not on the units before it, nor on who
does it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from effective_attention.analyses.token_identity.folds import Fold, make_fold, some_of
from effective_attention.analyses.token_identity.lookup import Distance, Rate, identify
from effective_attention.analyses.token_identity.maps import Kind, Pairs, Training, Weights, apply_map, train_map
from effective_attention.analyses.token_identity.ridge import Gram, best_map, ridge_maps
from effective_attention.analyses.token_identity.states import States

Solver = Literal["adam", "ridge"]


@dataclass(frozen=True)
class Unit:
    """One map of one layer, trained and tested on one fold.

    Attributes:
        layer: Whose output is mapped.
        offset: Of the neighbour that is looked for.
        folds: How many there are, of which ``fold`` is one.
        share: Of the fold's training texts that the map is trained on.
    """

    experiment: str
    map: Kind
    solver: str
    distance: Distance
    layer: int
    offset: int
    fold: int
    folds: int
    share: float = 1.0

    @property
    def name(self) -> str:
        facts = self.experiment, self.map, self.solver, self.distance
        size = [f"share{self.share:g}"] if self.experiment == "size" else []
        return "-".join([*facts, f"layer{self.layer}", f"offset{self.offset}", f"fold{self.fold}of{self.folds}", *size])

    @property
    def target(self) -> int:
        """The hidden state that is looked up; 0 is the input embedding."""
        return self.layer if self.experiment == "previous" else 0


def list_units(
    experiment: str,
    maps: Iterable[tuple[Kind, str]],
    distances: Collection[Distance],
    places: Collection[tuple[int, int, int]],
    folds: int,
    shares: Collection[float] = (1.0,),
) -> list[Unit]:
    """Every combination for one experiment.

    Folds come last, so that processes that take turns get equally long work; in the closed form distances do, because
    they share a Gram matrix.

    Args:
        experiment: ``input``, ``previous``, ``neighbours`` or ``size``.
        maps: With the solver of each.
        distances: Each is loss and lookup.
        places: Layer, offset and fold.
        folds: How many there are.
        shares: Of the training texts.
    """
    found = []
    every = [(distance, *place, folds, share) for share in shares for distance in distances for place in places]
    for kind, solver in maps:
        units = [Unit(experiment, kind, solver, *one) for one in every]
        found += sorted(units, key=_shared_gram) if solver == "ridge" else units
    return found


def _shared_gram(unit: Unit) -> tuple[float, ...]:
    """Return what decides the Gram matrix of a unit's training tokens."""
    return unit.layer, unit.offset, unit.fold, unit.folds, unit.share


@dataclass
class UnitTrainer:
    """Does units.

    Attributes:
        states: Of the split.
        texts: Numbers of those that take part.
        training: The optimiser's options.
        seed: Of folds, first weights and orders.
        device: Where maps are trained.
    """

    states: States
    texts: NDArray[np.int64]
    training: Training
    seed: int
    device: torch.device

    @cached_property
    def _grams(self) -> dict[Any, Gram]:
        """The last one, which the next unit may share."""
        return {}

    def fold(self, unit: Unit) -> Fold:
        whole = make_fold(len(self.texts), unit.fold, unit.folds, self.seed)
        return replace(whole, train=some_of(whole.train, unit.share, self.seed))

    @torch.no_grad()
    def do(self, unit: Unit) -> dict[str, NDArray[Any]]:
        """Train and test; return experiment, tested_layer, part, value, baseline, tokens, epochs and seconds."""
        fold = self.fold(unit)
        began = time.perf_counter()
        weights, epochs = self._solve(unit, fold)
        seconds = time.perf_counter() - began
        cost = {"epochs": epochs, "seconds": seconds}
        rows = [
            {"experiment": experiment, "tested_layer": layer, "part": part, **rate._asdict(), **cost}
            for experiment, layer, part, rate in self._test(unit, fold, weights)
        ]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _test(self, unit: Unit, fold: Fold, weights: Weights) -> Iterator[tuple[str, int, str, Rate]]:
        for part in ("train", "test"):
            yield unit.experiment, unit.layer, part, self._rate(unit, fold.parts[part], unit.layer, weights)
        if unit.experiment == "input" and unit.fold == 0:
            for layer in range(self.states.layers - 1):
                yield "transfer", layer, "test", self._rate(unit, fold.test, layer, weights)

    def _rate(self, unit: Unit, texts: NDArray[np.int64], layer: int, weights: Weights) -> Rate:
        chosen = self.texts[texts]
        image = apply_map(weights, self._read(layer + 1, texts))
        return identify(image, self._read(unit.target, texts), self.states.lengths[chosen], unit.distance, unit.offset)

    def _read(self, number: int, texts: NDArray[np.int64]) -> Tensor:
        return self.states.read(number, self.texts[texts].tolist()).to(self.device)

    def _pairs(self, unit: Unit, texts: NDArray[np.int64]) -> Pairs:
        """Tokens of the texts that have the neighbour, and that neighbour."""
        source = self._read(unit.layer + 1, texts)
        target = self._read(unit.target, texts)
        places = neighbours(self.states.lengths[self.texts[texts]], unit.offset).to(self.device)
        return Pairs(source[places], target[places + unit.offset])

    def _solve(self, unit: Unit, fold: Fold) -> tuple[Weights, int]:
        if unit.map == "naive":
            return [], 0
        train = self._pairs(unit, fold.train)
        if unit.solver == "ridge":
            maps = ridge_maps(self._gram(unit, train.source), train.source, train.target, unit.distance)
            rate = partial(self._rate, unit, fold.validation, unit.layer)
            return [best_map(maps, lambda weights: rate([weights]).value)], 0
        generator = torch.Generator().manual_seed(unit_seed(unit, self.seed))
        trained = train_map(
            unit.map, unit.distance, train, self._pairs(unit, fold.validation), self.training, generator
        )
        return trained.weights, trained.epochs

    def _gram(self, unit: Unit, source: Tensor) -> Gram:
        key = _shared_gram(unit)
        if key not in self._grams:
            self._grams.clear()
            self._grams[key] = Gram.of(source)
        return self._grams[key]


def neighbours(lengths: NDArray[np.int64], offset: int) -> Tensor:
    """Places of tokens, in texts one after the other, that have a token ``offset`` places on in the same text.

    >>> neighbours(np.array([3, 2]), 1), neighbours(np.array([3, 2]), -2)
    (tensor([0, 1, 3]), tensor([2]))
    """
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    right = np.arange(len(starts)) - starts + offset  # in its text
    return torch.from_numpy(np.flatnonzero((right >= 0) & (right < np.repeat(lengths, lengths))))


def unit_seed(unit: Unit, seed: int) -> int:
    """Its own, from its name: what other units drew plays no part."""
    return int.from_bytes(hashlib.sha256(f"{seed} {unit.name}".encode()).digest()[:7], "big")
