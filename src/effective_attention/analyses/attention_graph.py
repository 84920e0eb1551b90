"""One example as a graph of attention: which nodes feed which, and what reaches one token from the input.

Abnar & Zuidema (2020), Fig. 1-3. ``raw`` is the graph itself: a layer's attention, heads averaged, without the
residual. ``rollout`` (their Eq. 1) and ``flow`` (maximum flow) add the residual and follow the chosen row's node, in
every layer, down to the input tokens. As in the paper, flow is normalised per node, so that the row of every layer sums
to 1.

Deviations: effective attention has negative weights, which a graph cannot have; ``convention`` says what becomes of
them, in each head before heads are averaged. The example is one of the split, or a text of the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, check_example, name_tokens, tidy
from effective_attention.analyses.common.schema import CONVENTION, LAYER, Block, Column, Schema, attention_column
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.errors import UserError
from effective_attention.graphs.conventions import RESIDUAL, Convention, trace_graph
from effective_attention.graphs.flow import attention_flow
from effective_attention.graphs.rollout import attention_rollout

METHODS = ("raw", "rollout", "flow")
_KEYS = ("attention", "layer", "query", "key")
SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        Column(
            "method", "raw: attention to the layer below; rollout, flow: down to the input", "name", METHODS, key=True
        ),
        LAYER,
        Column("query", "position of the token that attends, counted from 0", "whole", low=0, key=True),
        Column("key", "position of the token attended to, counted from 0", "whole", low=0, key=True),
        Column("query_token", "the token at the position query", "name"),
        Column("key_token", "the token at the position key", "name"),
        Column("value", "weight, heads averaged; the weights of a query in a layer sum to 1", low=0, high=1),
        CONVENTION,
        Column("examples", "how many texts were read: one", "whole", low=1, high=1),
    ),
    blocks=(
        Block({"method": "raw"}, _KEYS),  # every query
        Block({"method": ("rollout", "flow")}, _KEYS),  # the chosen query only
    ),
)


def row_maps(
    graph: Float[Tensor, "layer query key"], row: int, *, residual: float = RESIDUAL
) -> dict[str, Float[Tensor, "layer key"]]:
    """Return what one position looks at, by layer: in the layer below (raw), in the input (rollout; flow, of sum 1).

    Args:
        graph: Attention, heads averaged, without the residual.
        row: The position.
        residual: Weight of the residual connection in rollout and flow, from 0 to 1.
    """
    graph = graph.cpu()  # where flow is found
    flow = attention_flow(graph, residual=residual, rows=[row])[:, 0]
    total = flow.sum(dim=-1, keepdim=True)
    normalised = torch.where(total > 0, flow / total.clamp_min(torch.finfo(flow.dtype).tiny), 0.0)
    return {"raw": graph[:, row], "rollout": attention_rollout(graph, residual=residual)[:, row], "flow": normalised}


def example_graph(trace: Trace, row: int, convention: Convention) -> Float[Tensor, "attention layer query key"]:
    """Return one example's graphs, standard and effective, without padding."""
    places = trace.mask[row].nonzero()[:, 0]
    graphs = [trace_graph(trace, part, convention)[row] for part in ATTENTIONS]
    return torch.stack(graphs)[:, :, places][..., places]


def check_graph_options(analysis: str, residual: object, convention: object) -> None:
    """Refuse wrong values of the two options that every analysis of graphs has.

    Raises:
        UserError: One of them is wrong.
    """
    if not isinstance(residual, int | float) or isinstance(residual, bool) or not 0 <= residual <= 1:
        raise UserError(
            f"analysis.{analysis}.residual must be a number from 0 to 1, got {residual!r}; the paper's is 0.5"
        )
    if convention not in get_args(Convention):
        raise UserError(
            f"analysis.{analysis}.convention must be one of {', '.join(get_args(Convention))}, got {convention!r}"
        )


class AttentionGraph(Analysis):
    """One text as a graph; the table is described by ``SCHEMA``.

    ``raw`` has all queries, ``rollout`` and ``flow`` the chosen one.

    Args:
        context: The model and the split; with ``context.text`` that text is shown and the split not read.
        example: Which example of the split, counted from 0.
        row: The position whose rollout and flow are wanted; 0 is [CLS].
        residual: Weight of the residual connection, from 0 to 1.
        convention: What negative weights become: their ``absolute`` value, or 0 (``positive``); rows then sum to 1
            again.
    """

    def __init__(
        self,
        context: Context,
        *,
        example: int = 0,
        row: int = 0,
        residual: float = RESIDUAL,
        convention: str = "absolute",
    ) -> None:
        super().__init__(context)
        check_graph_options("attention_graph", residual, convention)
        check_example("analysis.attention_graph.example", example, context)
        self.example, self.row, self.residual = example, row, residual
        self.convention: Convention = convention  # type: ignore[assignment]
        self._check_row(context.max_length if context.text is None else int(context.text.lengths[0]))
        self.add_sum("graph", len(ATTENTIONS), context.layers, context.max_length, context.max_length)
        self.add_state("ids", torch.zeros(context.max_length, dtype=torch.long), dist_reduce_fx="sum")
        self.add_state("length", torch.tensor(0), dist_reduce_fx="sum")

    def _check_row(self, length: int) -> None:
        if not isinstance(self.row, int) or isinstance(self.row, bool) or not 0 <= self.row < length:
            raise UserError(
                f"analysis.attention_graph.row must be a token of the text, from 0 to {length - 1}, got {self.row!r}"
            )

    def wants(self, indices: Sequence[int]) -> bool:
        return self.context.text is None and self.example in indices

    def update(self, trace: Trace) -> None:
        for row in (trace.inputs["index"] == self.example).nonzero()[:, 0].tolist():
            size = int(trace.lengths[row])
            self.graph[:, :, :size, :size] = example_graph(trace, row, self.convention)
            self.ids[:size] = trace.inputs["input_ids"][row][trace.mask[row]]
            self.length += size

    def compute(self) -> pd.DataFrame:
        text, size = self.context.text, int(self.length)
        if text is not None:
            graph, ids = example_graph(text, 0, self.convention), text.inputs["input_ids"][0][text.mask[0]]
        elif size > 0:
            graph, ids = self.graph[:, :, :size, :size], self.ids[:size]
        else:  # no process was shown the example
            return pd.DataFrame(columns=SCHEMA.names)
        self._check_row(len(ids))
        parts = [part for name, mine in zip(ATTENTIONS, graph, strict=True) for part in self._tables(name, mine)]
        table = pd.concat(parts, ignore_index=True).assign(convention=self.convention, examples=1)
        name_tokens(table, ids, self.context.tokenizer)
        return table[SCHEMA.names]

    def _tables(self, attention: str, graph: Tensor) -> list[pd.DataFrame]:
        """Return the tables of one attention: the whole graph, then the chosen query's rollout and flow."""
        layers, size, _ = graph.shape
        maps = row_maps(graph, self.row, residual=self.residual)
        shown = {"raw": (graph, range(size))} | {
            name: (maps[name][:, None], [self.row]) for name in ("rollout", "flow")
        }
        axes = {"layer": range(layers), "key": range(size)}
        return [
            tidy(
                values,
                {"attention": [attention], "method": [name], "layer": axes["layer"], "query": rows, "key": axes["key"]},
            )
            for name, (values, rows) in shown.items()
        ]
