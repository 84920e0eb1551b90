"""Which tokens of a batch are pieces of which word, as numbers: what measures by words are made with.

A token's number is that of its word in the example, counted from 0; special tokens and padding have -1. Which tokens
belong together, ``words`` says, from the text itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.attention.trace import Trace
from effective_attention.attributions.registry import Pieces
from effective_attention.attributions.words import Word, tokens_of, words_of
from effective_attention.data.own_text import encode_texts

NO_WORD = -1


def encoded_words(tokenizer: Any, texts: Sequence[str], longest: int) -> tuple[Any, list[Word]]:
    """Tokenise a text or a pair, and return the encoding (a batch of one) and its words."""
    encoded = encode_texts(tokenizer, texts, longest, warn=False)
    return encoded, words_of(tokens_of(encoded, texts, tokenizer), texts)


def pieces_in(
    trace: Trace, texts: Sequence[Sequence[str]], tokenizer: Any, longest: int
) -> tuple[Int[Tensor, "batch key"], list[list[Word]]]:
    """Give the tokens of a traced batch the numbers of their words.

    Args:
        trace: The batch.
        texts: Each example's text or pair.
        tokenizer: The one that made its tokens.
        longest: How many tokens an example was cut at.

    Returns:
        The numbers, and the words of each example.

    Raises:
        ValueError: The tokenizer makes other tokens of a text.
    """
    numbers = torch.full(trace.mask.shape, NO_WORD)
    words = []
    for row, parts in enumerate(texts):
        encoded, found = encoded_words(tokenizer, parts, longest)
        places = trace.mask[row].nonzero()[:, 0].cpu()
        ids = trace.inputs["input_ids"][row].cpu()[places]
        if not torch.equal(ids, encoded["input_ids"][0]):
            raise ValueError(f"the tokenizer makes other tokens of a text than those the model was given: {parts!r}")
        for number, word in enumerate(found):
            numbers[row, places[list(word.tokens)]] = number
        words.append(found)
    return numbers.to(trace.mask.device), words


def words_there(numbers: Int[Tensor, "batch key"]) -> Bool[Tensor, "batch word"]:
    """Tell which words each example has; there is room for as many as the longest has, and for one at least.

    >>> words_there(torch.tensor([[-1, 0, 0, 1], [-1, 0, -1, -1]])).tolist()
    [[True, True], [True, False]]
    """
    return members(numbers).any(dim=-1)


def members(numbers: Int[Tensor, "batch key"]) -> Bool[Tensor, "batch word key"]:
    """Tell which tokens are pieces of each word."""
    most = int(numbers.max()) + 1 if numbers.numel() else 0
    words = torch.arange(max(most, 1), device=numbers.device)
    return numbers[:, None] == words[:, None]


def join(
    scores: Float[Tensor, "*any batch key"], numbers: Int[Tensor, "batch key"], how: Pieces
) -> Float[Tensor, "*any batch word"]:
    """Score words by their tokens' scores: the sum, or the largest in absolute value, the first of equals.

    >>> scores = torch.tensor([[9.0, 1.0, -3.0, 2.0]])
    >>> numbers = torch.tensor([[-1, 0, 0, 1]])
    >>> join(scores, numbers, "sum").tolist(), join(scores, numbers, "largest").tolist()
    ([[-2.0, 2.0]], [[-3.0, 2.0]])
    """
    member = members(numbers)
    if how == "sum":
        return torch.einsum("...bk,bwk->...bw", scores.double(), member.double())
    size = torch.where(member, scores.abs()[..., None, :], -1)  # (..., batch, word, key)
    found = scores.gather(-1, size.argmax(dim=-1)).double()
    return torch.where(member.any(dim=-1), found, 0)


def spread(
    of_words: Bool[Tensor, "*any batch word"], numbers: Int[Tensor, "batch key"]
) -> Bool[Tensor, "*any batch key"]:
    """Give every token what its word has; a token without a word nothing.

    >>> spread(torch.tensor([[True, False]]), torch.tensor([[-1, 0, 0, 1]])).tolist()
    [[False, True, True, False]]
    """
    places = numbers.clamp_min(0).expand(*of_words.shape[:-1], numbers.shape[-1])
    return of_words.gather(-1, places) & (numbers != NO_WORD)
