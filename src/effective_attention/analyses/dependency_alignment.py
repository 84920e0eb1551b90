"""How much attention connects words that depend on one another?

Vig & Belinkov (2019), dependency alignment: the share of a head's attention that connects two tokens of which one
depends on the other, summed over the split. Here between words, by the rule of ``analyses.words``, special tokens left
out: relation ``all``, direction ``either``. A word's attention to itself is part of the whole, as in their formula.

Beyond the poster, arc by arc (an arc joins a word and the word it depends on), for ``all`` arcs and for each relation,
in both directions: ``to_head`` is the row of the dependent, ``from_head`` that of the word it depends on. ``share`` is
the weight on the partner divided by the row's total, averaged over arcs; ``hits`` is how often the partner is the word
with the largest weight, the word itself left out (Clark et al. (2019), Table 1; of equal weights that on the first word
counts as the largest). A row without any weight on other words hits nothing.

A share means little alone: words depend on neighbours. So the same is measured on the attention of three fixed rules
that know places only: all weight on the ``previous`` word of the input, all on the ``next`` one, or (``random``) the
same on every word that may be seen, itself too; hits are then those of a random guess among the other words,
1 / (n - 1). What a rule reaches for the same relation, direction and statistic stands beside every head's value. A rule
sees no more than a head does: in a causal model ``next`` finds nothing, and its share of no weight at all is NaN.

The best of many heads, chosen and measured on the same sentences, looks better than it is. So every number comes three
times: on ``all`` texts, on a half to choose on (``choosing``) and on the other to measure on (``measuring``). A text's
tokens alone decide which half it is in, by a hash with a fixed seed: equal texts are in the same half, and so is a text
in every run, whatever its seed, limit or batches. ``offset`` is the fixed place, up to four words away, that finds most
on the choosing half (Clark et al.'s best fixed offset; -1 where nothing was seen there), and ``fixed`` what it reaches
on the row's own sentences.

Deviations: words, not tokens. Effective attention has negative weights; what they become (``convention``) is decided
between sub-tokens, before words are made. Rows are not divided by their sums before the split is added up. What is a
relation is up to the tagger or the treebank; a root has no arc, and a word whose head has no token (cut away) has none
either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_pair_options, is_whole_number
from effective_attention.analyses.common.pairs import counted, counts_first, pair_weights
from effective_attention.analyses.common.samples import random_share
from effective_attention.analyses.common.schema import (
    CONVENTION,
    FIRST_TOKEN,
    HEAD,
    LAYER,
    Block,
    Column,
    Schema,
    attention_column,
    count_column,
)
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.analyses.common.words import Arcs, arcs_of, word_attention, words_of
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.errors import UserError
from effective_attention.graphs.conventions import Convention

BASELINES = ("previous", "next", "random")
OFFSETS = (-1, 1, -2, 2, -3, 3, -4, 4)
RULES = len(OFFSETS) + 1
"""How many fixed rules there are: each of ``OFFSETS``, then ``random``."""
HALVES = ("choosing", "measuring")
SENTENCES = ("all", *HALVES)
DIRECTIONS = ("to_head", "from_head")
STATISTICS = ("share", "hits")
_HEADS = ("attention", "layer", "head")
_SEED = 0  # of the halves; not that of the run, so that seeds of one setting can be averaged
_BASELINE_RULES = {"previous": OFFSETS.index(-1), "next": OFFSETS.index(1), "random": RULES - 1}
SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        LAYER,
        HEAD,
        Column("relation", "between the two words, as the tagger or the treebank names it; all: any", "name", key=True),
        Column("direction", "which of the two words looks at the other", "name", ("either", *DIRECTIONS), key=True),
        Column("statistic", "share of the weight, or how often it is the largest", "name", STATISTICS, key=True),
        Column(
            "sentences", "all, the half to choose heads on, or the half to measure them on", "name", SENTENCES, key=True
        ),
        Column("value", "of this head, from 0 to 1", low=0, high=1),
        Column("previous", "the same if every word looked at the word before it", low=0, high=1),
        Column("next", "the same if every word looked at the word after it", low=0, high=1),
        Column("random", "the same if every word looked at all words evenly, or guessed", low=0, high=1),
        Column(
            "offset",
            "the fixed place that finds most on the choosing half, in words: 1 is the next",
            "whole",
            low=-4,
            high=4,
        ),
        Column("fixed", "the same if every word looked at the word at that offset", low=0, high=1),
        count_column("arcs"),
        FIRST_TOKEN,
        CONVENTION,
    ),
    blocks=(
        Block({"relation": "all", "direction": "either", "statistic": "share"}, (*_HEADS, "sentences")),
        Block({"direction": DIRECTIONS}, (*_HEADS, "relation", "statistic", "sentences")),
    ),
)


def arc_statistics(
    weights: Float[Tensor, "batch head word other_word"], arcs: Arcs
) -> Float[Tensor, "statistic direction arc head"]:
    """Return the share of the row's weight that is on the partner, and 1 where no other word has more.

    Args:
        weights: From each word to each word, not negative; 0 on words that are not there.
        arcs: Of the batch; each is looked at in both of ``DIRECTIONS``.
    """
    total, strongest = weights.sum(dim=-1), strongest_other(weights)  # (batch, head, word)
    found = []
    for word, partner in ((arcs.dependent, arcs.head), (arcs.head, arcs.dependent)):
        row = total[arcs.example, :, word]  # (arc, head)
        share = torch.where(row > 0, weights[arcs.example, :, word, partner] / row.where(row > 0, 1.0), 0.0)
        hit = strongest[arcs.example, :, word] == partner[:, None]
        found.append(torch.stack([share, hit.to(share.dtype)]))
    return torch.stack(found, dim=1)


def strongest_other(weights: Float[Tensor, "batch head word other_word"]) -> Int[Tensor, "batch head word"]:
    """Return the word with the largest weight in each row, itself left out; -1 where no other has any."""
    itself = torch.eye(weights.shape[-1], dtype=torch.bool, device=weights.device)
    largest, place = weights.masked_fill(itself, 0).max(dim=-1)  # the first of equal ones
    return place.where(largest > 0, -1)


def connected(weights: Float[Tensor, "batch head word other_word"], arcs: Arcs) -> Float[Tensor, "batch head"]:
    """Add up the weight, in both directions, between words of which one depends on the other; each pair counts once."""
    related = torch.zeros(weights.shape[0], *weights.shape[2:], dtype=torch.bool, device=weights.device)
    related[arcs.example, arcs.dependent, arcs.head] = True
    example, word, other = (related | related.mT).nonzero(as_tuple=True)
    return weights.new_zeros(weights.shape[:2]).index_add_(0, example, weights[example, :, word, other])


def half_of(ids: Int[Tensor, "batch token"], mask: Bool[Tensor, "batch token"]) -> Int[Tensor, " batch"]:
    """Return which of ``HALVES`` each text is in, by its number; its real tokens alone decide."""
    factors = torch.where(mask, 1_000_003, 1).cumprod(dim=-1)  # wraps around, as a hash may
    return (~random_share(((ids.long() + 1) * factors * mask).sum(dim=-1), 0.5, _SEED)).long()


def fixed_rules(seen: Bool[Tensor, "batch word other_word"]) -> Float[Tensor, "batch rule word other_word"]:
    """Return the attention of each fixed rule: all weight at one of ``OFFSETS``, and last even weight.

    Args:
        seen: Which words each word may see.
    """
    place = torch.arange(seen.shape[-1], device=seen.device)
    return torch.stack([*((seen & (place[:, None] + step == place)).double() for step in OFFSETS), _even(seen)], dim=1)


def fixed_rules_statistics(
    seen: Bool[Tensor, "batch word other_word"], arcs: Arcs
) -> Float[Tensor, "statistic direction arc rule"]:
    """Return ``arc_statistics`` of ``fixed_rules``; hits of ``random`` are those expected of guessing another word."""
    statistics = arc_statistics(fixed_rules(seen), arcs)
    itself = torch.eye(seen.shape[-1], dtype=torch.bool, device=seen.device)
    guess = arc_statistics(_even(seen & ~itself)[:, None], arcs)
    statistics[STATISTICS.index("hits"), ..., -1] = guess[STATISTICS.index("share"), ..., 0]
    return statistics


def best_offset(reached: Float[Tensor, "sentences ... rule"]) -> Int[Tensor, "sentences ..."]:
    """Return which of ``OFFSETS`` finds most on the choosing half, by its number, for all ``SENTENCES`` alike."""
    chosen = reached[SENTENCES.index("choosing"), ..., : len(OFFSETS)].nan_to_num(-1).argmax(dim=-1)
    return chosen.expand(reached.shape[:-1])


def _even(seen: Tensor) -> Tensor:
    return seen.double() / seen.sum(dim=-1, keepdim=True).clamp_min(1)


def check_relation_options(subtypes: object, least: object) -> None:
    """Refuse wrong values of the options that say what a relation is, and which have rows."""
    if not isinstance(subtypes, bool):
        raise UserError(f"analysis.dependency_alignment.subtypes must be true or false, got {subtypes!r}")
    if not is_whole_number(least, 0):
        raise UserError(f"analysis.dependency_alignment.least must be a number of arcs, 0 or more, got {least!r}")


class DependencyAlignment(SplitAnalysis):
    """The weight between related words, by head and relation; ``SCHEMA`` describes the table.

    ``previous``, ``next``, ``random`` and ``fixed`` are what fixed rules reach in place of the head; ``count`` is of
    arcs.

    Args:
        convention: What negative weights become: their ``absolute`` value, or 0 (``positive``).
        subtypes: Whether ``nsubj:pass`` is a relation of its own, or ``nsubj``.
        least: Relations with fewer arcs in the split have no rows, nor have those without any.
        first_token: Whether attention to the first token of a text counts; None: unless the model is causal.
    """

    schema = SCHEMA

    needs_tags = True

    def __init__(
        self,
        *,
        convention: str = "absolute",
        subtypes: bool = False,
        least: int = 50,
        first_token: bool | None = None,
    ) -> None:
        super().__init__()
        check_pair_options("dependency_alignment", False, convention, first_token)
        self.first_token = first_token
        check_relation_options(subtypes, least)
        self.convention: Convention = convention  # type: ignore[assignment]
        self.subtypes = subtypes
        self.least = least

    def setup(self, context: Context) -> Analysis:
        """Give the split's relations numbers, and start sums for each head, fixed rule and relation."""
        super().setup(context)
        self.counts_first = counts_first(self.first_token, context)
        names = [name if self.subtypes else name.split(":")[0] for name in context.split.relations]
        self.relations = sorted(set(names))
        self.numbers = torch.tensor([self.relations.index(name) for name in names], dtype=torch.long)
        self.sources = self._sources()
        halves, sources, relations = len(HALVES), len(self.sources), len(self.relations)
        self.add_sum("arcs", halves, len(STATISTICS), sources, len(DIRECTIONS), relations)
        self.add_sum("count", halves, relations)
        self.add_sum("between", halves, sources)
        self.add_sum("anywhere", halves, sources)
        return self

    def _sources(self) -> list[tuple[str, int, int]]:
        """List the head that each row of the states is of; the last ``RULES`` rows are of the fixed rules."""
        layers, heads = range(self.context.layers), range(self.context.heads)
        found = [(attention, layer, head) for attention in ATTENTIONS for layer in layers for head in heads]
        return found + [("baseline", -1, -1)] * RULES

    def update(self, trace: Trace) -> None:
        words = words_of(trace)
        arcs = arcs_of(words)
        half = half_of(trace.inputs["input_ids"], trace.mask)
        half = torch.nn.functional.one_hot(half, len(HALVES)).double()  # (batch, half)
        relation = self.numbers.to(arcs.relation.device)[arcs.relation]
        is_of = (relation[:, None] == torch.arange(len(self.relations), device=relation.device)).double()
        kinds = half[arcs.example][:, :, None] * is_of[:, None]  # (arc, half, relation)
        for number, layer in enumerate(trace.layers):
            pairs = counted(trace, special_tokens=False, first_token=self.counts_first, layer=layer)
            for variant, attention in enumerate(ATTENTIONS):
                weights = word_attention(pair_weights(layer, attention, pairs, self.convention), words.member)
                start = (variant * self.context.layers + number) * self.context.heads
                self._add(start, weights, arcs, arc_statistics(weights, arcs), kinds, half)
        anywhere = counted(trace, special_tokens=False, first_token=self.counts_first)
        seen = word_attention(anywhere[:, None].double(), words.member)[:, 0] > 0
        start = len(self.sources) - RULES
        self._add(start, fixed_rules(seen), arcs, fixed_rules_statistics(seen, arcs), kinds, half)
        self.count += kinds.sum(dim=0)

    def _add(self, start: int, weights: Tensor, arcs: Arcs, statistics: Tensor, kinds: Tensor, half: Tensor) -> None:
        """Add to the states, from row ``start``: one row for each head of ``weights``."""
        rows = slice(start, start + weights.shape[1])
        self.arcs[:, :, rows] += torch.einsum("sdah,apr->pshdr", statistics.double(), kinds)
        self.between[:, rows] += half.T @ connected(weights, arcs).double()
        self.anywhere[:, rows] += half.T @ weights.sum(dim=(2, 3)).double()

    def compute(self) -> pd.DataFrame:
        arcs, count, between, anywhere = (_with_all(state) for state in self._states())
        kept = (count[0] >= max(self.least, 1)).nonzero()[:, 0]
        relations = ["all", *(self.relations[number] for number in kept.tolist())]
        total = torch.cat([arcs.sum(dim=-1, keepdim=True), arcs[..., kept]], dim=-1)
        behind = torch.cat([count.sum(dim=-1, keepdim=True), count[:, kept]], dim=-1)
        names = {"statistic": STATISTICS, "direction": DIRECTIONS, "relation": relations}
        # (sentences, statistic, source, direction, relation) as (source, sentences, statistic, direction, relation)
        means = mean_over(total, behind[:, None, None, None]).movedim(2, 0)
        by_arc = self._by_head(means, behind[:, None, None].expand(means.shape[1:]), names)
        either = self._by_head((between / anywhere).T, count.sum(dim=-1), {})
        either = either.assign(statistic="share", direction="either", relation="all")
        table = pd.concat([either, by_arc], ignore_index=True).sort_values("source", kind="stable", ignore_index=True)
        return table.assign(first_token=self.counts_first, convention=self.convention)[SCHEMA.names]

    def _states(self) -> tuple[Tensor, ...]:
        return self.arcs, self.count, self.between, self.anywhere

    def _by_head(self, values: Tensor, count: Tensor, names: Mapping[str, Sequence[str]]) -> pd.DataFrame:
        """Return the rows of all heads, each with what the fixed rules reach in the same place.

        Args:
            values: (source, sentences, ...): a row for each of ``self.sources``, and one more axis for each of
                ``names``.
            count: How many arcs are behind each value, (sentences, ...).
            names: The labels along each further axis.
        """
        heads = values[:-RULES]
        rules = values[-RULES:]
        chosen = best_offset(rules.movedim(0, -1))  # (sentences, ...)
        reached = {name: rules[number] for name, number in _BASELINE_RULES.items()}
        reached["offset"] = torch.tensor(OFFSETS, device=values.device)[chosen]
        reached["fixed"] = rules.gather(0, chosen[None])[0]
        axes = {"source": range(len(heads)), "sentences": SENTENCES, **names}
        table = tidy(heads, axes, **reached, count=count.long())
        places = pd.DataFrame(self.sources[: len(heads)], columns=[*_HEADS])
        return table.join(places, on="source")


def _with_all(halves: Tensor) -> Tensor:
    """(half, ...) as (sentences, ...): the sum of both in front."""
    return torch.cat([halves.sum(dim=0, keepdim=True), halves])
