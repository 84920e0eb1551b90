"""Which tokens do heads rest on, and can that attention do anything?

Heads often put most of their attention on one token, a *sink* (Gu et al. 2024: the mean attention to a token over the
queries that see it exceeds a threshold, theirs is 0.3). What of it can reach the output is bounded by the values alone:
an effective weight is at most the length of its row times the root of the key's *leverage* (``attention.leverage``).
For each head, mean over texts with a 95 % interval (normal approximation over texts: too short for fewer than thirty):

- ``received``: attention that the strongest key gets, and the others on average; standard, effective, and effective in
  affine space. Candidates are keys that at least half of the queries see, which in causal attention is the first half.
- ``leverage``, ``affine_leverage``: of the same keys, mean over the queries that see them; ``value_norm``,
  ``vector_norm``: length of the value, and of what the output projection makes of it, relative to the text's mean.
- ``sink``, ``first_sink``: share of texts in which the strongest, or the first token, is a sink; ``kind``: share in
  which the strongest key is [CLS], [SEP], another first token, a period or comma, or another token.
- ``excess``: the largest ``|A_effective| - ||a|| sqrt(h)`` over all entries; the bound says that it is not above 0.
- ``interval``: weight on the strongest key on a sample of queries, with the smallest and largest that a distribution
  with the same output could have there (``attention.polytope``).
- ``correlation``: do two measures order the keys of a text alike? Spearman, per head: the formal comparison of
  effective attention with norms ``||alpha f(x)||`` (Kobayashi et al. 2020) that Sun & Marasovic (2021) name as future
  work. Weights count by absolute value.
- ``level``: the same measures by how much attention a key receives, as a multiple of even attention; all heads.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from effective_attention.analyses.common.alone import head_rows, traced_alone
from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_number
from effective_attention.analyses.common.samples import sample
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.analyses.common.tokens import period_and_comma_ids, token_types
from effective_attention.analyses.sinks.measures import (
    LEVELS,
    MEASURED,
    PAIRS,
    KeyMeasures,
    candidates,
    correlations,
    key_measures,
    strongest,
)
from effective_attention.analyses.sinks.table import (
    KINDS,
    NAMED,
    PLACES,
    SCHEMA,
    level_names,
    of_pairs,
    of_places,
    tidy_means,
)
from effective_attention.attention.polytope import RowPolytope
from effective_attention.attention.row_space import reached_by
from effective_attention.attention.trace import Trace
from effective_attention.attributions.norms import head_blocks, output_projections
from effective_attention.errors import UserError

log = logging.getLogger(__name__)


class Sinks(SplitAnalysis):
    """Resting places of attention, and what can reach the output from there; the table is described by ``SCHEMA``.

    Args:
        threshold: Mean attention above which a token is a sink, from 0 to 1; Gu et al. (2024) take 0.3.
        interval_examples: On how many random examples to find the interval of the strongest key's weight; 0: none.
        interval_queries: On how many random queries of each.
    """

    schema = SCHEMA
    resampled = False  # has intervals of its own

    def __init__(self, *, threshold: float = 0.3, interval_examples: int = 4, interval_queries: int = 4) -> None:
        super().__init__()
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold < 1:
            raise UserError(f"analysis.sinks.threshold must be between 0 and 1, got {threshold!r}")
        check_number("analysis.sinks.interval_examples", interval_examples, 0)
        check_number("analysis.sinks.interval_queries", interval_queries, 1)
        self.threshold = threshold
        self.interval_examples = interval_examples
        self.interval_queries = interval_queries

    def setup(self, context: Context) -> Analysis:
        """Draw the sample, find periods and commas, and start sums for each head."""
        super().setup(context)
        if context.tokenizer is None:
            raise UserError("analysis sinks needs a tokenizer, to tell the types of tokens")
        self.marks = torch.tensor(period_and_comma_ids(context.tokenizer.get_vocab()), dtype=torch.long)
        self.sampled = sample(context, self.interval_examples)
        self._blocks: list[Tensor | None] | None = None  # of the output projections; found when the first text comes
        heads = context.layers, context.heads
        for name, shape in (("places", (len(MEASURED), *heads, len(PLACES))), ("pairs", (len(PAIRS), *heads))):
            for sums in (name, f"{name}_squares", f"{name}_count"):
                self.add_sum(sums, *shape)
        self.add_sum("sinks", 2, *heads)
        self.add_sum("kinds", *heads, len(KINDS))
        self.add_sum("texts")
        self.add_sum("levels", len(MEASURED), len(LEVELS))
        self.add_sum("levels_count", len(LEVELS))
        self.add_sum("ends", 4, *heads)
        self.add_state("excess", torch.full(heads, -torch.inf, dtype=torch.float64), dist_reduce_fx="max")
        return self

    def update(self, trace: Trace) -> None:
        if self._blocks is None:
            self._blocks = _output_blocks(trace)
        kinds = self._kinds(trace)  # (batch, kind, key)
        resting = []
        for number, (layer, blocks) in enumerate(zip(trace.layers, self._blocks, strict=True)):
            measures = key_measures(layer, trace.mask, blocks)
            among = candidates(measures, trace.mask)
            most = strongest(measures, among)
            self._add_places(number, measures, most, trace.mask)
            self._add_pairs(number, correlations(measures, among))
            self._add_levels(measures, among)
            self._add_sinks(number, measures, most, kinds)
            self.excess[number] = torch.maximum(self.excess[number], measures.excess.amax(dim=0))
            resting.append(most)
        self.texts += len(trace.mask)
        self._add_intervals(trace, torch.stack(resting, dim=1))

    def _kinds(self, trace: Trace) -> Tensor:
        """Return which kind each token is, (batch, kind, key): a real token has exactly one."""
        cls, sep, marks, other = token_types(trace, self.marks).unbind(dim=-1)
        first = torch.zeros_like(other)
        first[torch.arange(len(first)), trace.mask.int().argmax(dim=-1)] = True
        first = first & (marks | other)
        return torch.stack([cls, sep, first, marks & ~first, other & ~first], dim=1)

    def _add_places(self, number: int, measures: KeyMeasures, most: Tensor, mask: Tensor) -> None:
        others = mask[:, None] & ~most & (measures.sees > 0)
        for place, chosen in enumerate((most, others)):
            count = chosen.sum(dim=-1)
            for quantity, name in enumerate(MEASURED):
                means = torch.where(chosen, measures.signed[name], 0).sum(dim=-1) / count.clamp_min(1)  # (batch, head)
                there = count > 0
                self.places[quantity, number, :, place] += torch.where(there, means, 0).sum(dim=0)
                self.places_squares[quantity, number, :, place] += torch.where(there, means, 0).square().sum(dim=0)
                self.places_count[quantity, number, :, place] += there.sum(dim=0)

    def _add_pairs(self, number: int, found: Tensor) -> None:
        for pair, (one, other) in enumerate(PAIRS):
            values = found[..., one, other]  # (batch, head)
            self.pairs[pair, number] += values.nan_to_num(0).sum(dim=0)
            self.pairs_squares[pair, number] += values.nan_to_num(0).square().sum(dim=0)
            self.pairs_count[pair, number] += values.isfinite().sum(dim=0)

    def _add_levels(self, measures: KeyMeasures, among: Tensor) -> None:
        """Sort keys by attention received, relative to what it would be if every query spread it evenly."""
        times = measures.signed["standard"] / measures.even.clamp_min(torch.finfo(torch.float64).tiny)
        level = torch.bucketize(times, torch.tensor(LEVELS[1:], dtype=torch.float64, device=times.device), right=True)
        for place in range(len(LEVELS)):
            chosen = among & (level == place)
            self.levels_count[place] += chosen.sum()
            for quantity, name in enumerate(MEASURED):
                self.levels[quantity, place] += torch.where(chosen, measures.signed[name], 0).sum()

    def _add_sinks(self, number: int, measures: KeyMeasures, most: Tensor, kinds: Tensor) -> None:
        received = measures.signed["standard"]
        largest = torch.where(most, received, 0).sum(dim=-1)  # (batch, head)
        is_first = torch.zeros_like(most)
        is_first[torch.arange(len(most)), :, kinds.any(dim=1).int().argmax(dim=-1)] = True
        first = torch.where(is_first, received, 0).sum(dim=-1)
        self.sinks[:, number] += (torch.stack([largest, first]) > self.threshold).sum(dim=1)
        self.kinds[number] += (most[:, :, None] & kinds[:, None]).any(dim=-1).sum(dim=0)

    def _add_intervals(self, trace: Trace, resting: Tensor) -> None:
        """Add the interval of the strongest key's weight, (batch, layer, head, key) saying which that is."""
        for place, index in enumerate(trace.inputs["index"].tolist()):
            if not self.sampled[index]:
                continue
            alone = traced_alone(trace, place)
            keys = resting[place][..., trace.mask[place]].int().argmax(dim=-1)  # (layer, head)
            random = np.random.default_rng([self.context.seed, index])
            every = int(alone.lengths)
            queries = np.sort(random.choice(every, min(self.interval_queries, every), replace=False)).tolist()
            for number, layer in enumerate(alone.layers):
                self.ends[:, number] += torch.from_numpy(_ends(layer, queries, keys[number].tolist())).to(self.ends)

    def compute(self) -> pd.DataFrame:
        names = {"layer": range(self.context.layers), "head": range(self.context.heads)}
        places = {"measure": MEASURED, **names, "place": PLACES}
        pairs = {"pair": range(len(PAIRS)), **names}
        texts = self.texts.long()
        tables = [
            of_places(tidy_means(self.places, self.places_squares, self.places_count, places)),
            of_pairs(tidy_means(self.pairs, self.pairs_squares, self.pairs_count, pairs)),
            tidy(mean_over(self.sinks, self.texts), {"quantity": ("sink", "first_sink"), **names}, count=texts),
            tidy(mean_over(self.kinds, self.texts), {**names, "kind": KINDS}, count=texts).assign(quantity="kind"),
            tidy(self.excess, names, count=texts).assign(quantity="excess"),
            self._levels(),
        ]
        weight, low, high = mean_over(self.ends[:3], self.ends[3])
        tables.append(tidy(weight, names, low=low, high=high, count=self.ends[3].long()).assign(quantity="interval"))
        table = pd.concat(tables, ignore_index=True).reindex(columns=SCHEMA.names)
        table = table[table["count"] > 0].reset_index(drop=True)
        whole_numbers = dict.fromkeys(("layer", "head", "count"), "Int64")
        return table.astype({**whole_numbers, **dict.fromkeys(NAMED, "object")})

    def _levels(self) -> pd.DataFrame:
        names: dict[str, Any] = {"measure": MEASURED, "level": level_names()}
        means = mean_over(self.levels, self.levels_count)
        return tidy(means, names, count=self.levels_count.long()).assign(quantity="level")


def _output_blocks(trace: Trace) -> list[Tensor | None]:
    """Return each head's rows of every layer's output projection; None where they cannot be told apart."""
    try:
        pairs = zip(trace.layers, output_projections(trace), strict=True)
        return [head_blocks(trace.model, projection, layer.value) for layer, projection in pairs]
    except ValueError as error:
        log.warning("sinks takes a value's own length for that of the vector it brings: %s", error)
        return [None] * len(trace.layers)


def _ends(layer: Any, queries: list[int], keys: list[int]) -> np.ndarray:
    """Sum over queries that see it the weight on each head's key, the ends of its interval, and 1: (4, head)."""
    attention, value, visible = head_rows(layer, queries)
    found = np.zeros((4, len(keys)))
    for head, key in enumerate(keys):
        for row, seen in zip(attention[head], visible[head], strict=True):
            if seen[key]:
                cost = (np.flatnonzero(seen) == key).astype(float)
                polytope = RowPolytope(row[seen], reached_by(value[head, seen]))
                found[:, head] += row[key], *polytope.range_of(cost), 1
    return found
