"""Do conclusions about rollout and flow survive the protocol by which they are compared with raw attention?

Abnar & Zuidema (2020) conclude that rollout and flow agree more with blank-out and with input gradients than raw
attention does. Their text leaves open how, and their code decides otherwise than we did (``common.protocol``). Here the
same examples are compared in every way: ``gradient`` (of the gradients only), ``query``, ``ties`` and ``delimiters``.
Each attention map, gradient and blanked text is computed once for all of them.

The rows ``rollout - raw``, ``flow - raw`` and ``flow - rollout`` are means of differences by example, so that their
intervals are paired: the same examples are drawn for both. A conclusion is sure where such an interval excludes 0.

The target is the same in all combinations (an option, the predicted class by default), though the published code
differentiates the logit of class 0. So the combination of the paper's code is its protocol but for the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.common import schema
from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_graph_options, check_limit, check_one_of
from effective_attention.analyses.common.protocol import (
    DELIMITERS,
    GRADIENT,
    GRADIENTS,
    QUERIES,
    QUERY,
    TARGET,
    TARGETS,
    TIES,
    TIES_COLUMN,
    Target,
    no_sum,
    targets,
)
from effective_attention.analyses.common.samples import in_sample, only, sample, slots
from effective_attention.analyses.common.tables import over_examples
from effective_attention.analyses.common.tokens import written
from effective_attention.attention.trace import Part, Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions.blank_out import blank_out
from effective_attention.attributions.flow import flow_maps
from effective_attention.attributions.gradients import input_gradient
from effective_attention.attributions.perturbations import blank_id
from effective_attention.attributions.ranking import correlate
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.rollout import rollout_maps
from effective_attention.attributions.shared_work import Settings, SharedWork
from effective_attention.attributions.summed_gradient import summed_gradient
from effective_attention.graphs.conventions import RESIDUAL, Convention

METHODS = ("raw", "rollout", "flow")
DIFFERENCES = ("rollout - raw", "flow - raw", "flow - rollout")
REFERENCES = ("gradients", "blank_out")
_WORTHS = (*(("gradients", name) for name in GRADIENTS), ("blank_out", None))
"""Reference and gradient of each measure of what a token is worth."""
_PAIRS = 2**19  # of tokens in a layer's maps at once, in double precision: 4 MB a layer for each of a few
_WAYS = ("query", "ties", "delimiters")


def _key(column: schema.Column, *, missing: bool = False) -> schema.Column:
    return schema.Column(column.name, column.meaning, column.kind, column.values, key=True, missing=missing)


SCHEMA = schema.Schema(
    (
        schema.attention_column(*ATTENTIONS),
        schema.Column(
            "method",
            "raw, rollout or flow, or how far one is above another",
            "name",
            (*METHODS, *DIFFERENCES),
            key=True,
        ),
        schema.LAYER,
        schema.Column("reference", "what it is compared with", "name", REFERENCES, key=True),
        _key(GRADIENT, missing=True),
        _key(QUERY),
        _key(TIES_COLUMN),
        _key(DELIMITERS),
        schema.Column("value", "mean correlation over examples, or mean difference of two", low=-2, high=2),
        schema.Column("std", "standard deviation over examples", low=0),
        schema.Column("low", "lower end of the mean's 95 % bootstrap interval; the same draws for all rows"),
        schema.Column("high", "upper end of the mean's 95 % bootstrap interval"),
        schema.count_column("examples"),
        TARGET,
        schema.RECEPTIVE_FIELD,
        schema.CONVENTION,
        schema.Column("examples", "how many examples were compared: the sample", "whole", low=0),
    ),
    blocks=(
        schema.Block({"reference": "gradients"}, ("attention", "method", "layer", "gradient", *_WAYS)),
        schema.Block({"reference": "blank_out"}, ("attention", "method", "layer", *_WAYS)),
    ),
)


class Protocols(SplitAnalysis):
    """Agreement of raw attention, rollout and flow by every protocol; the table is described by ``SCHEMA``.

    Args:
        limit: How many random examples; None: all.
        target: The class that is explained: ``predicted``, ``correct``, or ``first``.
        residual: Weight of the residual connection in rollout and flow.
        convention: What becomes of negative weights: ``absolute`` or ``positive``.
        receptive_field: Whether rollout and flow are divided by what even attention would bring; None: in a causal
            model.
    """

    schema = SCHEMA
    resampled = False  # has intervals of its own

    needs_answer = True
    needs_embeddings = True

    def __init__(
        self,
        *,
        limit: int | None = 100,
        target: Target = "predicted",
        residual: float = RESIDUAL,
        convention: Convention = "absolute",
        receptive_field: bool | None = None,
    ) -> None:
        super().__init__()
        check_limit("analysis.protocols.limit", limit)
        check_one_of("analysis.protocols.target", target, TARGETS)
        check_graph_options("protocols", residual, convention, receptive_field)
        self.limit = limit
        self.target = target
        self.needs_labels = target == "correct"
        self.residual = residual
        self.convention = convention
        self.receptive_field = receptive_field

    def obstacle(self, context: Context) -> str | None:
        """Say so where the model has no gradients to sum."""
        return super().obstacle(context) or no_sum(context)

    def setup(self, context: Context) -> Analysis:
        """Draw the sample, and make room for one number per example and place."""
        super().setup(context)
        divided = context.causal if self.receptive_field is None else self.receptive_field
        self.settings = Settings(
            blank_id(context.tokenizer), None, self.residual, self.convention, receptive_field=divided
        )
        self.used = sample(context, self.limit)
        self.axes = {
            "attention": ATTENTIONS,
            "method": (*METHODS, *DIFFERENCES),
            "layer": range(context.layers),
            "worth": range(len(_WORTHS)),
            "query": QUERIES,
            "ties": TIES,
            "delimiters": (False, True),
        }
        self.add_sum("values", int(self.used.sum()), *(len(names) for names in self.axes.values()))
        self.add_sum("filled", int(self.used.sum()))
        return self

    def wants(self, indices: Sequence[int]) -> bool:
        return bool(self.used[list(indices)].any())

    def update(self, trace: Trace) -> None:
        for part in _parts(trace, in_sample(self.used, trace)):
            places = slots(self.used, part).to(self.values.device)
            self.values[places] = self._measure(part).to(self.values)
            self.filled[places] = 1

    def _measure(self, trace: Trace) -> Float[Tensor, "batch attention method layer worth query ties delimiters"]:
        request = AttributionRequest(trace, targets(trace, self.target))
        work = SharedWork(request, trace.mask, self.settings)
        blanked = blank_out(request, torch.zeros_like(trace.mask), self.settings.unknown)
        worths = [input_gradient(work), summed_gradient(request), blanked]
        worth = torch.stack([one.abs().double() for one in worths], dim=1)[:, None]  # (batch, 1, worth, key)
        found = [self._agreement(work, attention, worth) for attention in ATTENTIONS]
        return torch.stack(found, dim=1)

    def _agreement(
        self, work: SharedWork, attention: Part, worth: Float[Tensor, "batch 1 worth key"]
    ) -> Float[Tensor, "batch method layer worth query ties delimiters"]:
        """Correlate each method's scores of both queries with every worth, in each way; then the differences."""
        chosen = {False: written(work.trace), True: work.trace.mask}
        graph = work.graph(attention)
        found = []
        for maps in (graph, rollout_maps(work, graph), flow_maps(work, graph)):
            ways = [
                correlate(work.read(maps, query)[:, :, None], worth, chosen[delimiters][:, None, None], ties)
                for query, ties, delimiters in product(QUERIES, TIES, chosen)
            ]
            every = torch.stack(ways, dim=-1)  # (batch, layer, worth, query * ties * delimiters)
            found.append(every.view(*every.shape[:-1], len(QUERIES), len(TIES), len(chosen)))
        raw, rolled, flow = found  # each (batch, layer, worth, query, ties, delimiters)
        return torch.stack([raw, rolled, flow, rolled - raw, flow - raw, flow - rolled], dim=1)

    def compute(self) -> pd.DataFrame:
        values = self.values[self.filled > 0].cpu().flatten(1)
        places = pd.MultiIndex.from_product(self.axes.values(), names=list(self.axes)).to_frame(index=False)
        table = pd.concat([places, over_examples(values, self.context.seed)], axis=1)
        table = table[table["count"] > 0].reset_index(drop=True)
        worths = pd.DataFrame(_WORTHS, columns=["reference", "gradient"]).loc[table.pop("worth")].reset_index(drop=True)
        divided = self.settings.receptive_field
        said = {"target": self.target, "receptive_field": divided, "convention": self.convention}
        return pd.concat([table, worths], axis=1).assign(**said, examples=len(values))[SCHEMA.names]


def _parts(trace: Trace, chosen: Tensor) -> Iterator[Trace]:
    """Cut the chosen examples into batches whose maps of all queries do not fill the memory."""
    most = max(1, _PAIRS // trace.mask.shape[1] ** 2)
    for places in torch.split(chosen.nonzero()[:, 0], most):
        part = torch.zeros_like(chosen)
        part[places] = True
        if len(places):
            yield only(trace, part)
