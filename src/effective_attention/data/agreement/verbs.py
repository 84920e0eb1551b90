"""A verb's two forms as tokens: how a language model is asked for the verb's number (``head=verb``).

The text ends before the verb, and the model says how probable each form is as the next token. A form is what the
tokenizer makes of it behind another word, a blank between; of a form of several tokens the first is asked for, which is
where two forms differ unless they begin alike.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effective_attention.data.examples import Examples
from effective_attention.errors import UserError

log = logging.getLogger(__name__)
Forms = tuple[str, str]  # singular, plural
DEFAULT: Forms = ("is", "are")
"""Asked for where a text comes without its verb."""
_BEFORE = "the"


def ids_behind(tokenizer: Any, word: str) -> list[int]:
    """Return the tokens of a word that stands behind another; none where the tokenizer joins it to that one."""
    before, both = (
        list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
        for text in (_BEFORE, f"{_BEFORE} {word}")
    )
    return both[len(before) :] if both[: len(before)] == before else []


def check_ends(tokenizer: Any) -> None:
    """Refuse a tokenizer that sets a token behind a text: no verb follows that.

    Raises:
        UserError: Names the token.
    """
    bare, whole = (tokenizer(_BEFORE, add_special_tokens=added)["input_ids"] for added in (False, True))
    if bare and whole[-1] != bare[-1]:
        token = tokenizer.convert_ids_to_tokens([whole[-1]])[0]
        raise UserError(f"head=verb: the tokenizer ends every text with {token!r}, and no verb follows that; "
                        "choose a causal language model, such as model=smollm2")  # fmt: skip


def first_tokens(verbs: Sequence[Forms], tokenizer: Any) -> NDArray[np.int64]:
    """Return the first token of each verb's singular and plural, (verb, 2).

    Raises:
        UserError: The tokenizer joins words, so that a verb has no tokens of its own.
    """

    @cache
    def first(form: str) -> int:
        found = ids_behind(tokenizer, form)
        if not found:
            raise UserError(f"head=verb: the tokenizer gives {form!r} no token of its own; choose another model")
        return found[0]

    return np.array([[first(form) for form in forms] for forms in verbs], dtype=np.int64).reshape(-1, 2)


def askable(examples: Examples, cut: NDArray[np.bool_], tokenizer: Any) -> Examples:
    """Leave out, and count in a line, the texts after which a language model cannot be asked for the verb.

    Args:
        examples: With their verbs.
        cut: Which texts are cut at ``data.max_length``, so that the verb does not follow.
        tokenizer: The model's.

    Raises:
        UserError: The source knows no verbs, or none is left.
    """
    if examples.verbs is None:
        raise UserError(f"head=verb: {examples.source} does not tell which verb follows; leave head=verb out")
    tokens = first_tokens(examples.verbs, tokenizer)
    alike = tokens[:, 0] == tokens[:, 1]
    left = ~(alike | cut)
    if not left.any():
        raise UserError(f"head=verb: no verb of {examples.source} can be asked for; choose another model or task")
    if not left.all():
        log.info(
            "left out of %d sentences: %d whose verb begins with the same token in both numbers, %d that are cut "
            "before their verb", len(left), int(alike.sum()), int((cut & ~alike).sum()),
        )  # fmt: skip
    return examples.choose(np.flatnonzero(left).tolist())
