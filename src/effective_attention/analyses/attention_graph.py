"""One example as a graph of attention: which nodes feed which, and what reaches one token from the input.

Abnar & Zuidema (2020), Fig. 1-3. ``raw`` is the graph itself: a layer's attention, heads averaged, without the
residual. ``rollout`` (their Eq. 1) and ``flow`` (maximum flow) add the residual and follow the chosen row's node, in
every layer, down to the input tokens. As in the paper, flow is normalised per node, so that the row of every layer sums
to 1.

Deviations: effective attention has negative weights, which a graph cannot have; ``convention`` says what becomes of
them, in each head before heads are averaged. The example is one of the split, or a text of the user's.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, TextAnalysis
from effective_attention.analyses.common.options import check_graph_options, is_whole_number
from effective_attention.analyses.common.schema import CONVENTION, LAYER, Block, Column, Schema, attention_column
from effective_attention.analyses.common.tables import name_tokens, tidy
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


class AttentionGraph(TextAnalysis):
    """One text as a graph; the table is described by ``SCHEMA``.

    ``raw`` has all queries, ``rollout`` and ``flow`` the chosen one.

    Args:
        example: Which example of the split, counted from 0; not read where the user wrote a text.
        row: The position whose rollout and flow are wanted; 0 is [CLS].
        residual: Weight of the residual connection, from 0 to 1.
        convention: What negative weights become: their ``absolute`` value, or 0 (``positive``); rows then sum to 1.
    """

    schema = SCHEMA

    def __init__(
        self, *, example: int = 0, row: int = 0, residual: float = RESIDUAL, convention: str = "absolute"
    ) -> None:
        super().__init__(example=example)
        check_graph_options("attention_graph", residual, convention)
        self.row = row
        self.residual = residual
        self.convention: Convention = convention  # type: ignore[assignment]

    def setup(self, context: Context) -> Analysis:
        """Check, as far as that is known, that the text has the position."""
        super().setup(context)
        self._check_row(context.max_length if context.text is None else int(context.text.trace.lengths[0]))
        return self

    def _check_row(self, length: int) -> None:
        if not is_whole_number(self.row, 0) or self.row >= length:
            raise UserError(
                f"analysis.attention_graph.row must be a token of the text, from 0 to {length - 1}, got {self.row!r}"
            )

    def look(self, trace: Trace) -> pd.DataFrame:
        """Write the whole graph, and the chosen position's rollout and flow, as rows."""
        self._check_row(int(trace.lengths[0]))
        graphs = example_graph(trace, 0, self.convention)
        parts = [part for name, graph in zip(ATTENTIONS, graphs, strict=True) for part in self._tables(name, graph)]
        table = pd.concat(parts, ignore_index=True).assign(convention=self.convention, examples=1)
        name_tokens(table, trace.inputs["input_ids"][0], self.context.tokenizer)
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
