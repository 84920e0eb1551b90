"""Which of the persons in a sentence does a masked pronoun look at, and which pronoun does the model expect there?

Abnar & Zuidema (2020), Fig. 4: in "The author talked to Sara about [MASK] book ." a masked language model prefers "his"
or "her"; beside that stands the attention of [MASK] to "author" and to "Sara" in every layer: raw, rollout and flow
(normalised to sum 1). The attention to a referent is the sum over its sub-tokens. ``relative_probability`` is a
candidate's share of what all candidates get together, as in the paper.

Deviations: effective attention is shown too. A referent that occurs more than once is taken at its first place, with a
warning. The model is the pretrained one with its masked-language-model head, never the finetuned classifier, so the
table's ``checkpoint`` is empty; effective attention is read exactly, whatever ``reading`` says.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.attention_graph import METHODS, example_graph, row_maps
from effective_attention.analyses.common.base import Analysis, Context
from effective_attention.analyses.common.options import check_graph_options
from effective_attention.analyses.common.schema import CONVENTION, LAYER, Block, Column, Schema, attention_column
from effective_attention.analyses.common.tables import tidy
from effective_attention.attention.trace import Trace, trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.errors import UserError
from effective_attention.graphs.conventions import RESIDUAL, Convention

log = logging.getLogger(__name__)
_MASK = "[MASK]"
_EXAMPLE = 'text="The author talked to Sara about [MASK] book ." candidates=[his,her] referents=[author,Sara]'
_CHANCES = ("probability", "relative_probability")
SCHEMA = Schema(
    (
        replace(attention_column(*ATTENTIONS), missing=True),
        Column("method", "how attention is followed through the layers", "name", METHODS, key=True, missing=True),
        replace(LAYER, missing=True),
        Column("name", "the referent that is looked at, or the candidate that may fill the gap", "name", key=True),
        Column("quantity", "what the value is", "name", ("attention", *_CHANCES), key=True),
        Column(
            "value",
            "attention of the gap to the referent; the candidate's probability, or its share of that of all candidates",
            low=0,
            high=1,
        ),
        Column("text", "the text with its gap", "name"),
        CONVENTION,
        Column("reading", "of effective attention: always exact", "name", ("exact",)),
        Column("checkpoint", "always empty: the pretrained model is asked", "name", ("",)),
    ),
    blocks=(
        Block({"quantity": _CHANCES}, ("name",)),  # candidates
        Block({"quantity": "attention"}, ("attention", "method", "layer", "name")),  # referents
    ),
)


@dataclass(frozen=True)
class MaskedSentence:
    """A sentence with a gap, in the tokenizer's numbers.

    Attributes:
        inputs: What the model is given.
        mask: Position of the gap.
        candidates: Vocabulary entry of each word that may fill the gap.
        referents: Positions of each referent's sub-tokens.
    """

    inputs: dict[str, Tensor]
    mask: int
    candidates: dict[str, int]
    referents: dict[str, list[int]]


def read_sentence(
    tokenizer: Any, text: str, candidates: Sequence[str], referents: Sequence[str], *, max_length: int
) -> MaskedSentence:
    """Find gap, candidates and referents; the literal [MASK] is read as the tokenizer's mask token.

    Raises:
        UserError: Any of them is missing, ambiguous or not available.
    """
    if tokenizer.mask_token is None or not tokenizer.is_fast:
        raise UserError(
            "analysis pronouns needs a fast tokenizer with a mask token; add model=bert_base or model.name=<hub id>"
        )
    text = text.replace(_MASK, tokenizer.mask_token)
    encoded = tokenizer(text, return_offsets_mapping=True)
    ids = encoded["input_ids"]
    offsets = encoded.pop("offset_mapping")
    if ids.count(tokenizer.mask_token_id) != 1:
        raise UserError(
            f"text must have one {_MASK}, found {ids.count(tokenizer.mask_token_id)}; for example: {_EXAMPLE}"
        )
    if len(ids) > max_length:
        raise UserError(
            f"text has {len(ids)} tokens, more than data.max_length={max_length}; shorten it, or raise that"
        )
    mask = ids.index(tokenizer.mask_token_id)
    return MaskedSentence(
        {name: torch.tensor([values]) for name, values in encoded.items()},
        mask,
        _entries(tokenizer, text, ids, mask, candidates),
        {name: _sub_tokens(name, text, offsets, tokenizer.mask_token) for name in referents},
    )


def _entries(tokenizer: Any, text: str, ids: list[int], mask: int, candidates: Sequence[str]) -> dict[str, int]:
    """Return each candidate's vocabulary entry at this very place; with some tokenizers it holds the space in front."""
    found: dict[str, int] = {}
    for word in candidates:
        filled = tokenizer(text.replace(tokenizer.mask_token, word))["input_ids"]
        known = len(filled) == len(ids) and filled[mask] not in tokenizer.all_special_ids
        if not known or filled[:mask] != ids[:mask] or filled[mask + 1 :] != ids[mask + 1 :]:
            raise UserError(
                f"candidates: {word!r} is not one entry of the tokenizer's vocabulary; choose a more frequent word"
            )
        if filled[mask] in found.values():
            raise UserError(f"candidates: {word!r} is the same vocabulary entry as one before it; name each once")
        found[word] = filled[mask]
    return found


def _sub_tokens(name: str, text: str, offsets: Sequence[tuple[int, int]], mask_token: str) -> list[int]:
    """Return the positions of the tokens that make up a word, or several words, of the text."""
    places = [found.span() for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]
    if not places or name == mask_token:
        words = dict.fromkeys(re.findall(r"\w+", text.replace(mask_token, " ")))
        raise UserError(f"referents: {name!r} is not in the text; its words are {', '.join(words)}")
    if len(places) > 1:
        log.warning("referents: %r occurs %d times in the text; its first place is used", name, len(places))
    start, end = places[0]
    return [position for position, (first, last) in enumerate(offsets) if first < end and last > start]


def attention_to_referents(
    seen: Trace, sentence: MaskedSentence, *, residual: float = RESIDUAL, convention: Convention = "absolute"
) -> Float[Tensor, "attention method layer referent"]:
    """Return the attention of [MASK] to each referent, summed over the referent's sub-tokens."""
    graphs = example_graph(seen, 0, convention)
    maps = [row_maps(graph, sentence.mask, residual=residual) for graph in graphs]
    rows = torch.stack([torch.stack([each[method] for method in METHODS]) for each in maps])
    return torch.stack([rows[..., places].sum(dim=-1) for places in sentence.referents.values()], dim=-1)


class Pronouns(Analysis):
    """A gap, its candidates and its referents; the table is described by ``SCHEMA``.

    ``quantity`` is ``attention`` for referents; ``probability`` and ``relative_probability`` for candidates, which have
    neither attention nor method nor layer.

    Args:
        text: A text with one [MASK].
        candidates: Words that may fill the gap, one vocabulary entry each.
        referents: Words of the text, found whatever their case.
        residual: Weight of the residual connection, from 0 to 1.
        convention: What negative weights become: their ``absolute`` value, or 0 (``positive``); rows then sum to 1
            again.
        text_pair: Not for this analysis.
    """

    schema = SCHEMA
    reads_text = True

    def __init__(
        self,
        *,
        text: object = None,
        candidates: object = None,
        referents: object = None,
        residual: float = RESIDUAL,
        convention: str = "absolute",
        text_pair: object = None,
    ) -> None:
        check_graph_options("pronouns", residual, convention)
        if text is None or not str(text).strip():
            raise UserError(f"analysis pronouns needs a text; for example: {_EXAMPLE}")
        if text_pair is not None:
            raise UserError("analysis pronouns reads one text, text_pair is given too; put both sentences into text")
        self.text = str(text).strip()
        self.candidates = _words("candidates", candidates)
        self.referents = _words("referents", referents)
        self.residual = residual
        self.convention: Convention = convention  # type: ignore[assignment]

    def setup(self, context: Context) -> Analysis:
        """Find the gap, the candidates and the referents; refuse a model without a masked-language-model head."""
        super().setup(context)
        if context.models.masked_lm is None:
            raise UserError("analysis pronouns needs a masked language model; run it with evaluate.py")
        words = (self.candidates, self.referents)
        self.sentence = read_sentence(context.tokenizer, self.text, *words, max_length=context.max_length)
        context.models.masked_lm()  # refused now, not after everything else has run
        return self

    def compute(self) -> pd.DataFrame:
        seen = self._trace()
        weights = attention_to_referents(seen, self.sentence, residual=self.residual, convention=self.convention)
        axes = {
            "attention": ATTENTIONS,
            "method": METHODS,
            "layer": range(weights.shape[2]),
            "name": list(self.sentence.referents),
        }
        chances = seen.logits[0, self.sentence.mask].double().softmax(dim=-1)[list(self.sentence.candidates.values())]
        both = torch.stack([chances, chances / chances.sum()])
        names = {"quantity": _CHANCES, "name": list(self.sentence.candidates)}
        table = pd.concat([tidy(both, names), tidy(weights, axes).assign(quantity="attention")], ignore_index=True)
        said = {"text": self.text, "convention": self.convention, "reading": "exact", "checkpoint": ""}
        return table.astype({"layer": "Int64"}).assign(**said)[SCHEMA.names]

    def _trace(self) -> Trace:
        try:
            return trace(self.context.models.masked_lm(), self.sentence.inputs)  # type: ignore[misc]
        except ValueError as error:
            raise UserError(f"analysis pronouns: {error}") from error


def _words(option: str, given: object) -> list[str]:
    """Check and return a list of words from the command line, which may hold numbers.

    Raises:
        UserError: It is no list of different words.
    """
    if given is None or isinstance(given, str) or not isinstance(given, Sequence) or len(given) < 1:
        raise UserError(f"{option} must be a list of at least one word, got {given!r}; for example: {_EXAMPLE}")
    words = [str(word).strip() for word in given]
    if "" in words or len(set(words)) < len(words):
        raise UserError(f"{option} must be different words, none of them empty, got {words}; for example: {_EXAMPLE}")
    return words
