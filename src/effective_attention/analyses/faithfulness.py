"""Which explanation is faithful to the model?

Abnar & Zuidema (2020), Tables 1 to 3: Spearman's correlation of the attention of the token that the model answers from
([CLS]; in a causal model the last; raw, rolled out, as flow; layer by layer) with what tokens are worth by two other
measures: how the probability of the correct class changes when a token is blanked, and the gradient at the input.
Beside them every other method we offer, on the same examples, and on effective attention as well.

Agreeing with another estimate is no proof, so two measures ask the model itself (ERASER, DeYoung et al. 2020): how much
probability is lost without the tokens a method ranks highest (``comprehensiveness``, more is better), and how much with
these alone (``sufficiency``, less is better), averaged over several shares of tokens. And where the data knows which
word decides, as the grammar of ``task=agreement`` does, ``subject_first`` is the share of sentences in which it
outranks every attractor.

``published`` adds Table 3 by the code its authors published, which is another quantity (``spearman_published``, see
``analyses.common.published_correlation``).

Conventions. The correct class is explained (a regression's score is). Padding is left out of every ranking, and so are
delimiters unless asked for: the paper's raw attention and rollout differ in the first layer, so [CLS] itself must have
been in its ranking. Correlations compare absolute scores; erasure takes the tokens that speak for the class first, so
signed scores. ``std`` is over examples, as in the paper; ``low`` and ``high`` are a 95 % bootstrap interval of the
mean. An example that cannot be ranked (one word, or the same score for all) is left out of that mean; ``count`` says
how many were in, ``examples`` how many were asked. ``milliseconds`` an example come on top of the forward pass.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.analyses.common import schema
from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_graph_options, check_limit, is_whole_number
from effective_attention.analyses.common.published_correlation import dense_spearman, largest_received, summed_gradient
from effective_attention.analyses.common.samples import in_sample, only, sample
from effective_attention.analyses.common.tokens import written
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions.attribute import Attribution, attribute, runs
from effective_attention.attributions.erasure import SHARES, How, erasure
from effective_attention.attributions.perturbations import blank_id
from effective_attention.attributions.ranking import bootstrap, spearman
from effective_attention.attributions.registry import ALL, Method, choose, impossible, registered
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import STEPS, Settings
from effective_attention.data.annotation.tagging import ROLES
from effective_attention.errors import UserError
from effective_attention.graphs.conventions import RESIDUAL, Convention

log = logging.getLogger(__name__)
SUBJECT, ATTRACTOR = ROLES.index("subject"), ROLES.index("attractor")
RANKED = ("spearman_blank_out", "spearman_gradients", "subject_first")
PUBLISHED = "spearman_published"
LAYERED = ("raw", "rollout", "flow")
"""The methods of Table 3."""
ERASED = ("comprehensiveness", "sufficiency")
_METHODS = "analysis.faithfulness.methods"
_REFERENCE = {"spearman_blank_out": "blank_out", "spearman_gradients": "input_gradient"}
SCHEMA = schema.Schema(
    (
        replace(schema.attention_column(*ATTENTIONS), missing=True),
        schema.Column("method", "the explanation", "name", key=True),
        replace(schema.LAYER, missing=True),
        schema.Column("measure", "what is measured", "name", (*RANKED, PUBLISHED, *ERASED, "milliseconds"), key=True),
        schema.Column("value", "mean over examples; milliseconds: per example"),
        schema.Column("std", "standard deviation over examples", low=0, missing=True),
        schema.Column("low", "lower end of the mean's 95 % bootstrap interval", missing=True),
        schema.Column("high", "upper end of the mean's 95 % bootstrap interval", missing=True),
        schema.count_column("examples"),
        schema.RECEPTIVE_FIELD,
        schema.Column("examples", "how many examples were explained: the sample", "whole", low=0),
    ),
    blocks=(
        schema.Block({"measure": RANKED}, ("attention", "method", "layer")),
        schema.Block({"measure": PUBLISHED, "method": LAYERED}, ("attention", "layer")),
        schema.Block({"measure": ERASED}, ("attention", "method", "layer")),  # the last layer only
        schema.Block({"measure": "milliseconds"}, ("attention", "method"), numbers=("value",)),
        schema.Block({"measure": (*RANKED, *ERASED)}, ("method",)),  # methods that do not read attention
        schema.Block({"measure": "milliseconds"}, ("method",), numbers=("value",)),
    ),
)


class Column(NamedTuple):
    """One number per example."""

    attention: str | None
    method: str
    layer: int | None
    measure: str


def subject_first(
    scores: Float[Tensor, "batch layer key"], role: Int[Tensor, "batch key"]
) -> Float[Tensor, "batch layer"]:
    """Return 1 where the subject's best sub-token outranks every attractor's, else 0; NaN where one is missing."""
    best = [torch.where((role == which)[:, None], scores, -torch.inf).amax(dim=-1) for which in (SUBJECT, ATTRACTOR)]
    there = torch.isfinite(best[0]) & torch.isfinite(best[1])
    return torch.where(there, (best[0] > best[1]).double(), torch.nan)


class Faithfulness(SplitAnalysis):
    """All explanations of the same examples; the table is described by ``SCHEMA``.

    Args:
        limit: How many random examples; None: all.
        row: The token whose attention is read; None: the one that the model answers from.
        residual: Weight of the residual connection in rollout and flow.
        convention: What becomes of negative weights: ``absolute`` or ``positive``.
        steps: Of integrated gradients.
        shares: Of the tokens that are erased.
        erase: ``delete`` tokens, as ERASER does, or ``blank`` them.
        delimiters: Rank [CLS] and [SEP] too. They are never erased.
        methods: ``all`` that are registered, or a list of names, whose order is that of the results; ``module:name``
            imports the module first, so that it can register a method of its own.
        receptive_field: Whether every rollout and flow is divided by what even attention would bring (see
            ``graphs.receptive_field``); None: in a causal model.
        published: Whether raw attention, rollout and flow are also compared with gradients by the published code.
    """

    schema = SCHEMA
    resampled = False  # has intervals of its own

    needs_labels = True
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
        erase: str = "delete",
        delimiters: bool = False,
        methods: str | Sequence[str] = ALL,
        receptive_field: bool | None = None,
        published: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(published, bool):
            raise UserError(f"analysis.faithfulness.published must be true or false, got {published!r}")
        self.published = published
        check_limit("analysis.faithfulness.limit", limit)
        check_graph_options("faithfulness", residual, convention, receptive_field)
        self.limit = limit
        self.row = row
        self.residual = residual
        self.convention: Convention = convention  # type: ignore[assignment]
        self.steps = steps
        self.shares = tuple(shares)
        self.erase = erase
        self.delimiters = delimiters
        self.receptive_field = receptive_field
        self.chosen = choose(methods, _METHODS)
        self.all_chosen = methods == ALL

    def setup(self, context: Context) -> Analysis:
        """Draw the sample, and make room for one number per example and column."""
        super().setup(context)
        _check(context, row=self.row, steps=self.steps, shares=self.shares, erase=self.erase)
        self.settings = Settings(
            blank_id(context.tokenizer),
            self.row,
            self.residual,
            self.convention,
            self.steps,
            context.seed,
            context.causal if self.receptive_field is None else self.receptive_field,
        )
        self.used = sample(context, self.limit)
        self.impossible = self._impossible(context)
        self.methods = [method for method in self.chosen if method.name not in self.impossible]
        self.references = _references(self.methods)
        self.league = [(attention, method.name) for method, attention in runs(self.methods)]
        self.columns = _columns(self.league, context.layers)
        self.columns += _published_columns(self.league, context.layers) if self.published else []
        self.add_sum("values", int(self.used.sum()), len(self.columns))
        self.add_sum("filled", int(self.used.sum()))
        self.add_sum("seconds", len(self.league))
        return self

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
        words = written(trace)
        ranked = trace.mask if self.delimiters else words
        request = AttributionRequest(trace, _target(trace))
        every = list(attribute(request, ranked, self.settings, [*self.methods, *self.references]))
        attributions = every[: len(self.league)]
        self.seconds += torch.tensor([attribution.seconds for attribution in attributions], device=self.seconds.device)
        references = {one.method: one.scores for one in every if one.method in _REFERENCE.values()}
        found = {**_ranked(trace, attributions, references, ranked), **self._erased(request, attributions, words)}
        found |= self._published(trace) if self.published else {}
        slots = (self.used.cumsum(dim=0) - 1)[trace.inputs["index"].cpu()].to(self.values.device)
        self.values[slots] = torch.stack([found[column] for column in self.columns], dim=-1).to(self.values)
        self.filled[slots] = 1

    def _erased(
        self, request: AttributionRequest, attributions: list[Attribution], words: Tensor
    ) -> dict[Column, Tensor]:
        scores = torch.stack(
            [attribution.scores[:, -1].double() for attribution in attributions]
        )  # (method, batch, key)
        unknown = self.settings.unknown
        both = erasure(request, scores, ~words, shares=self.shares, how=self.erase, unk_id=unknown)  # type: ignore[arg-type]
        found = {}
        for number, attribution in enumerate(attributions):
            layer = None if attribution.attention is None else self.context.layers - 1
            for measure, values in zip(ERASED, both, strict=True):
                found[Column(attribution.attention, attribution.method, layer, measure)] = values[number]
        return found

    def _published(self, trace: Trace) -> dict[Column, Tensor]:
        """Return Table 3 by the published code, (batch,) for each method, attention and layer."""
        worth = summed_gradient(trace).double()[:, None]
        found = {}
        for attention in ATTENTIONS:
            scores = largest_received(trace, attention, residual=self.residual, convention=self.convention)
            for method, score in scores.items():
                values = dense_spearman(score.double(), worth, trace.mask[:, None])
                for layer in range(values.shape[1]):
                    found[Column(attention, method, layer, PUBLISHED)] = values[:, layer]
        return found

    def compute(self) -> pd.DataFrame:
        for reason in dict.fromkeys(self.impossible.values()):
            names = [name for name, own in self.impossible.items() if own == reason]
            log.warning("faithfulness leaves out %s: %s", ", ".join(names), reason)
        values = self.values[self.filled > 0].cpu()
        count = (~values.isnan()).sum(dim=0)
        low, high = bootstrap(values, seed=self.context.seed) if len(values) else (torch.nan * count, torch.nan * count)
        mean = values.nanmean(dim=0)
        spread = ((values - mean).square().nansum(dim=0) / (count - 1).clamp_min(1)).sqrt()
        table = pd.DataFrame(self.columns)
        for name, numbers in (("value", mean), ("std", spread), ("low", low), ("high", high), ("count", count)):
            table[name] = numbers.numpy()
        table = pd.concat([table[table["count"] > 0], self._costs()], ignore_index=True)
        table["layer"] = table["layer"].astype("Int64")
        return table.assign(receptive_field=self.settings.receptive_field, examples=len(values))

    def _costs(self) -> pd.DataFrame:
        examples = int((self.filled > 0).sum())
        rows = [
            {
                "attention": attention,
                "method": method,
                "layer": None,
                "measure": "milliseconds",
                "value": 1000 * float(spent),
            }
            for (attention, method), spent in zip(self.league, (self.seconds / max(examples, 1)).tolist(), strict=True)
        ]
        return pd.DataFrame(rows).assign(std=float("nan"), low=float("nan"), high=float("nan"), count=examples)


# --- which numbers there are ---


def _references(methods: Sequence[Method]) -> list[Method]:
    """Find the methods that others are compared with and that are not chosen themselves: computed, but without rows."""
    chosen = {method.name for method in methods}
    return [method for method in registered() if method.name in {*_REFERENCE.values()} - chosen]


def _columns(league: Sequence[tuple[str | None, str]], layers: int) -> list[Column]:
    found = []
    for attention, method in league:
        every: list[int | None] = [None] if attention is None else list(range(layers))
        ranked = [measure for measure in RANKED if _REFERENCE.get(measure) != method]  # nothing is compared with itself
        found += [Column(attention, method, layer, measure) for measure in ranked for layer in every]
        found += [Column(attention, method, every[-1], measure) for measure in ERASED]
    return found


def _published_columns(league: Sequence[tuple[str | None, str]], layers: int) -> list[Column]:
    chosen = [one for one in league if one[1] in LAYERED]
    return [Column(attention, method, layer, PUBLISHED) for attention, method in chosen for layer in range(layers)]


def _ranked(
    trace: Trace,
    attributions: Sequence[Attribution],
    references: Mapping[str, Float[Tensor, "batch 1 key"]],
    chosen: Bool[Tensor, "batch key"],
) -> dict[Column, Tensor]:
    """Return the measures that compare rankings, (batch,) each."""
    role = trace.tokens.get("role", torch.zeros_like(trace.inputs["input_ids"]))
    found = {}
    for attribution in attributions:
        scores = attribution.scores.abs().double()  # (batch, layer, key)
        measured = {
            measure: spearman(scores, references[reference].abs().double(), chosen[:, None])
            for measure, reference in _REFERENCE.items()
        }
        measured["subject_first"] = subject_first(scores, role)
        for measure, values in measured.items():
            for layer in range(values.shape[1]):
                place = None if attribution.attention is None else layer
                found[Column(attribution.attention, attribution.method, place, measure)] = values[:, layer]
    return found


# --- the examples ---


def _target(trace: Trace) -> Int[Tensor, " batch"]:
    labels = trace.inputs["labels"]
    return torch.zeros_like(labels, dtype=torch.long) if trace.logits.shape[-1] == 1 else labels.long()


def _check(context: Context, **options: Any) -> None:
    if context.task is None:
        raise UserError("analysis faithfulness needs a task: it explains the correct answer")
    wanted = {
        "row": (
            options["row"] is None or (is_whole_number(options["row"], 0) and options["row"] < context.max_length),
            f"null or from 0 to {context.max_length - 1}",
        ),
        "steps": (is_whole_number(options["steps"], 1), "at least 1"),
        "shares": (_are_shares(options["shares"]), "numbers above 0, up to 1"),
        "erase": (options["erase"] in get_args(How), " or ".join(get_args(How))),
    }
    for name, (good, words) in wanted.items():
        if not good:
            raise UserError(f"analysis.faithfulness.{name} must be {words}, got {options[name]!r}")


def _are_shares(values: Any) -> bool:
    return len(values) > 0 and all(isinstance(value, int | float) and 0 < value <= 1 for value in values)
