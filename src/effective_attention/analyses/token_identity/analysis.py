"""Is a hidden token still the word it came from, and which words around it can be told from it?

Brunner et al. (2020), section 4 and appendix B. A map is trained from hidden tokens e_i^l back to input tokens x_i, and
a token is identified where the nearest input token of its text to its image is its own: the *token identifiability
rate*. Here x_i is what the first layer reads (token, segment and position embeddings, added and normalised); layer 0 is
the first layer's output. See ``identity.units`` for the experiments, ``identity.folds`` for the splits by text,
``identity.maps`` for the training.

``baseline`` is the rate of guessing, the mean of 1/n over tested tokens; ``epochs`` and ``seconds`` are the training's;
``examples`` is how many texts took part.

Deviations. The paper names the L2 distance as a loss: we take its square, which the closed form minimises too.
``solver=ridge`` is that closed form (for cosine a surrogate, see ``identity.ridge``); the paper's Adam is the default.
70/15/15 cannot be cut ten times without overlap; ``identity.folds`` says how ours are. The map that is tested on other
layers is that of the first fold.

The hidden states of the split are written to disk once, and each finished unit of work is kept, so that a run that is
killed goes on where it was; the states are deleted in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, get_args

import numpy as np
import pandas as pd
import torch

from effective_attention.analyses.common.base import Analysis, Context, Study
from effective_attention.analyses.common.options import check_limit
from effective_attention.analyses.common.samples import sample
from effective_attention.analyses.common.schema import LAYER, Block, Column, Schema
from effective_attention.analyses.token_identity.lookup import Distance
from effective_attention.analyses.token_identity.maps import Kind, Training
from effective_attention.analyses.token_identity.options import EXPERIMENTS, check_choice, check_numbers, check_texts
from effective_attention.analyses.token_identity.states import States
from effective_attention.analyses.token_identity.units import Solver, Unit, UnitTrainer
from effective_attention.attention.trace import Trace
from effective_attention.errors import UserError
from effective_attention.io import PartStore, check_disk
from effective_attention.processes import rank_and_world, wait_for_others
from effective_attention.progress import progress

_VERSION = 1  # of what a unit finds; another number, and nothing kept is taken for it
_KEYS = ("map", "distance", "solver", "layer", "tested_layer", "offset", "fold", "share")
SCHEMA = Schema(
    (
        Column("experiment", "what is looked for, see token_identity.units", "name", EXPERIMENTS, key=True),
        Column("map", "from hidden tokens to input tokens; naive: none", "name", get_args(Kind), key=True),
        Column("distance", "of the training's loss and of the lookup", "name", get_args(Distance), key=True),
        Column("solver", "how the map was found", "name", ("none", *get_args(Solver)), key=True),
        LAYER,
        Column("tested_layer", "whose output the map was tested on, counted from 0", "whole", low=0, key=True),
        Column("offset", "of the neighbour that is looked for, in tokens; 0: the token itself", "whole", key=True),
        Column("fold", "which split into training and test texts, counted from 0", "whole", low=0, key=True),
        Column("share", "of the fold's training texts that the map was trained on", low=0, high=1, key=True),
        Column("part", "texts the map was trained on, or others", "name", ("train", "test"), key=True),
        Column("value", "share of tokens that were identified", low=0, high=1),
        Column("baseline", "share that guessing among the tokens of the text would identify", low=0, high=1),
        Column("tokens", "how many tokens were tested", "whole", low=0),
        Column("epochs", "of training; empty where nothing was trained step by step", "whole", low=0, missing=True),
        Column("seconds", "that finding the map took", low=0),
        Column("examples", "how many texts took part", "whole", low=0),
    ),
    blocks=(
        Block({"experiment": ("input", "previous", "neighbours", "size")}, (*_KEYS, "part")),
        Block({"experiment": "transfer", "part": "test"}, _KEYS),
    ),
)


class TokenIdentity(Study):
    """How many hidden tokens can still be told from the others of their text; ``SCHEMA`` describes the table.

    Args:
        experiments: Some of ``input``, ``transfer``, ``previous``, ``neighbours``, ``size``.
        maps: Some of ``naive``, ``linear``, ``mlp``.
        distances: Some of ``cosine``, ``l2``; each is the loss and the distance of the lookup.
        solver: Of the linear map, ``adam`` or ``ridge``.
        compare_ridge: Under Adam, the closed form of the linear map as well, for ``input``.
        folds: Of ``input``.
        other_maps: Of ``previous``, ``neighbours`` and ``size``; None: as ``maps``.
        other_solver: Likewise; None: as ``solver``.
        other_folds: Likewise.
        neighbours: How far away, each to both sides.
        layers: ``all``, or a list of layers whose output is mapped.
        sizes: Of ``size``: on which shares of the training texts maps are trained.
        size_layers: Of ``size``: ``last``, ``all``, or a list of layers.
        limit: How many random examples; None: all.
        learning_rate: Of Adam.
        batch_size: Tokens a step.
        hidden_size: Of the MLP.
        patience: Epochs without a better validation loss before training stops.
        max_epochs: Training stops then in any case.
        keep_states: Leave the hidden states on disk.
    """

    schema = SCHEMA

    needs_embeddings = True

    def __init__(
        self,
        *,
        experiments: Sequence[str] = ("input", "transfer", "previous", "neighbours"),
        maps: Sequence[str] = ("naive", "linear", "mlp"),
        distances: Sequence[str] = ("cosine", "l2"),
        solver: str = "adam",
        compare_ridge: bool = True,
        folds: int = 10,
        other_maps: Sequence[str] | None = None,
        other_solver: str | None = None,
        other_folds: int = 1,
        neighbours: Sequence[int] = (1, 2, 3),
        layers: Any = "all",
        sizes: Sequence[float] = (0.5, 0.8, 0.9, 1.0),
        size_layers: Any = "last",
        limit: int | None = None,
        learning_rate: float = 1e-4,
        batch_size: int = 256,
        hidden_size: int = 1000,
        patience: int = 20,
        max_epochs: int = 1000,
        keep_states: bool = False,
    ) -> None:
        self.options: dict[str, Any] = {
            "experiments": experiments,
            "maps": maps,
            "distances": distances,
            "layers": layers,
            "sizes": sizes,
            "size_layers": size_layers,
            "solver": solver,
            "compare_ridge": compare_ridge,
            "folds": folds,
            "neighbours": neighbours,
            "other_maps": other_maps,
            "other_solver": other_solver,
            "other_folds": other_folds,
        }
        numbers = {"batch_size": batch_size, "hidden_size": hidden_size, "patience": patience, "max_epochs": max_epochs}
        check_numbers(learning_rate=learning_rate, keep_states=keep_states, **numbers)
        check_limit("analysis.token_identity.limit", limit)
        self.limit = limit
        self.training = Training(learning_rate, **numbers)
        self.keep_states = keep_states

    def setup(self, context: Context) -> Analysis:
        """Choose the texts and the units of work, and see which are finished already."""
        super().setup(context)
        lengths = context.split.lengths
        if lengths is None:
            raise ValueError("token_identity needs the number of tokens of each example (SplitFacts.lengths)")
        self.chosen = check_choice(context.layers, **self.options)
        self.texts = sample(context, self.limit).nonzero()[:, 0].numpy()
        check_texts(self.chosen, self.texts, lengths, context.seed)
        self.parts = self._part_store()
        self.states = self._state_store(context)
        self.finished = all(self.parts.read(unit.name) is not None for unit in self.chosen.units())
        if not self.finished:
            missing = np.setdiff1d(self.texts, self.states.there().nonzero()[0])
            check_disk("analysis.token_identity", self.states.folder, self.states.bytes_of(missing))
        return self

    def _part_store(self) -> PartStore:
        """Return where finished units are; which units are wanted is no part of its name, so that more can be added."""
        facts = {**asdict(self.training), "texts": len(self.texts), "seed": self.context.seed, "version": _VERSION}
        return PartStore(None if self.context.folder is None else self.context.folder("token_identity", facts))

    def _state_store(self, context: Context) -> States:
        folder = None if context.folder is None else context.folder("token_identity_states", {})
        return States(folder, context.layers + 1, context.split.lengths, context.width)  # type: ignore[arg-type]

    def wants(self, indices: Sequence[int]) -> bool:
        """Whether some of the examples take part and have not been written yet."""
        return not self.finished and bool((np.isin(indices, self.texts) & ~self.states.there()[list(indices)]).any())

    def update(self, trace: Trace) -> None:
        there = self.states.there()
        found = {}
        for row, text in enumerate(trace.inputs["index"].tolist()):
            if text in self.texts and not there[text]:
                found[text] = torch.stack([hidden[row, trace.mask[row]] for hidden in trace.hidden])
        if found:
            self.states.write(found)

    def compute(self) -> pd.DataFrame:
        wait_for_others()
        missing = [unit for unit in self.chosen.units() if self.parts.read(unit.name) is None]
        if missing:
            self._check_states()
        wait_for_others()  # before the first unit is finished, so that all agree on what is missing
        rank, world = rank_and_world()
        self._do(missing[rank::world])
        wait_for_others()
        table = self._table()
        wait_for_others()
        if rank == 0 and not self.keep_states:
            self.states.delete()
        return table

    def _check_states(self) -> None:
        missing = np.setdiff1d(self.texts, self.states.there().nonzero()[0])
        if len(missing):
            raise UserError(
                f"analysis.token_identity: the states of {len(missing)} examples (the first is {missing[0]}) are not "
                f"in {self.states.path.parent}; start again; all processes must share data.token_cache"
            )

    def _do(self, units: list[Unit]) -> None:
        device = self.device if self.device.type == "cuda" else torch.device("cpu")  # where double precision is
        trainer = UnitTrainer(self.states, self.texts, self.training, self.context.seed, device)
        for unit in progress(units, "token identity", "maps"):
            self.parts.write(unit.name, trainer.do(unit))

    def _table(self) -> pd.DataFrame:
        parts = []
        for unit in self.chosen.units():
            found = self.parts.read(unit.name)
            if found is None:
                raise UserError(
                    f"analysis.token_identity: {self.parts.path(unit.name)} is not there, or damaged; start again, "
                    f"with a data.token_cache that all processes share"
                )
            facts = {
                name: getattr(unit, name) for name in ("map", "distance", "solver", "layer", "offset", "fold", "share")
            }
            rows = pd.DataFrame(found).assign(**facts)
            parts.append(rows[[self.chosen.shows(unit, experiment) for experiment in rows["experiment"]]])
        table = pd.concat(parts, ignore_index=True).assign(examples=len(self.texts))
        whole = ["layer", "tested_layer", "offset", "fold", "tokens", "epochs"]
        table[whole] = table[whole].astype("Int64")
        table["epochs"] = table["epochs"].mask(table["solver"] != "adam")
        order = table["experiment"].map(EXPERIMENTS.index).sort_values(kind="stable").index
        return table.loc[order, SCHEMA.names].reset_index(drop=True)
