"""How much does a word look at a word?

Models attend between sub-tokens, grammar is about words. The rule is that of Clark et al. (2019), section 4.1:
attention **to** a word is the sum over its sub-tokens, attention **from** a word the mean over its sub-tokens. So a row
of word attention sums to what the word's sub-tokens give to words at all; the rest went to special tokens, which are no
words.

Words are those of the tagger (or of the treebank), punctuation among them, of both texts of a pair. A token outside of
any word is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.attention.trace import Trace

NOT_THERE = -1


@dataclass(frozen=True, eq=False)
class BatchWords:
    """The words of a batch; examples with fewer words than others are filled up with words that are not there.

    Attributes:
        member: 1 where a token is a piece of the word, 0 elsewhere.
        there: Whether the example has as many words.
        head: Number of the word each word depends on, its own for a root; negative: not there, or its head has no
            token.
        relation: Its relation to its head, an index into ``Context.relations``; -1: not there.
    """

    member: Float[Tensor, "batch word key"]
    there: Bool[Tensor, "batch word"]
    head: Int[Tensor, "batch word"]
    relation: Int[Tensor, "batch word"]


@dataclass(frozen=True, eq=False)
class Arcs:
    """Dependent and head of each arc of a batch: a root has none, nor has a word whose head has no token.

    Attributes:
        example: The example's row in the batch.
        dependent: Number of the word.
        head: Number of the word it depends on.
        relation: Relation of the dependent to the head, an index into ``Context.relations``.
    """

    example: Int[Tensor, " arc"]
    dependent: Int[Tensor, " arc"]
    head: Int[Tensor, " arc"]
    relation: Int[Tensor, " arc"]


def words_of(trace: Trace) -> BatchWords:
    """Find which tokens belong to which word, from ``Trace.tokens``; there is always room for one word."""
    word = trace.tokens["word"].masked_fill(~trace.mask, NOT_THERE)  # (batch, key)
    numbers = torch.arange(max(int(word.max()) + 1, 1), device=word.device)
    member = word[:, None] == numbers[:, None]  # (batch, word, key)
    some_token = member.int().argmax(dim=-1)  # all pieces of a word know the same of it
    there = member.any(dim=-1)
    head, relation = (
        trace.tokens[name].gather(-1, some_token).masked_fill(~there, NOT_THERE).long() for name in ("head", "relation")
    )
    return BatchWords(member.double(), there, head, relation)


def arcs_of(words: BatchWords) -> Arcs:
    """List all arcs of a batch, example by example, in the order of the dependents."""
    own = torch.arange(words.head.shape[1], device=words.head.device)
    example, dependent = (words.there & (words.head >= 0) & (words.head != own)).nonzero(as_tuple=True)
    return Arcs(example, dependent, words.head[example, dependent], words.relation[example, dependent])


def word_attention(
    attention: Float[Tensor, "batch head query key"], member: Float[Tensor, "batch word key"]
) -> Float[Tensor, "batch head word other_word"]:
    """Return the attention from each word to each word: mean over sub-tokens of the one, sum over those of the other.

    The naive equivalent is a loop over pairs of words, and one over their sub-tokens.

    Args:
        attention: Attention between tokens, not negative.
        member: Which tokens are pieces of which word, see ``BatchWords``; rows of words that are not there are 0.

    >>> attention = torch.tensor([[[[0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0.6, 0.2, 0.2]]]])
    >>> word_attention(attention, torch.tensor([[[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]))[0, 0]
    tensor([[0.5000, 0.5000],
            [0.8000, 0.2000]])
    """
    member = member.to(attention.dtype)
    average = member / member.sum(dim=-1, keepdim=True).clamp_min(1)
    return torch.einsum("bwq,bhqk,bvk->bhwv", average, attention, member)
