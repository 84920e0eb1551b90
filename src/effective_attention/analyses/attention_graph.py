"""One example as a graph of attention: which nodes feed which, and what reaches one token from the input.

Abnar & Zuidema (2020), Fig. 1-3. ``raw`` is the graph itself: a layer's attention, heads averaged, without the
residual. ``rollout`` (their Eq. 1) and ``flow`` (maximum flow) add the residual and follow the chosen row's node, in
every layer, down to the input tokens. As in the paper, flow is normalised per node, so that the row of every layer sums
to 1.

Deviations: effective attention has negative weights, which a graph cannot have; ``convention`` says what becomes of
them, in each head before heads are averaged. The example is one of the split, or a text of the user's. In a causal
model rollout and flow are divided by what even attention would bring (``receptive_field``, see
``graphs.receptive_field``), as the paper asks for without saying how.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, TextAnalysis
from effective_attention.analyses.common.options import check_graph_options, is_whole_number
from effective_attention.analyses.common.schema import (
    CONVENTION,
    LAYER,
    RECEPTIVE_FIELD,
    Block,
    Column,
    Schema,
    attention_column,
)
from effective_attention.analyses.common.tables import name_tokens, tidy
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions.answer import answer_position
from effective_attention.errors import UserError
from effective_attention.graphs.conventions import RESIDUAL, Convention, trace_graph
from effective_attention.graphs.flow import attention_flow
from effective_attention.graphs.receptive_field import even_graph, over_even
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
        RECEPTIVE_FIELD,
        Column("examples", "how many texts were read: one", "whole", low=1, high=1),
    ),
    blocks=(
        Block({"method": "raw"}, _KEYS),  # every query
        Block({"method": ("rollout", "flow")}, _KEYS),  # the chosen query only
    ),
)


def row_maps(
    graph: Float[Tensor, "layer query key"],
    row: int,
    *,
    residual: float = RESIDUAL,
    even: Float[Tensor, "layer query key"] | None = None,
) -> dict[str, Float[Tensor, "layer key"]]:
    """Return what one position looks at, by layer: in the layer below (raw), in the input (rollout; flow, of sum 1).

    Args:
        graph: Attention, heads averaged, without the residual.
        row: The position.
        residual: Weight of the residual connection in rollout and flow, from 0 to 1.
        even: The graph of even attention, by which rollout and flow are divided; None: they are not.
    """
    found = _rollout_and_flow(graph, row, residual)
    if even is not None:
        mask_alone = _rollout_and_flow(even, row, residual)
        found = {name: over_even(values, mask_alone[name]) for name, values in found.items()}
    return {"raw": graph[:, row].cpu(), **found}


def _rollout_and_flow(graph: Tensor, row: int, residual: float) -> dict[str, Tensor]:
    graph = graph.cpu()  # where flow is found
    flow = attention_flow(graph, residual=residual, rows=[row])[:, 0]
    total = flow.sum(dim=-1, keepdim=True)
    normalised = torch.where(total > 0, flow / total.clamp_min(torch.finfo(flow.dtype).tiny), 0.0)
    return {"rollout": attention_rollout(graph, residual=residual)[:, row], "flow": normalised}


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
        row: The position whose rollout and flow are wanted; None: the token that the model answers from, [CLS] or, in
            a causal model, the last.
        residual: Weight of the residual connection, from 0 to 1.
        convention: What negative weights become: their ``absolute`` value, or 0 (``positive``); rows then sum to 1.
        receptive_field: Whether rollout and flow are divided by what even attention would bring; None: in a causal
            model.
    """

    schema = SCHEMA

    def __init__(
        self,
        *,
        example: int = 0,
        row: int | None = None,
        residual: float = RESIDUAL,
        convention: str = "absolute",
        receptive_field: bool | None = None,
    ) -> None:
        super().__init__(example=example)
        check_graph_options("attention_graph", residual, convention, receptive_field)
        self.receptive_field = receptive_field
        self.row = row
        self.residual = residual
        self.convention: Convention = convention  # type: ignore[assignment]

    def setup(self, context: Context) -> Analysis:
        """Check, as far as that is known, that the text has the position."""
        super().setup(context)
        self._check_row(context.max_length if context.text is None else int(context.text.trace.lengths[0]))
        return self

    def _check_row(self, length: int) -> None:
        if self.row is not None and (not is_whole_number(self.row, 0) or self.row >= length):
            raise UserError(
                f"analysis.attention_graph.row must be null or a token of the text, from 0 to {length - 1}, "
                f"got {self.row!r}"
            )

    def look(self, trace: Trace) -> pd.DataFrame:
        """Write the whole graph, and the chosen position's rollout and flow, as rows."""
        self._check_row(int(trace.lengths[0]))
        graphs = example_graph(trace, 0, self.convention)
        row = int(answer_position(trace)[0]) if self.row is None else self.row
        divided = self.context.causal if self.receptive_field is None else self.receptive_field
        even = even_graph(trace)[0] if divided else None
        parts = [
            part
            for name, graph in zip(ATTENTIONS, graphs, strict=True)
            for part in self._tables(name, graph, row_maps(graph, row, residual=self.residual, even=even), row)
        ]
        said = {"convention": self.convention, "receptive_field": divided, "examples": 1}
        table = pd.concat(parts, ignore_index=True).assign(**said)
        name_tokens(table, trace, self.context.tokenizer)
        return table[SCHEMA.names]

    def _tables(self, attention: str, graph: Tensor, maps: dict[str, Tensor], row: int) -> list[pd.DataFrame]:
        """Return the tables of one attention: the whole graph, then the chosen query's rollout and flow."""
        layers, size, _ = graph.shape
        shown = {"raw": (graph, range(size))} | {name: (maps[name][:, None], [row]) for name in ("rollout", "flow")}
        axes = {"layer": range(layers), "key": range(size)}
        return [
            tidy(
                values,
                {"attention": [attention], "method": [name], "layer": axes["layer"], "query": rows, "key": axes["key"]},
            )
            for name, (values, rows) in shown.items()
        ]
