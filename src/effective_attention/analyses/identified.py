"""How much of a head's attention is determined by what the head does?

Where a text has more tokens than a head has value dimensions (and one), other distributions have the same output
(Brunner et al. 2020, section 3.3). Over all of them each weight has an exact interval, from two linear programs
(``attention.polytope``), and the model's own weight is somewhere inside: an error bar of attention as an explanation.
Nothing that a head does tells two points of the interval apart.

On a random sample of examples and of each one's queries, for every head and type of key:

- ``value``: weight on the keys of the type, mean over queries that see one; ``low`` and ``high``: the least and the
  most that their sum can be, mean over the same queries. Types are those of ``token_type_profile``, and ``first``, the
  first token of a text that is not [CLS].
- ``necessary``: share of the keys whose lower end is above 1e-6: every distribution with this output looks at them.
- ``identified``: sum of the lower ends of single weights over sum of the weights: 1 where nothing could be elsewhere.

One row is shown, key by key. And both ends of some random intervals are put into the model, in place of the head's own
row: the logits stay as they were. The check could fail: ``control_change`` is that of rows in which as much weight is
taken from the same keys, but all of it given to one.

Ours; the intervals are proved in double precision, for the values and the weights that the model computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from effective_attention.analyses.common.alone import HeadRows, head_rows, traced_alone
from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_example, check_number
from effective_attention.analyses.common.samples import sample
from effective_attention.analyses.common.schema import HEAD, LAYER, Block, Column, Schema, count_column
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.analyses.common.tokens import period_and_comma_ids, token_types
from effective_attention.attention.polytope import RowPolytope, intervals, sum_intervals
from effective_attention.attention.replacement import logits_with
from effective_attention.attention.row_space import reached_by
from effective_attention.attention.trace import Trace
from effective_attention.attributions.answer import answer_position
from effective_attention.errors import UserError
from effective_attention.processes import gather

TARGETS = ("cls", "sep", "first", "punctuation", "other")
_SUMS = ("weight", "low", "high", "ends", "necessary", "keys")  # ends: the sum of the keys' own lower ends
NECESSARY = 1e-6
QUANTITIES = ("weight", "row", "logit_change", "control_change")
SCHEMA = Schema(
    (
        Column("quantity", "what the row is; see the blocks", "name", QUANTITIES, key=True),
        replace(LAYER, missing=True),
        replace(HEAD, missing=True),
        Column("target", "type of the keys; all: every key", "name", (*TARGETS, "all"), key=True, missing=True),
        Column("query", "position of the token that attends, counted from 0", "whole", low=0, key=True, missing=True),
        Column("key", "position of the token attended to, counted from 0", "whole", low=0, key=True, missing=True),
        Column("query_token", "the token at the position query", "name", missing=True),
        Column("key_token", "the token at the position key", "name", missing=True),
        Column("value", "weight on the type, mean over queries; of a row, on the key; or largest change of a logit"),
        Column("low", "least that it can be with the same output, mean over the same", low=0, missing=True),
        Column("high", "most that it can be", low=0, missing=True),
        Column("necessary", "share of the keys whose lower end is above 1e-6", low=0, high=1, missing=True),
        Column("identified", "sum of single lower ends over sum of weights", low=0, high=1, missing=True),
        count_column("queries (or ends put into the model)"),
        Column("examples", "how many texts were looked at; of the row that is shown, one", "whole", low=0),
    ),
    blocks=(
        Block({"quantity": "weight"}, ("layer", "head", "target")),
        Block({"quantity": "row"}, ("layer", "head", "query", "key"), ("value", "low", "high")),
        Block({"quantity": ("logit_change", "control_change")}, (), ("value",)),
    ),
)


class Identified(SplitAnalysis):
    """Intervals of attention weights over all distributions with the same output; ``SCHEMA`` describes the table.

    Args:
        examples: How many random examples to look at; None: all.
        queries: How many random queries of each.
        put_in: How many random intervals to try in the model, both ends of each; 0: none.
        example: Which example's row to show, counted from 0.
        layer: Of the row; None: the last.
        head: Of the row.
        query: Position of its token; None: the token that the answer is read from.
    """

    schema = SCHEMA
    resampled = False  # a few rows of a few examples
    stacks = ("decoder", "cross")
    changes: Tensor

    def __init__(
        self,
        *,
        examples: int | None = 8,
        queries: int = 4,
        put_in: int = 8,
        example: int = 0,
        layer: int | None = None,
        head: int = 0,
        query: int | None = None,
    ) -> None:
        super().__init__()
        if examples is not None:
            check_number("analysis.identified.examples", examples, 1)
        check_number("analysis.identified.queries", queries, 1)
        check_number("analysis.identified.put_in", put_in, 0)
        self.examples, self.queries, self.put_in = examples, queries, put_in
        self.example, self.layer, self.head, self.query = example, layer, head, query
        self._shown: pd.DataFrame | None = None

    def setup(self, context: Context) -> Analysis:
        """Draw the sample, find periods and commas, and start sums for each head and type of key."""
        super().setup(context)
        if context.tokenizer is None:
            raise UserError("analysis identified needs a tokenizer, to tell the types of tokens")
        check_example("analysis.identified.example", self.example, context)
        if self.layer is not None:
            check_number("analysis.identified.layer", self.layer, 0, context.layers - 1)
        check_number("analysis.identified.head", self.head, 0, context.heads - 1)
        if self.query is not None:
            lengths = context.split.lengths
            longest = None if lengths is None else int(lengths[self.example]) - 1
            check_number("analysis.identified.query", self.query, 0, longest)
        self.marks = torch.tensor(period_and_comma_ids(context.tokenizer.get_vocab()), dtype=torch.long)
        self.chosen = sample(context, self.examples).numpy()
        self.tried = self._draw()
        self.add_sum("total", len(_SUMS), context.layers, context.heads, len(TARGETS))
        self.add_sum("rows", context.layers, context.heads, len(TARGETS))
        self.add_sum("ends")
        self.add_sum("texts")
        self.add_state("changes", torch.zeros(2, dtype=torch.float64), dist_reduce_fx="max")  # by ends, by controls
        self._shown = None
        return self

    def _draw(self) -> dict[int, list[list[float]]]:
        """Draw intervals to try: for some of the examples, shares of the way through layers, heads, queries, keys."""
        random = np.random.default_rng(self.context.seed)
        drawn: dict[int, list[list[float]]] = {}
        for example in random.choice(np.flatnonzero(self.chosen), self.put_in).tolist():
            drawn.setdefault(example, []).append(random.random(4).tolist())
        return drawn

    def reset(self) -> None:
        """Set all states back to nothing."""
        super().reset()
        self._shown = None

    def wants(self, indices: Sequence[int]) -> bool:
        """Ask for batches that have an example of the sample, or the one that is shown."""
        return any(self.chosen[index] or index == self.example for index in indices)

    def update(self, trace: Trace) -> None:
        types = self._types(trace.keys)
        for place, index in enumerate(trace.inputs["index"].tolist()):
            if self.chosen[index] or index == self.example:
                alone = traced_alone(trace, place) if trace.stack is None else trace.example(place)
                answer = int(answer_position(trace)[place] - trace.mask[place].int().argmax())
                if self.chosen[index]:
                    self._count(alone, types[place][trace.keys.mask[place]].cpu().numpy().T, index)
                if index == self.example:
                    self._shown = self._show(alone, answer)
                if trace.stack is None:
                    self._try(alone, self.tried.get(index, []))

    def _types(self, keys: Trace) -> Tensor:
        """(batch, key, type), of which a real token has exactly one and padding none."""
        cls, sep, marks, other = token_types(keys, self.marks).unbind(dim=-1)
        first = torch.zeros_like(other)
        first[torch.arange(len(first)), keys.mask.int().argmax(dim=-1)] = True
        first = first & (marks | other)
        return torch.stack([cls, sep, first, marks & ~first, other & ~first], dim=-1)

    # --- what is found ---

    def _count(self, alone: Trace, types: np.ndarray, index: int) -> None:
        """Add the intervals of some random queries of one text."""
        self.texts += 1
        every = alone.layers[0].shape[2]
        random = np.random.default_rng([self.context.seed, index])
        queries = np.sort(random.choice(every, min(self.queries, every), replace=False)).tolist()
        for number, layer in enumerate(alone.layers):
            sums, keys = interval_sums(head_rows(layer, queries), types)
            self.total[:, number] += torch.from_numpy(sums).to(self.total)
            self.rows[number] += torch.from_numpy(keys).to(self.rows)

    def _show(self, alone: Trace, answer: int) -> pd.DataFrame:
        """Return the row that is shown, key by key, over the keys that its query sees."""
        layer = self.context.layers - 1 if self.layer is None else self.layer
        query = answer if self.query is None else self.query
        attention, value, visible = (
            part[self.head : self.head + 1] for part in head_rows(alone.layers[layer], [query])
        )
        low, high = intervals(attention, value, visible)
        names = [
            self.context.tokenizer.convert_ids_to_tokens(one.inputs["input_ids"][0].tolist())
            for one in (alone, alone.keys)
        ]
        seen = np.flatnonzero(visible[0, 0])
        return pd.DataFrame({"key": seen, "key_token": [names[1][key] for key in seen]}).assign(
            quantity="row", layer=layer, head=self.head, query=query, query_token=names[0][query], count=1,
            value=attention[0, 0, seen], low=low[0, 0, seen], high=high[0, 0, seen],
        )  # fmt: skip

    def _try(self, alone: Trace, drawn: Sequence[Sequence[float]]) -> None:
        """Put both ends of the drawn intervals into the model, and note the largest change of a logit."""
        for shares in drawn:
            sizes = (len(alone.layers), *alone.layers[0].shape[1:3])
            layer, head, query = (int(share * size) for share, size in zip(shares, sizes, strict=False))
            attention, value, visible = (part[head] for part in head_rows(alone.layers[layer], [query]))
            seen = np.flatnonzero(visible[0])
            if len(seen) > 0:
                own, key = attention[0, seen], int(shares[3] * len(seen))
                for end in RowPolytope(own, reached_by(value[seen])).ends(key):
                    rows = end, _control(own, end, key)
                    logits = torch.stack([logits_with_row(alone, layer, head, query, seen, row) for row in rows])
                    change = (logits - alone.logits).abs().flatten(1).amax(dim=1)
                    self.changes = torch.maximum(self.changes, change.to(self.changes))
                    self.ends += 1

    # --- the table ---

    def compute(self) -> pd.DataFrame:
        tables = [self._profile(), *[table for table in gather(self._shown) if table is not None][:1]]
        if int(self.ends) > 0:
            tables.append(
                pd.DataFrame({"quantity": QUANTITIES[2:], "value": self.changes.tolist(), "count": int(self.ends)})
            )
        table = pd.concat(tables, ignore_index=True).reindex(columns=SCHEMA.names)
        table["examples"] = np.where(table["quantity"] == "row", 1, int(self.texts))
        whole_numbers = dict.fromkeys(("layer", "head", "query", "key", "count", "examples"), "Int64")
        return table.astype({**whole_numbers, "query_token": "object", "key_token": "object"})

    def _profile(self) -> pd.DataFrame:
        """Write the sums over types as means, with a line for all types together."""
        total = torch.cat([self.total, self.total.sum(dim=-1, keepdim=True)], dim=-1)
        rows = torch.cat([self.rows, self.rows.amax(dim=-1, keepdim=True)], dim=-1)
        weight, low, high, ends, necessary, keys = total
        low[..., -1], high[..., -1] = weight[..., -1], weight[..., -1]  # the weights of a row sum to 1, whatever it is
        names = {"layer": range(self.context.layers), "head": range(self.context.heads), "target": (*TARGETS, "all")}
        table = tidy(
            mean_over(weight, rows), names, low=mean_over(low, rows), high=mean_over(high, rows),
            necessary=necessary / keys, identified=(ends / weight).clamp(0, 1), count=rows.long(),
        )  # fmt: skip
        return table[table["count"] > 0].reset_index(drop=True).assign(quantity="weight")


def interval_sums(rows: HeadRows, types: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum over rows, for each head and type of key, what ``Identified`` needs.

    Args:
        rows: Attention (head, query, key), values and what is seen.
        types: (type, key), of which each key has one.

    Returns:
        The sums of ``_SUMS``, (sum, head, type), and how many rows see a key of the type, (head, type).
    """
    attention, value, visible = rows
    low, _ = intervals(attention, value, visible)
    least, most = sum_intervals(attention, value, visible, types)
    by_key = np.stack([attention, low, (low > NECESSARY) & visible, visible]).astype(float)  # (sum, head, query, key)
    weight, ends, necessary, keys = (by_key @ types.T.astype(float)).sum(axis=2)
    sees = (visible[:, :, None] & types).any(axis=-1).sum(axis=1)
    return np.stack([weight, least.sum(axis=1), most.sum(axis=1), ends, necessary, keys]), sees


def _control(own: np.ndarray, end: np.ndarray, key: int) -> np.ndarray:
    """Take the same weights from the same keys as ``end`` does, and give all to a key that lost nothing."""
    control = np.minimum(own, end)
    takers = np.flatnonzero(end >= own)
    control[takers[key % len(takers)]] += own.sum() - control.sum()
    return control


def logits_with_row(alone: Trace, layer: int, head: int, query: int, seen: np.ndarray, row: np.ndarray) -> Tensor:
    """Return the model's answer with another row in the place of one query's."""

    def put_in(call, own):  # type: ignore[no-untyped-def]
        if call.number != layer:
            return own
        changed = own.clone()
        changed[:, head, query, torch.from_numpy(seen).to(own.device)] = torch.from_numpy(row).to(own)
        return changed

    return logits_with(alone.model, alone.inputs, put_in)
