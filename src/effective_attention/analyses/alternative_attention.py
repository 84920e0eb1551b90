"""How far apart can two attention maps be that make the model do exactly the same?

Brunner et al. (2020), section 3.3: where a text has more than ``d_head + 1`` tokens, a head's attention can be replaced
by another one, whose rows are distributions too, with the same output. For one example this constructs such maps, as
far from the model's as possible (``attention.alternatives``: the paper's step along a null-space direction, and linear
programs), says how far that is, query by query, as total variation distance from 0 to 1, and puts them into the model:
the logits stay as they were.

The check could fail: ``control`` takes the same weights away from the same keys as the alternative, but gives all of a
row's to one random token. It is as far from the model's attention, but not inside the null space, and logits do change.

Deviations: the null space is that of ``[V, 1]``, values with their bias, and not of ``[T, 1]``: the two are the same
where a head's output projection has full row rank (``null_space`` measures it), and what leaves ``V``'s output alone
always leaves ``T``'s. ``effective`` is the exact reading. Heads that are not shown are searched with less effort (one
start, two programs a query: on MiniLM 94 % of the distance that four starts find), so that a whole model takes about a
minute.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from torch import Tensor

from effective_attention.analyses.common.alone import head_rows, traced_alone
from effective_attention.analyses.common.base import Analysis, Context, TextAnalysis
from effective_attention.analyses.common.options import check_flag, check_number
from effective_attention.analyses.common.schema import HEAD, LAYER, Block, Column, Schema, attention_column
from effective_attention.analyses.common.tables import tidy
from effective_attention.attention.alternatives import alternative_maps, bounds, distance, furthest_proved
from effective_attention.attention.replacement import replaced_logits
from effective_attention.attention.row_space import spaces
from effective_attention.attention.trace import Trace
from effective_attention.errors import UserError
from effective_attention.progress import progress

Heads = Literal["all", "shown"]
SHOWN = ("standard", "alternative", "effective")
METHODS = ("step", "program")
PUT_IN = ("alternative", "control")
SCOPES = ("head", "all")
_LIGHT = {"starts": 1, "rounds": 2}  # for the heads that are not shown
SCHEMA = Schema(
    (
        replace(attention_column(*SHOWN, "control"), missing=True),
        Column(
            "quantity",
            "what the value is; see the blocks",
            "name",
            ("weight", "distance", "bound", "proved", "freedom", "output_change", "logit_change", "probability"),
            key=True,
        ),
        replace(LAYER, missing=True),
        replace(HEAD, missing=True),
        Column("query", "position of the token that attends, counted from 0", "whole", low=0, key=True, missing=True),
        Column("key", "position of the token attended to, counted from 0", "whole", low=0, key=True, missing=True),
        Column("query_token", "the token at the position query", "name", missing=True),
        Column("key_token", "the token at the position key", "name", missing=True),
        Column("method", "how the other map was found", "name", METHODS, key=True, missing=True),
        Column("scope", "which heads were replaced: the shown one, or all", "name", SCOPES, key=True, missing=True),
        Column("value", "what quantity says; a distance is the share of a token's attention that is moved"),
        Column("examples", "how many texts were read: one", "whole", low=1, high=1),
    ),
    blocks=(
        Block({"quantity": "weight", "attention": SHOWN}, ("layer", "head", "query", "key")),
        Block({"quantity": "distance", "attention": "alternative"}, ("layer", "head", "query", "method")),
        Block({"quantity": "bound", "attention": "alternative"}, ("layer", "head", "query")),
        Block({"quantity": "proved", "attention": "alternative"}, ("layer", "head", "query")),
        Block({"quantity": "freedom"}, ("layer", "head")),
        Block({"quantity": "output_change", "attention": PUT_IN}, ("layer", "head")),
        Block({"quantity": "logit_change", "attention": PUT_IN}, ("scope",)),
        Block({"quantity": "probability", "attention": ("standard", *PUT_IN)}, ("scope",)),
    ),
)


def control_map(
    attention: Float64[np.ndarray, "query key"],
    alternative: Float64[np.ndarray, "query key"],
    generator: np.random.Generator,
    visible: np.ndarray,
) -> Float64[np.ndarray, "query key"]:
    """Return a map as far from ``attention`` as ``alternative`` is, but with another output.

    The same weights are taken from the same keys, and all are given to one random visible key that lost nothing.
    """
    control = np.minimum(attention, alternative)
    moved = 1 - control.sum(axis=-1)
    for query, takers in enumerate(visible & (alternative >= attention)):
        control[query, generator.choice(np.flatnonzero(takers))] += moved[query]
    return control


class AlternativeAttention(TextAnalysis):
    """Other attention maps with the same output, for one text; the table is described by ``SCHEMA``.

    Quantities: ``weight`` (the shown head's maps), ``distance`` of each query's alternative by ``method``, ``bound``
    that no distance exceeds and ``proved``, a lower one by a mixed-integer program (both of the shown head),
    ``freedom`` (dimensions of the null space; 0: there is no alternative), ``output_change`` (of the shown head,
    relative), ``logit_change`` (largest) and ``probability`` (of the class predicted before), with the shown head
    replaced and with all heads of all layers at once (``scope``).

    Args:
        example: Which example of the split, counted from 0.
        layer: Of the head that is shown, counted from 0.
        head: The head that is shown, counted from 0.
        heads: Of which heads to look for alternatives: ``all`` of all layers, or the ``shown`` one.
        starts: From how many starts to look for the shown head's.
        bound: Whether to bound the shown head's distances from above, which takes about two programs for every weight.
        proof_seconds: How long to try to prove the largest distance of each row of the shown head, by a program with
            whole numbers, and to find it; 0: not at all. Where it succeeds, ``proved`` is the ``distance``.
    """

    schema = SCHEMA

    def __init__(
        self,
        *,
        example: int = 0,
        layer: int = 0,
        head: int = 0,
        heads: str = "all",
        starts: int = 4,
        bound: bool = True,
        proof_seconds: float = 0,
    ) -> None:
        super().__init__(example=example)
        check_number("analysis.alternative_attention.starts", starts, 1)
        if heads not in get_args(Heads):
            raise UserError(f"analysis.alternative_attention.heads must be all or shown, got {heads!r}")
        check_flag("analysis.alternative_attention.bound", bound)
        self.layer = layer
        self.head = head
        self.heads = heads
        self.starts = starts
        if isinstance(proof_seconds, bool) or not isinstance(proof_seconds, int | float) or proof_seconds < 0:
            raise UserError(
                f"analysis.alternative_attention.proof_seconds must be a number of seconds from 0 on, "
                f"got {proof_seconds!r}"
            )
        self.bound = bound
        self.proof_seconds = float(proof_seconds)

    def setup(self, context: Context) -> Analysis:
        """Check that the model has the head that is shown."""
        super().setup(context)
        check_number("analysis.alternative_attention.layer", self.layer, 0, context.layers - 1)
        check_number("analysis.alternative_attention.head", self.head, 0, context.heads - 1)
        return self

    def look(self, trace: Trace) -> pd.DataFrame:
        """Search on the text alone, and write all that was found as rows."""
        alone = traced_alone(trace)
        return self._table_of(self._search(alone), alone.inputs["input_ids"][0])

    def _shapes(self, size: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each tensor that is found for a text of this length."""
        heads = self.context.layers, self.context.heads
        return {
            "weight": (len(SHOWN), size, size),
            "distance": (len(METHODS), *heads, size),
            "bounds": (size,),
            "proved": (size,),
            "freedom": heads,
            "output_change": (len(PUT_IN),),
            "logit_change": (len(PUT_IN), len(SCOPES)),
            "probability": (1 + len(PUT_IN), len(SCOPES)),
        }

    # --- what is found; NaN where nothing was looked for ---

    def _search(self, seen: Trace) -> dict[str, Tensor]:
        size = int(seen.lengths)
        found = {name: torch.full(shape, torch.nan, dtype=torch.float64) for name, shape in self._shapes(size).items()}
        maps = (
            torch.stack([torch.stack([layer.attention[0]] * len(PUT_IN)) for layer in seen.layers], dim=1)
            .cpu()
            .double()
        )
        replaced = torch.zeros(
            self.context.layers, self.context.heads, dtype=torch.bool
        )  # maps: (put in, layer, head, ...)
        generator = np.random.default_rng(self.context.seed)
        for layer, head in progress(self._searched(), "alternative attention", "heads"):
            attention, value, visible = _head(seen, layer, head)
            effort: Any = {"starts": self.starts} if (layer, head) == (self.layer, self.head) else _LIGHT
            made = alternative_maps(attention, value, visible, **effort, generator=generator)
            if self.proof_seconds > 0 and (layer, head) == (self.layer, self.head):
                found["proved"][:] = self._prove(attention, value, visible, made.program)
            control = control_map(attention, made.program, generator, visible)
            maps[:, layer, head] = torch.from_numpy(np.stack([made.program, control]))
            replaced[layer, head] = True
            found["freedom"][layer, head] = made.freedom
            found["distance"][:, layer, head] = torch.from_numpy(
                distance(np.stack([made.step, made.program]), attention[None])
            )
        self._add_shown(found, seen, maps)
        self._add_answers(found, seen, maps, replaced)
        return found

    def _prove(self, attention: np.ndarray, value: np.ndarray, visible: np.ndarray, program: np.ndarray) -> Tensor:
        """Bound each row's distance by a mixed-integer program, and write into ``program`` what it finds beyond."""
        rows = progress(spaces(value, visible), "proofs", "rows", total=len(attention))
        limits = torch.zeros(len(attention), dtype=torch.float64)
        for query, seen, space in rows:
            own = attention[query, seen]
            proof = furthest_proved(own, space, seconds=self.proof_seconds)
            if proof.distance > distance(program[query, seen], own):
                program[query, seen] = proof.weights
            limits[query] = max(proof.bound, float(distance(program[query, seen], own)))
        return limits

    def _searched(self) -> list[tuple[int, int]]:
        everything = list(product(range(self.context.layers), range(self.context.heads)))
        return everything if self.heads == "all" else [(self.layer, self.head)]

    def _add_shown(self, found: dict[str, Tensor], seen: Trace, maps: Tensor) -> None:
        attention, value, visible = _head(seen, self.layer, self.head)
        put_in = maps[:, self.layer, self.head]
        effective = seen.layers[self.layer].exact.effective[0, self.head].cpu().double()
        found["weight"][:] = torch.stack([torch.from_numpy(attention), put_in[0], effective])
        before = torch.from_numpy(attention @ value)
        change = (put_in @ torch.from_numpy(value) - before).flatten(1).norm(dim=1)
        found["output_change"][:] = change / before.norm().clamp_min(torch.finfo(torch.float64).tiny)
        if self.bound:
            limits = progress(bounds(attention, value, visible), "bounds", "rows", total=len(attention))
            found["bounds"][:] = torch.tensor(list(limits), dtype=torch.float64)

    def _add_answers(self, found: dict[str, Tensor], seen: Trace, maps: Tensor, replaced: Tensor) -> None:
        """Run the model with the other maps in place, in its own precision, and add what it answers."""
        only = torch.zeros_like(replaced)
        only[self.layer, self.head] = True
        scopes = [only, replaced] if self.heads == "all" else [only]
        task = self.context.task
        device = seen.logits.device
        has_classes = (
            seen.logits.ndim == 2 and seen.logits.shape[1] > 1 and not (task is not None and task.is_regression)
        )
        for place, heads in enumerate(scopes):
            logits = [replaced_logits(seen.model, seen.inputs, one.to(device), heads.to(device)) for one in maps]
            found["logit_change"][:, place] = (
                torch.stack([(one - seen.logits).abs().max() for one in logits]).cpu().double()
            )
            if has_classes:
                likely = (
                    torch.stack([seen.logits, *logits]).double().softmax(dim=-1)[:, 0, int(seen.logits[0].argmax())]
                )
                found["probability"][:, place] = likely.cpu()

    # --- the table ---

    def _table_of(self, found: dict[str, Tensor], ids: Tensor) -> pd.DataFrame:
        tables = [tidy(found[name], axes).assign(quantity=quantity) for quantity, name, axes in self._axes(len(ids))]
        table = pd.concat(tables, ignore_index=True)
        table = table[table["value"].notna()].reset_index(drop=True)
        shown = table["quantity"].isin(["weight", "bound", "proved", "output_change"])
        table.loc[shown, ["layer", "head"]] = self.layer, self.head
        table = table.astype(dict.fromkeys(("layer", "head", "query", "key"), "Int64"))
        tokens = dict(enumerate(self.context.tokenizer.convert_ids_to_tokens(ids.tolist())))
        for axis in ("query", "key"):
            table[f"{axis}_token"] = table[axis].map(tokens)
        return table.assign(examples=1)[SCHEMA.names]

    def _axes(self, size: int) -> list[tuple[str, str, dict[str, Any]]]:
        """Return each quantity, the tensor where it is found, and what its axes are."""
        places = {"layer": range(self.context.layers), "head": range(self.context.heads)}
        queries = {"query": range(size)}
        put_in = {"attention": PUT_IN}
        scopes = {"scope": SCOPES}
        return [
            ("weight", "weight", {"attention": SHOWN, **queries, "key": range(size)}),
            ("distance", "distance", {"method": METHODS, **places, **queries, "attention": ["alternative"]}),
            ("bound", "bounds", {**queries, "attention": ["alternative"]}),
            ("proved", "proved", {**queries, "attention": ["alternative"]}),
            ("freedom", "freedom", places),
            ("output_change", "output_change", put_in),
            ("logit_change", "logit_change", {**put_in, **scopes}),
            ("probability", "probability", {"attention": ["standard", *PUT_IN], **scopes}),
        ]


def _head(seen: Trace, layer: int, head: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return one head's attention, of sum 1 to double precision, its values and what each query sees."""
    attention, value, visible = head_rows(seen.layers[layer], range(seen.layers[layer].shape[2]))
    return attention[head], value[head], visible[head]
