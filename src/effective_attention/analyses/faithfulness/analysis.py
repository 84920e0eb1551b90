"""The analysis itself: its options, the sample, one number per example and place, and the table."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_graph_options, check_limit
from effective_attention.analyses.common.protocol import Target, choose_protocol, no_sum, protocol_facts, targets
from effective_attention.analyses.common.samples import in_sample, only, sample, slots
from effective_attention.analyses.common.tables import over_examples
from effective_attention.analyses.common.tokens import written
from effective_attention.analyses.faithfulness.agreement import beside, references
from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.analyses.faithfulness.options import check_more, check_options
from effective_attention.analyses.faithfulness.readings import Readings
from effective_attention.analyses.faithfulness.table import SCHEMA, changes, comparison, costs, joined, measured, places
from effective_attention.analyses.faithfulness.ways import choose_ways
from effective_attention.attention.trace import Trace
from effective_attention.attributions.attribute import Attribution, attribute, runs
from effective_attention.attributions.erasure import SHARES
from effective_attention.attributions.perturbations import blank_id
from effective_attention.attributions.ranking import Ties, few_examples
from effective_attention.attributions.registry import ALL, choose, impossible
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import STEPS, Query, Settings
from effective_attention.errors import UserError
from effective_attention.graphs.conventions import RESIDUAL, Convention

log = logging.getLogger(__name__)
_METHODS = "analysis.faithfulness.methods"


class Faithfulness(SplitAnalysis):
    """All explanations of the same examples; the table is described by ``SCHEMA``.

    Args:
        limit: How many random examples; None: all.
        row: The token whose attention is read; None: the one that the model answers from.
        residual: Weight of the residual connection in rollout and flow.
        convention: What becomes of negative weights: ``absolute`` or ``positive``.
        steps: Of integrated gradients.
        shares: Of the tokens that are erased.
        erase: ``delete`` tokens, as ERASER does, ``blank`` them, or ``hide`` them from attention; or a list of these.
        unit: What is erased, ``token`` or ``word``, or a list of both.
        sanity: Whether every method also explains the model with random layers, for ``randomised``.
        stability: Whether it also explains pairs whose texts are exchanged, for ``stability``.
        compare: The measure by which methods are ranked and compared pair by pair, erased in the first way; None: none.
        methods: ``all`` that are registered, or a list of names, whose order is that of the results; ``module:name``
            imports the module first, so that it can register a method of its own.
        receptive_field: Whether every rollout and flow is divided by what even attention would bring (see
            ``graphs.receptive_field``); None: in a causal model, by our protocol.
        protocol: ``ours``, or ``abnar2020``, the paper's by its published code (``analyses.common.protocol``).
        gradient: What a token is worth by gradients, ``norm`` or ``sum``; None, here and below: as the protocol says.
        query: Raw attention, rollout and flow of the ``answer`` token, or the ``max`` over all queries.
        ties: Equal scores share the ``mean`` of their ranks, or ranks are ``dense``.
        delimiters: Rank [CLS] and [SEP] too. They are never erased.
        target: The class that is explained, by methods, references and erasure: ``predicted``, ``correct``, ``first``.
    """

    schema = SCHEMA
    resampled = False  # has intervals of its own

    needs_answer = True
    needs_embeddings = True

    def __init__(
        self,
        *,
        limit: int | None = 100,
        row: int | None = None,
        residual: float = RESIDUAL,
        convention: str = "absolute",
        steps: int = STEPS,
        shares: Sequence[float] = SHARES,
        erase: str | Sequence[str] = "delete",
        unit: str | Sequence[str] = "token",
        sanity: bool = False,
        stability: bool = False,
        compare: str | None = "comprehensiveness",
        methods: str | Sequence[str] = ALL,
        receptive_field: bool | None = None,
        protocol: str = "ours",
        gradient: str | None = None,
        query: Query | None = None,
        ties: Ties | None = None,
        delimiters: bool | None = None,
        target: Target | None = None,
    ) -> None:
        super().__init__()
        check_limit("analysis.faithfulness.limit", limit)
        check_graph_options("faithfulness", residual, convention, receptive_field)
        single = {"gradient": gradient, "query": query, "ties": ties, "delimiters": delimiters, "target": target}
        self.protocol = choose_protocol("faithfulness", protocol, **single)
        self.preset = protocol
        self.needs_labels = self.protocol.target == "correct"
        self.limit = limit
        self.row = row
        self.residual = residual
        self.convention: Convention = convention  # type: ignore[assignment]
        self.steps = steps
        self.shares = tuple(shares)
        self.ways = choose_ways(unit, erase)
        self.more = check_more(sanity=sanity, stability=stability, compare=compare)
        self.compare = compare
        self.receptive_field = receptive_field
        self.chosen = choose(methods, _METHODS)
        self.all_chosen = methods == ALL

    def obstacle(self, context: Context) -> str | None:
        """Say so where the protocol sums gradients and the model has none to sum."""
        found = super().obstacle(context)
        return no_sum(context) if found is None and self.protocol.gradient == "sum" else found

    def setup(self, context: Context) -> Analysis:
        """Draw the sample, and make room for one number per example and place."""
        super().setup(context)
        check_options(context, row=self.row, steps=self.steps, shares=self.shares)
        self.settings = self._settings(context)
        self.used = sample(context, self.limit)
        self.impossible = self._impossible(context)
        self.methods = [method for method in self.chosen if method.name not in self.impossible]
        self.beside = beside(self.methods, self.protocol)
        self.league = [(attention, method.name) for method, attention in runs(self.methods)]
        self.places = places(self.league, context.layers, self.ways)
        words = any(way.unit == "word" for way in self.ways)
        delimiters = self.protocol.delimiters
        self.readings = Readings(context, self.settings, self.methods, delimiters, words, self.more)
        self.add_sum("values", int(self.used.sum()), len(self.places))
        self.add_sum("filled", int(self.used.sum()))
        self.add_sum("seconds", len(self.league))
        return self

    def _settings(self, context: Context) -> Settings:
        divided = context.causal and self.preset == "ours" if self.receptive_field is None else self.receptive_field
        return Settings(
            blank_id(context.tokenizer),
            self.row,
            self.residual,
            self.convention,
            self.steps,
            context.seed,
            divided,
            query=self.protocol.query,
        )

    def _impossible(self, context: Context) -> dict[str, str]:
        """Find the methods that the model has not got what they read for: of ``all`` they are left out.

        Raises:
            UserError: The user has named one of them.
        """
        reasons = {} if context.probe is None else impossible(self.chosen, context.probe)
        if reasons and not self.all_chosen:
            name, reason = next(iter(reasons.items()))
            raise UserError(f"{_METHODS}: {name} cannot explain this model: {reason}")
        return reasons

    def wants(self, indices: Sequence[int]) -> bool:
        return bool(self.used[list(indices)].any())

    def update(self, trace: Trace) -> None:
        chosen = in_sample(self.used, trace)
        if not bool(chosen.any()):
            return
        trace = only(trace, chosen)
        found = measured(self._ask(trace))
        nothing = torch.full(trace.mask.shape[:1], torch.nan, dtype=torch.float64, device=trace.mask.device)
        kept = slots(self.used, trace).to(self.values.device)
        self.values[kept] = torch.stack([found.get(place, nothing) for place in self.places], dim=-1).to(self.values)
        self.filled[kept] = 1

    def _ask(self, trace: Trace) -> Asked:
        """Run all methods on a batch, and note what they took."""
        words = written(trace)
        ranked: Tensor = trace.mask if self.protocol.delimiters else words
        request = AttributionRequest(trace, targets(trace, self.protocol.target))
        every: list[Attribution] = list(attribute(request, ranked, self.settings, [*self.methods, *self.beside]))
        league = every[: len(self.league)]
        self.seconds += torch.tensor([one.seconds for one in league], device=self.seconds.device)
        known = references(request, every, self.protocol)
        return Asked(
            request,
            league,
            known,
            words,
            ranked,
            self.protocol,
            self.shares,
            self.ways,
            self.settings.unknown,
            **self.readings.of(request, ranked),
        )

    def compute(self) -> pd.DataFrame:
        for reason in dict.fromkeys(self.impossible.values()):
            names = [name for name, own in self.impossible.items() if own == reason]
            log.warning("faithfulness leaves out %s: %s", ", ".join(names), reason)
        self.readings.warn()
        values = self.values[self.filled > 0].cpu()
        too_few = few_examples(len(values))
        if too_few is not None:
            log.warning("faithfulness: %s", too_few)
        table = pd.concat([pd.DataFrame(self.places), over_examples(values, self.context.seed)], axis=1)
        rows = costs(self.league, self.seconds.tolist(), len(values))
        pairs = comparison(values, self.places, self.compare, self.ways[0], self.context.seed)
        changed = changes(values, self.places, self.ways, self.context.seed)
        table = joined([table[table["count"] > 0], rows, pairs, changed])
        said = protocol_facts(self.preset, self.protocol)
        return table.assign(receptive_field=self.settings.receptive_field, **said, examples=len(values))[SCHEMA.names]
