"""Does a verb's number hang on its subject, and do explanations point to the word it hangs on?

Abnar & Zuidema (2020), Figs. 2 and 3, change the number of one word of an example and see whether the model's answer
flips. Here that is done to every example whose deciding words the data marks (``task=agreement``): the subject is put
into its other number, so that the right answer is the other one too; and, separately, the last attractor, so that the
right answer stays. ``flips`` is how often the model's answer changes, among ``all`` examples, those that were answered
``right`` (with another subject it should flip, with another attractor it should not), and those answered ``wrong``
(with another subject the answer has become right as it is; with another attractor a flip tells that this word misled
the model: the paper's misclassified example).

Beside that, by attention, method (raw, rollout, flow: what the answering token looks at) and layer: ``weight`` is the
share of the weight on all words that is on the marked word, its sub-tokens added up; ``even`` is what even attention
would give. ``spearman`` asks whether a word has more weight where the answer hangs on it: the correlation, over
examples, of the weight with how far the exchange moves the probability of "plural". Both are larger in short texts, so
``even`` is there the same correlation of what even attention would give.

The misclassified examples are listed (``probability``, that of the right class), the lowest first; of equals the first.
``attention_graph`` with ``example=worst`` draws the first of them.

Conventions. A noun whose other number is not known (``data.agreement.other_number``: listed, or both forms one entry
of the tokenizer's vocabulary) is not exchanged, and ``count`` says how many were. The model runs again on the changed
text, without padding; a language model that is asked for the verb (``head=verb``) is asked for the same one. Means have
95 % bootstrap intervals over examples; for correlations the ranks are made once, before examples are drawn. Negative
effective weights become what ``convention`` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import pandas as pd
import torch
from jaxtyping import Float
from scipy import stats
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_graph_options, check_limit, check_number
from effective_attention.analyses.common.samples import in_sample, only, sample, slots
from effective_attention.analyses.common.schema import CONVENTION, LAYER, Block, Column, Schema, attention_column
from effective_attention.analyses.common.tokens import written
from effective_attention.attention.hook import evaluation_mode
from effective_attention.attention.model_facts import accepted_inputs
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions.attribute import attribute
from effective_attention.attributions.perturbations import blank_id
from effective_attention.attributions.ranking import bootstrap, draw_again, times_drawn
from effective_attention.attributions.registry import choose
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import Settings
from effective_attention.data.agreement.other_number import other_number
from effective_attention.data.agreement.verbs import ids_behind
from effective_attention.data.annotation.tagging import ROLES
from effective_attention.errors import UserError
from effective_attention.graphs.conventions import RESIDUAL, Convention

Word = Literal["subject", "attractor"]
METHODS = ("raw", "rollout", "flow")
WORDS: tuple[Word, ...] = ("subject", "attractor")
GROUPS = ("all", "right", "wrong")
_ANSWER = ("index", "plural", "chance")  # the example, whether plural is right, and the probability of plural
_FLIP = ("chance", "even")  # the probability of plural with this word exchanged, and what even attention gives the word
SCHEMA = Schema(
    (
        Column(
            "quantity",
            "what the value is",
            "name",
            ("accuracy", "flips", "weight", "spearman", "probability"),
            key=True,
        ),
        Column("word", "which word is exchanged, or looked at", "name", WORDS, key=True, missing=True),
        Column("group", "examples: all, or those answered rightly or wrongly", "name", GROUPS, key=True, missing=True),
        replace(attention_column(*ATTENTIONS), missing=True),
        Column("method", "how attention is followed through the layers", "name", METHODS, key=True, missing=True),
        replace(LAYER, missing=True),
        Column("example", "a misclassified text of the split, counted from 0", "whole", low=0, key=True, missing=True),
        Column("value", "a share or a probability; spearman: a correlation", low=-1, high=1),
        Column("even", "the same of what even attention would give the word", low=-1, high=1, missing=True),
        Column("low", "lower end of the 95 % bootstrap interval over examples", missing=True),
        Column("high", "upper end of it", missing=True),
        Column("count", "how many examples are behind the value", "whole", low=0),
        Column("gold", "the right number, of a misclassified text", "name", missing=True),
        Column("sentence", "that text, up to its verb", "name", missing=True),
        CONVENTION,
        Column("examples", "how many examples were looked at: the sample", "whole", low=0),
    ),
    blocks=(
        Block({"quantity": "accuracy"}),
        Block({"quantity": "flips"}, ("word", "group")),
        Block({"quantity": "weight"}, ("word", "group", "attention", "method", "layer")),
        Block({"quantity": "spearman"}, ("word", "attention", "method", "layer")),
        Block({"quantity": "probability"}, ("example",)),
    ),
)


class NumberFlip(SplitAnalysis):
    """Exchanged numbers, and the weight on the exchanged words; the table is described by ``SCHEMA``.

    Args:
        limit: How many random examples; None: all.
        listed: How many misclassified examples are listed at most.
        residual: Weight of the residual connection in rollout and flow.
        convention: What becomes of negative weights: ``absolute`` or ``positive``.
    """

    schema = SCHEMA
    resampled = False  # has intervals of its own

    needs_labels = True
    needs_embeddings = True

    def __init__(
        self,
        *,
        limit: int | None = 500,
        listed: int = 10,
        residual: float = RESIDUAL,
        convention: str = "absolute",
    ) -> None:
        super().__init__()
        check_limit("analysis.number_flip.limit", limit)
        check_number("analysis.number_flip.listed", listed, 0)
        check_graph_options("number_flip", residual, convention)
        self.limit = limit
        self.listed = listed
        self.residual = residual
        self.convention: Convention = convention  # type: ignore[assignment]

    def obstacle(self, context: Context) -> str | None:
        """Say so where the data does not mark the word that decides, or is not about number."""
        marked = context.probe is not None and "role" in context.probe.tokens
        if not marked or context.task is None or "plural" not in context.task.labels:
            return "the texts' subjects are not marked (task=agreement marks them)"
        return super().obstacle(context)

    def setup(self, context: Context) -> Analysis:
        """Draw the sample, and make room for each example's numbers."""
        super().setup(context)
        obstacle = self.obstacle(context)
        if obstacle is not None or context.task is None:
            raise UserError(f"analysis number_flip: {obstacle}")
        if context.split.texts is None:
            raise ValueError("analysis number_flip needs to know the split's texts (SplitFacts.texts)")
        self.text_of = context.split.texts
        self.plural = list(context.task.labels).index("plural")
        unknown = blank_id(context.tokenizer)  # of no use here: no method blanks
        self.settings = Settings(unknown, None, self.residual, self.convention, receptive_field=context.causal)
        self.used = sample(context, self.limit)
        size = int(self.used.sum())
        self.add_sum("answers", size, len(_ANSWER))
        self.add_sum("flips", size, len(WORDS), len(_FLIP))
        self.add_sum("weights", size, len(WORDS), len(ATTENTIONS), len(METHODS), context.layers)
        self.add_sum("filled", size)
        return self

    def wants(self, indices: Sequence[int]) -> bool:
        return bool(self.used[list(indices)].any())

    def update(self, trace: Trace) -> None:
        chosen = in_sample(self.used, trace)
        if not bool(chosen.any()):
            return
        trace = only(trace, chosen)
        places = slots(self.used, trace).to(self.filled.device)
        chance = self._chance(trace.logits)
        labels = trace.inputs["labels"] == self.plural
        answers = torch.stack([trace.inputs["index"].double(), labels.double(), chance], dim=-1)
        self.answers[places] = answers.to(self.answers)
        self.weights[places] = self._weights(trace).to(self.weights)
        self.flips[places] = self._exchanged(trace).to(self.flips)
        self.filled[places] = 1

    def _chance(self, logits: Tensor) -> Float[Tensor, " batch"]:
        return logits.double().softmax(dim=-1)[:, self.plural]

    # --- weights on the marked words ---

    def _weights(self, trace: Trace) -> Float[Tensor, "batch marked attention method layer"]:
        """Return the share of the words' weight that is on each of ``WORDS``; NaN where there is no such word."""
        words = written(trace)
        request = AttributionRequest(trace, trace.inputs["labels"].long())
        methods = choose(METHODS, "analysis.number_flip.methods")
        found = torch.stack([one.scores for one in attribute(request, words, self.settings, methods)], dim=1)
        scores = found.abs().double() * words[:, None, None]  # (batch, attention * method, layer, key)
        total = scores.sum(dim=-1).clamp_min(1e-12)
        shares = [(scores * on[:, None, None]).sum(dim=-1) / total for on in _places(trace)]
        there = torch.stack([on.any(dim=-1) for on in _places(trace)], dim=1)
        stacked = torch.stack(shares, dim=1)  # (batch, marked, attention * method, layer)
        stacked = stacked.view(*stacked.shape[:2], len(ATTENTIONS), len(METHODS), -1)
        return stacked.masked_fill(~there[:, :, None, None, None], torch.nan)

    # --- exchanged texts ---

    def _exchanged(self, trace: Trace) -> Float[Tensor, "batch marked number"]:
        """Return the probability of plural with each of ``WORDS`` exchanged, NaN where it cannot be, and ``even``."""
        words = written(trace)
        found = torch.full((len(trace.mask), len(WORDS), len(_FLIP)), torch.nan, dtype=torch.float64)
        changed: list[tuple[int, int, str]] = []
        for row, index in enumerate(trace.inputs["index"].tolist()):
            changed += [(row, word, text) for word, text in self._texts(trace, row, index)]
        for number, on in enumerate(_places(trace)):
            found[:, number, 1] = (on.sum(dim=-1) / words.sum(dim=-1).clamp_min(1)).cpu()
        if changed:
            chances = self._run(trace, [row for row, _, _ in changed], [text for _, _, text in changed]).cpu()
            for (row, word, _), chance in zip(changed, chances.tolist(), strict=True):
                found[row, word, 0] = chance
        return found

    def _texts(self, trace: Trace, row: int, index: int) -> Iterator[tuple[int, str]]:
        """Yield the text with each of ``WORDS`` in its other number, as far as that is known."""
        text = self.text_of(index)[0]
        subject_is_plural = int(trace.inputs["labels"][row]) == self.plural
        roles = trace.tokens["role"][row][trace.mask[row]].tolist()
        for number, word in enumerate(WORDS):
            spans = word_spans(self.context.tokenizer, text, roles, ROLES.index(word), self.context.max_length)
            if spans:
                start, end = spans[-1]  # of several attractors the last
                plural = subject_is_plural if word == "subject" else not subject_is_plural
                other = other_number(text[start:end], plural=plural, known=self._known)
                if other is not None:
                    yield number, text[:start] + other + text[end:]

    def _known(self, form: str) -> bool:
        return len(ids_behind(self.context.tokenizer, form)) == 1

    def _run(self, trace: Trace, rows: list[int], texts: list[str]) -> Float[Tensor, " text"]:
        """Return the probability of plural for each text, each made of one of the batch; run without padding."""
        options = {"truncation": True, "max_length": self.context.max_length, "return_attention_mask": True}
        made = self.context.tokenizer(texts, **options)
        lengths = [len(ids) for ids in made["input_ids"]]
        found = torch.zeros(len(texts), dtype=torch.float64, device=trace.mask.device)
        for length in sorted(set(lengths)):
            places = [place for place, own in enumerate(lengths) if own == length]
            inputs = {name: torch.tensor([values[place] for place in places]) for name, values in made.items()}
            if "verb_ids" in trace.inputs:  # the same verb follows
                inputs["verb_ids"] = trace.inputs["verb_ids"][[rows[place] for place in places]]
            inputs = {name: value.to(trace.mask.device) for name, value in inputs.items()}
            with torch.no_grad(), evaluation_mode(trace.model):
                found[places] = self._chance(trace.model(**accepted_inputs(trace.model, inputs)).logits)
        return found

    # --- the table ---

    def compute(self) -> pd.DataFrame:
        there = self.filled.cpu() > 0
        answers, flips, weights = (state.cpu()[there] for state in (self.answers, self.flips, self.weights))
        right = (answers[:, 2] > 0.5) == (answers[:, 1] > 0.5)
        rows = [_row("accuracy", *self._mean(right.double()))]
        for number, word in enumerate(WORDS):
            chance, even = flips[:, number].unbind(dim=-1)
            flipped = torch.where(chance.isnan(), torch.nan, ((chance > 0.5) != (answers[:, 2] > 0.5)).double())
            for group, chosen in zip(GROUPS, (torch.ones_like(right), right, ~right), strict=True):
                place: dict[str, Any] = {"word": word, "group": group}
                rows.append(_row("flips", *self._mean(flipped.where(chosen, torch.nan)), **place))
                rows += self._weight_rows(weights[:, number], even, chosen, place)
            rows += self._spearman_rows(weights[:, number], even, (chance - answers[:, 2]).abs(), word)
        rows += self._mistakes(answers, right)
        table = pd.DataFrame(rows).reindex(columns=SCHEMA.names).astype({"layer": "Int64", "example": "Int64"})
        return table.assign(convention=self.convention, examples=len(answers))

    def _mean(self, values: Float[Tensor, " example"]) -> tuple[float, float, float, int]:
        """Return mean, both ends of its interval, and count."""
        count = int((~values.isnan()).sum())
        if count == 0:
            return float("nan"), float("nan"), float("nan"), 0
        low, high = bootstrap(values[:, None], seed=self.context.seed)
        return float(values.nanmean()), float(low), float(high), count

    def _weight_rows(
        self, weights: Tensor, even: Tensor, chosen: Tensor, place: dict[str, Any]
    ) -> list[dict[str, Any]]:
        there = even.where(chosen & ~weights[:, 0, 0, 0].isnan(), torch.nan)
        return [
            _row("weight", *self._mean(one.where(chosen, torch.nan)), **(place | where), even=float(there.nanmean()))
            for where, one in _by_place(weights)
        ]

    def _spearman_rows(self, weights: Tensor, even: Tensor, moved: Tensor, word: str) -> list[dict[str, Any]]:
        rows = []
        for where, one in _by_place(weights):
            both = ~(one.isnan() | moved.isnan())
            found = rank_correlation(one[both], moved[both], seed=self.context.seed)
            alike = rank_correlation(even[both], moved[both], seed=self.context.seed, draws=1)[0]
            rows.append(_row("spearman", *found, int(both.sum()), word=word, **where, even=alike))
        return rows

    def _mistakes(self, answers: Tensor, right: Tensor) -> list[dict[str, Any]]:
        """List misclassified examples, that with the lowest probability of its right class first."""
        labels = [] if self.context.task is None else list(self.context.task.labels)
        found = []
        for index, plural, chance in answers[~right].tolist():
            gold = "plural" if plural else next(label for label in labels if label != "plural")
            found.append((chance if plural else 1 - chance, int(index), gold))
        return [
            _row("probability", value, None, None, 1, example=index, gold=gold, sentence=self.text_of(index)[0])
            for value, index, gold in sorted(found)[: self.listed]
        ]


def _places(trace: Trace) -> list[Tensor]:
    """Tell which tokens are of each of ``WORDS``: of the subject, and of any attractor."""
    return [(trace.tokens["role"] == ROLES.index(word)) & trace.mask for word in WORDS]


def _row(quantity: str, value: float, low: float | None, high: float | None, count: int, **more: Any) -> dict[str, Any]:
    return {"quantity": quantity, "value": value, "low": low, "high": high, "count": count, **more}


def _by_place(weights: Float[Tensor, "example attention method layer"]) -> Iterator[tuple[dict[str, Any], Tensor]]:
    for first, attention in enumerate(ATTENTIONS):
        for second, method in enumerate(METHODS):
            for layer in range(weights.shape[-1]):
                yield {"attention": attention, "method": method, "layer": layer}, weights[:, first, second, layer]


def word_spans(tokenizer: Any, text: str, roles: Sequence[int], role: int, max_length: int) -> list[tuple[int, int]]:
    """Return where the words of a role are in the text, as (start, end) in characters, in order.

    Args:
        tokenizer: A fast one.
        text: What was tokenised.
        roles: Of each token of the text, without padding.
        role: The one that is wanted.
        max_length: Of the text in tokens.
    """
    offsets = tokenizer(text, truncation=True, max_length=max_length, return_offsets_mapping=True)["offset_mapping"]
    found: list[tuple[int, int]] = []
    for (start, end), mine in zip(offsets, roles, strict=True):
        if mine == role and end > start:
            start += len(text[start:end]) - len(text[start:end].lstrip())  # the blank before a word
            if found and not text[found[-1][1] : start]:  # another piece of the same word
                found[-1] = found[-1][0], end
            else:
                found.append((start, end))
    return found


def rank_correlation(
    one: Float[Tensor, " example"], other: Float[Tensor, " example"], *, seed: int, draws: int = 1000
) -> tuple[float, float, float]:
    """Return Spearman's correlation over examples, and the ends of its bootstrap interval; NaN where there is none.

    Ranks are made once; examples are drawn with their ranks.
    """
    nothing = (float("nan"),) * 3
    if len(one) < 3:
        return nothing
    left, right = (torch.from_numpy(stats.rankdata(values.numpy())) for values in (one, other))
    if bool(left.std() == 0) or bool(right.std() == 0):
        return nothing
    times = torch.cat([torch.ones(1, len(one), dtype=torch.float64), times_drawn(draw_again(len(one), draws, seed))])
    size = times.sum(dim=-1)
    means = [times @ values / size for values in (left, right, left * right, left * left, right * right)]
    spread = (means[3] - means[0] ** 2).clamp_min(0).sqrt() * (means[4] - means[1] ** 2).clamp_min(0).sqrt()
    found = torch.where(spread > 0, (means[2] - means[0] * means[1]) / spread.clamp_min(1e-12), torch.nan)
    low, high = torch.nanquantile(found[1:], torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return float(found[0]), low, high
