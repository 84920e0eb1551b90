"""The options of ``token_identity``, checked before any work, and the units they ask for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from effective_attention.analyses.common.options import is_whole_number, layer_numbers
from effective_attention.analyses.token_identity.folds import make_fold
from effective_attention.analyses.token_identity.lookup import Distance
from effective_attention.analyses.token_identity.maps import Kind
from effective_attention.analyses.token_identity.units import Solver, Unit, list_units
from effective_attention.errors import UserError

EXPERIMENTS = ("input", "transfer", "previous", "neighbours", "size")
_OPTION = "analysis.token_identity"
_LISTS: dict[str, tuple[str, ...]] = {
    "experiments": EXPERIMENTS,
    "maps": get_args(Kind),
    "other_maps": get_args(Kind),
    "distances": get_args(Distance),
}


@dataclass(frozen=True)
class Chosen:
    """Which units are wanted; see ``TokenIdentity`` for each option."""

    experiments: tuple[str, ...]
    maps: tuple[Kind, ...]
    distances: tuple[Distance, ...]
    solver: Solver
    compare_ridge: bool
    folds: int
    other_maps: tuple[Kind, ...]
    other_solver: Solver
    other_folds: int
    neighbours: tuple[int, ...]
    layers: tuple[int, ...]
    sizes: tuple[float, ...]
    size_layers: tuple[int, ...]

    def units(self) -> list[Unit]:
        """Quick ones first: naive maps, then linear ones, then MLPs, as they are named."""
        found = []
        if {"input", "transfer"} & set(self.experiments):
            extra: list[tuple[Kind, str]] = [("linear", "ridge")] if self._compares else []
            folds = self.folds if "input" in self.experiments else 1  # of which transfer uses the first
            maps = [*_with_solvers(self.maps, self.solver), *extra]
            found += list_units("input", maps, self.distances, self._places([0], folds), self.folds)
        for experiment, offsets in (
            ("previous", [0]),
            ("neighbours", [k * side for k in self.neighbours for side in (-1, 1)]),
        ):
            if experiment in self.experiments:
                maps = _with_solvers(self.other_maps, self.other_solver)
                places = self._places(offsets, self.other_folds)
                found += list_units(experiment, maps, self.distances, places, self.other_folds)
        return [*found, *self._size_units()]

    def _size_units(self) -> list[Unit]:
        """Trained maps alone: the naive one learns from no text."""
        if "size" not in self.experiments:
            return []
        maps = [one for one in _with_solvers(self.other_maps, self.other_solver) if one[0] != "naive"]
        places = [(layer, 0, fold) for layer in self.size_layers for fold in range(self.other_folds)]
        return list_units("size", maps, self.distances, places, self.other_folds, self.sizes)

    def shows(self, unit: Unit, experiment: str) -> bool:
        """Whether a unit's result for ``experiment`` is shown; the closed form beside Adam is not transferred."""
        beside = self._compares and unit.solver == "ridge"
        return experiment in self.experiments and not (experiment == "transfer" and beside)

    @property
    def _compares(self) -> bool:
        wanted = self.compare_ridge and self.solver == "adam"
        return wanted and "linear" in self.maps and "input" in self.experiments

    def _places(self, offsets: Collection[int], folds: int) -> list[tuple[int, int, int]]:
        return [(layer, offset, fold) for layer in self.layers for offset in offsets for fold in range(folds)]


def _with_solvers(maps: Collection[Kind], solver: Solver) -> list[tuple[Kind, str]]:
    solvers = {"naive": "none", "linear": solver, "mlp": "adam"}
    return [(kind, solvers[kind]) for kind in maps]


def check_choice(model_layers: int, **options: Any) -> Chosen:
    """Every option of ``Chosen`` by name, or a user error.

    Args:
        model_layers: How many the model has.
        **options: As the user gave them.
    """
    for name in ("maps", "solver"):  # the others are as those of input, unless they are named
        options[f"other_{name}"] = options[name] if options[f"other_{name}"] is None else options[f"other_{name}"]
    for name, known in _LISTS.items():
        _check(name, _some_of(options[name], known), f"a list of some of {', '.join(known)}", options[name])
    for name in ("solver", "other_solver"):
        _check(name, options[name] in get_args(Solver), " or ".join(get_args(Solver)), options[name])
    _check("compare_ridge", isinstance(options["compare_ridge"], bool), "true or false", options["compare_ridge"])
    for name in ("folds", "other_folds"):
        _check(name, is_whole_number(options[name]), "a whole number of 1 or more", options[name])
    near = options["neighbours"]
    good = _is_list(near) and len(near) > 0 and all(map(is_whole_number, near)) and len(set(near)) == len(near)
    _check("neighbours", good, "a list of different distances of 1 or more, such as [1, 2, 3]", near)
    _check_sizes(options)
    chosen = {name: _layers(name, options[name], model_layers) for name in ("layers", "size_layers")}
    lists = {name: tuple(options[name]) for name in (*_LISTS, "neighbours", "sizes")}
    return Chosen(**{**options, **lists, **chosen})


def _check_sizes(options: dict[str, Any]) -> None:
    sizes = options["sizes"]
    good = _is_list(sizes) and len(sizes) > 0 and all(map(_is_share, sizes)) and len(set(sizes)) == len(sizes)
    _check("sizes", good, "a list of different shares above 0 and up to 1, such as [0.5, 1.0]", sizes)
    trained = set(options["other_maps"]) - {"naive"} or "size" not in options["experiments"]
    _check("other_maps", bool(trained), "linear, mlp or both for the experiment size", options["other_maps"])


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


def check_numbers(**options: Any) -> None:
    """Check the optimiser's options, and ``keep_states``."""
    for name, value in options.items():
        if name == "keep_states":
            _check(name, isinstance(value, bool), "true or false", value)
            continue
        if name == "learning_rate":
            good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
            _check(name, good, "a number above 0", value)
        else:
            _check(name, is_whole_number(value), "a whole number of 1 or more", value)


def check_texts(chosen: Chosen, texts: NDArray[np.int64], lengths: NDArray[np.int64], seed: int) -> None:
    """Whether there are enough, and long enough.

    Args:
        chosen: The units' options.
        texts: Numbers of those that take part.
        lengths: Tokens of every text of the split.
        seed: Of the folds.
    """
    folds = max((unit.folds for unit in chosen.units()), default=1)
    if len(texts) < max(3, folds):
        raise UserError(
            f"{_OPTION}.folds: {len(texts)} examples are too few for {folds} folds of training, validation and test "
            f"texts; use at least {max(3, folds)} examples, or fewer folds"
        )
    short = texts[lengths[texts] < 2]
    if len(short):
        raise UserError(
            f"{_OPTION}: example {short[0]} has a single token, which nothing can be mistaken for; leave it out"
        )
    for unit in chosen.units():
        parts = make_fold(len(texts), unit.fold, unit.folds, seed).parts if unit.offset else {}
        for part, places in parts.items():
            if lengths[texts[places]].max() <= abs(unit.offset):
                raise UserError(
                    f"{_OPTION}.neighbours: no {part} text has neighbours {abs(unit.offset)} apart; leave it out"
                )


def _layers(name: str, wanted: Any, layers: int) -> tuple[int, ...]:
    option = f"{_OPTION}.{name}"
    numbers = wanted if _is_list(wanted) else [wanted]
    _check(name, len(numbers) > 0, f"all, or a list of layers from 0 to {layers - 1}", wanted)
    return tuple(sorted({layer for number in numbers for layer in layer_numbers(number, layers, option)}))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _some_of(values: Any, known: Sequence[str]) -> bool:
    return _is_list(values) and len(values) > 0 and set(values) <= set(known) and len(set(values)) == len(values)


def _check(name: str, good: bool, expected: str, got: Any) -> None:
    if not good:
        raise UserError(f"{_OPTION}.{name} must be {expected}, got {got!r}")
