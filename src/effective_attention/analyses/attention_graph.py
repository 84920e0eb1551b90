"""One example as a graph of attention: which nodes feed which, and what reaches one token from the input.

Abnar & Zuidema (2020), Fig. 1-3. ``raw`` is the graph itself: a layer's attention, heads averaged, without the
residual. ``rollout`` (their Eq. 1) and ``flow`` (maximum flow) add the residual and follow the chosen row's node, in
every layer, down to the input tokens. As in the paper, flow is normalised per node, so that the row of every layer sums
to 1.

Deviations: effective attention has negative weights, which a graph cannot have; ``convention`` says what becomes of
them, in each head before heads are averaged. The example is one of the split, or a text of the user's. In a causal
model rollout and flow are divided by what even attention would bring (``receptive_field``, see
``graphs.receptive_field``), as the paper asks for without saying how.

The paper also shows a misclassified example, without saying how it was chosen. ``example=worst`` shows the one whose
right class has the lowest probability (of equals the first): a misclassified one, if any is.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from effective_attention.processes import gather

WORST = "worst"
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
        Column(
            "example", "which text of the split, counted from 0; empty: the user's own", "whole", low=0, missing=True
        ),
        Column("gold", "the right class, where the task has classes and the text a label", "name", missing=True),
        Column("predicted", "the model's class, likewise", "name", missing=True),
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
        example: Which example of the split, counted from 0, or ``worst``; not read where the user wrote a text.
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
        example: int | str = 0,
        row: int | None = None,
        residual: float = RESIDUAL,
        convention: str = "absolute",
        receptive_field: bool | None = None,
    ) -> None:
        if isinstance(example, str) and example != WORST:
            raise UserError(f"analysis.attention_graph.example must be a number or {WORST}, got {example!r}")
        super().__init__(example=0 if isinstance(example, str) else example)
        self.worst = example == WORST
        check_graph_options("attention_graph", residual, convention, receptive_field)
        self.receptive_field = receptive_field
        self.row = row
        self.residual = residual
        self.convention: Convention = convention  # type: ignore[assignment]

    def setup(self, context: Context) -> Analysis:
        """Check, as far as that is known, that the text has the position."""
        super().setup(context)
        self._lowest: tuple[float, int] | None = None  # probability of the right class, and the example's number
        task = context.task
        if self.worst and context.text is None and (task is None or not task.labels):
            raise UserError(
                f"analysis.attention_graph.example={WORST} needs a task with classes; give a number instead"
            )
        self._check_row(context.max_length if context.text is None else int(context.text.trace.lengths[0]))
        return self

    def _check_row(self, length: int) -> None:
        if self.row is not None and (not is_whole_number(self.row, 0) or self.row >= length):
            raise UserError(
                f"analysis.attention_graph.row must be null or a token of the text, from 0 to {length - 1}, "
                f"got {self.row!r}"
            )

    def wants(self, indices: Sequence[int]) -> bool:
        return super().wants(indices) if not self.worst else self.context.text is None

    def update(self, trace: Trace) -> None:
        """Look at the chosen example, or at each that is worse than all before it."""
        if not self.worst:
            super().update(trace)
            return
        if "labels" not in trace.inputs:
            raise UserError(f"analysis.attention_graph.example={WORST} needs labels; this split has none")
        right = trace.logits.double().softmax(dim=-1).gather(1, trace.inputs["labels"].long()[:, None])[:, 0]
        chance, index, place = min(zip(right.tolist(), trace.inputs["index"].tolist(), range(len(right)), strict=True))
        if self._lowest is None or (chance, index) < self._lowest:
            self._lowest = chance, index
            self._table = self.look(trace.example(place))

    def compute(self) -> pd.DataFrame:
        if not self.worst or self.context.text is not None:
            return super().compute()
        found = [both for both in gather((self._lowest, self._table)) if both[0] is not None]
        return min(found, key=lambda both: both[0])[1] if found else pd.DataFrame(columns=SCHEMA.names)

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
        said = {"convention": self.convention, "receptive_field": divided, "examples": 1, **self._answer(trace)}
        table = pd.concat(parts, ignore_index=True).assign(**said)
        name_tokens(table, trace, self.context.tokenizer)
        return table.astype({"example": "Int64"})[SCHEMA.names]

    def _answer(self, trace: Trace) -> dict[str, object]:
        """Tell which example it is, its class and the model's, as far as there are any."""
        index = None if self.context.text is not None else int(trace.inputs["index"][0])
        labels = () if self.context.task is None else tuple(self.context.task.labels)
        if not labels or trace.logits is None or trace.logits.ndim != 2 or trace.logits.shape[-1] != len(labels):
            return {"example": index, "gold": None, "predicted": None}
        gold = trace.inputs.get("labels")
        named = {"gold": None if gold is None or index is None else labels[int(gold[0])]}
        return {"example": index, **named, "predicted": labels[int(trace.logits[0].argmax())]}

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
