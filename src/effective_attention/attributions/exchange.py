"""The same pairs of texts, the other way round: does an explanation stay where the meaning does?

Whether two sentences say the same (MRPC, QQP, STS-B) does not depend on which comes first. So a pair is read again with
its texts exchanged, and the scores that a method gives to the words are compared with those it gave before. Nothing is
compared but words of both readings; delimiters belong to neither text.

Where exchanging the texts changes which of their words fit into the model's length, or how a word is cut into tokens,
the words that both readings have are compared, whatever pieces they are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from effective_attention.attention.model_facts import text_config_of
from effective_attention.attention.trace import Trace, trace
from effective_attention.attributions.ranking import spearman
from effective_attention.attributions.registry import Pieces
from effective_attention.attributions.word_pieces import NO_WORD, encoded_words, join, members, pieces_in
from effective_attention.attributions.words import Word
from effective_attention.data.annotation.tagging import KINDS
from effective_attention.data.own_text import inputs_for


@dataclass(frozen=True, eq=False)
class Exchange:
    """A batch of pairs, and the same pairs with their texts exchanged.

    Attributes:
        trace: Of the exchanged pairs; ``labels`` and ``index`` are those of the batch.
        words: The tokens of the exchanged pairs that stand for words.
        before: The number of the word each token of the batch is a piece of; -1: of none that both readings have.
        after: The same of the exchanged pairs, with the same numbers.
    """

    trace: Trace
    words: Bool[Tensor, "batch key"]
    before: Int[Tensor, "batch key"]
    after: Int[Tensor, "batch other_key"]

    def stability(
        self,
        before: Float[Tensor, "batch layer key"],
        after: Float[Tensor, "batch layer other_key"],
        pieces: Pieces,
    ) -> Float[Tensor, "batch layer"]:
        """Correlate the ranks of the words' scores in both readings, by absolute value.

        NaN where fewer than two words are in both, or where a score is the same for all words.

        Args:
            before: Scores of the batch's tokens.
            after: Scores of the exchanged pairs' tokens.
            pieces: How tokens' scores are joined to those of words; see ``registry.Method``.
        """
        there = members(self.before).any(dim=-1)[:, None]
        one = join(before.transpose(0, 1), self.before, pieces).transpose(0, 1)  # (batch, layer, word)
        other = join(after.transpose(0, 1), self.after, pieces).transpose(0, 1)
        return spearman(one.abs(), other.abs(), there)


def exchanged(seen: Trace, texts: Sequence[Sequence[str]], tokenizer: Any, longest: int) -> Exchange:
    """Trace pairs again with their texts exchanged.

    Args:
        seen: The batch.
        texts: Each example's two texts, in the order in which they were read.
        tokenizer: The one that made the batch's tokens; a fast one, which knows where they stand.
        longest: How many tokens an example is cut at.

    Raises:
        ValueError: An example is of one text, or the tokenizer makes other tokens of it.
    """
    single = [parts for parts in texts if len(parts) != 2]
    if single:
        raise ValueError(f"only pairs of texts can be exchanged, got {single[0]!r}")
    before, words = pieces_in(seen, texts, tokenizer, longest)
    turned = [encoded_words(tokenizer, parts[::-1], longest) for parts in texts]
    inputs = _batch(seen, [encoded for encoded, _ in turned])
    after, is_word = torch.full_like(inputs["input_ids"], NO_WORD), torch.zeros_like(inputs["input_ids"])
    for row, (_, found) in enumerate(turned):
        numbers = {_place(word): number for number, word in enumerate(words[row])}
        for word in found:
            is_word[row, list(word.tokens)] = 1
            after[row, list(word.tokens)] = numbers.get(_place(word, turned=True), NO_WORD)
    both = (before[:, :, None] == after[:, None, :]).any(dim=-1)  # words that both readings have
    facts = {name: seen.inputs[name] for name in ("labels", "index") if name in seen.inputs}
    tokens = {"kind": _kinds(inputs, is_word.bool(), tokenizer)}
    again = trace(seen.model, {**inputs, **facts}, reading=seen.layers[0].reading, tokens=tokens)
    return Exchange(again, is_word.bool(), before.masked_fill(~both, NO_WORD), after)


def _place(word: Word, *, turned: bool = False) -> tuple[int, int | None, int | None]:
    """Return which text a word stands in, and where."""
    return 1 - word.segment if turned else word.segment, word.start, word.end


def _batch(seen: Trace, encoded: Sequence[Any]) -> dict[str, Tensor]:
    """Make one batch of texts, padded behind, of what the model takes."""
    rows = [inputs_for(seen.model, {"attention_mask": torch.ones_like(one["input_ids"]), **one}) for one in encoded]
    padding = getattr(text_config_of(seen.model), "pad_token_id", None)
    fill = {"input_ids": padding if padding is not None and padding >= 0 else 0}
    return {
        name: pad_sequence([row[name][0] for row in rows], batch_first=True, padding_value=fill.get(name, 0))
        for name in rows[0]
    }


def _kinds(inputs: dict[str, Tensor], is_word: Bool[Tensor, "batch key"], tokenizer: Any) -> Int[Tensor, "batch key"]:
    """Tell words, [CLS] and other special tokens apart; see ``Trace.tokens``."""
    ids = inputs["input_ids"]
    is_cls = ids == (-1 if tokenizer.cls_token_id is None else tokenizer.cls_token_id)
    kinds = torch.full_like(ids, KINDS.index("sep"))
    kinds = kinds.masked_fill(is_cls, KINDS.index("cls")).masked_fill(is_word, KINDS.index("word"))
    return kinds.masked_fill(~inputs["attention_mask"].bool(), -1)
