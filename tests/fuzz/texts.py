"""Generated texts, tokenised, traced and analysed with a tiny model: finite tables, or a refusal in one line."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from effective_attention import analyse
from effective_attention.errors import UserError
from fuzz.lines import problem_with

Case = tuple[str | tuple[str, str], ...]
PIECES = (
    "A cat sat.", " ", "\t", "\n", "\0", "\x1b[2J", "\ufeff", "\u200b", "\u200d", "\u2028", "\u202e", "é",
    "e\u0301", "\u0301" * 40, "😀", "👩‍👩‍👧‍👦", "🇩🇪", "\U0010ffff", "\ufffe", "漢字", "עברית", "ﷺ", "[CLS]",
    "[SEP]", "[PAD]", "[MASK]", "[UNK]", "##s", "'s", "=1+1", "<script>", "${oc.env:HOME}", "%s{}", "x" * 300,
    "a b " * 200, "!?" * 50, "ﬃ", "İ", "\u00ad", "0", "-1", "\ud83d", "\udc00",
)  # fmt: skip
ANALYSES = ("distance", "null_space", "token_type_profile")


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield texts, or pairs of texts, that run in one batch."""
    draw = random.Random(seed)
    for _ in range(count):
        pair = draw.random() < 0.3
        number = draw.choice((1, 1, 2, 3))
        yield tuple((_text(draw), _text(draw)) if pair else _text(draw) for _ in range(number))


def _text(draw: random.Random) -> str:
    if draw.random() < 0.2:
        return "".join(
            chr(draw.choice((draw.randrange(0x110000), draw.randrange(0x3000), draw.randrange(128)))) for _ in range(20)
        )
    return "".join(draw.choice(PIECES) for _ in range(draw.choice((0, 1, 2, 4, 9))))


@cache
def _subject() -> tuple[Any, Any]:
    import torch

    from effective_attention.models.encoders import TinyEncoder

    torch.manual_seed(0)
    encoder = TinyEncoder(layers=1, heads=2, width=8)
    return encoder.classifier(2).eval(), encoder.tokenizer()


def check(case: Case) -> str | None:
    """Say what is wrong with how texts are analysed."""
    model, tokenizer = _subject()
    try:
        tables = analyse(model, tokenizer, list(case), ANALYSES, max_length=64, progress=False)
    except (UserError, ValueError) as error:
        return problem_with(error)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    for name, table in tables.items():
        numbers = table.select_dtypes("number").to_numpy(dtype=float, na_value=np.nan)
        if np.isinf(numbers).any() or not len(table):
            return f"{name}: a number is infinite, or there is none"
    return None
