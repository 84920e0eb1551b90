"""The same texts with tokens removed or blanked: what does the model answer then?

Variants run without padding, in batches of one length, and equal ones run once. So does the untouched text where it
is compared with them: the two sides of a difference then come from the same kind of batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.attention.rerun import model_inputs
from effective_attention.attention.trace import Trace, evaluation_mode
from effective_attention.attributions.request import Asked
from effective_attention.errors import UserError

Blank = Literal["unk", "pad"]
ROWS = 256  # sequences that run together
_TOKENS = 32_768  # and no more tokens than this, so that long texts do not fill the memory


@dataclass(frozen=True, eq=False)
class Variants:
    """Some texts of a batch, changed.

    Attributes:
        example: Which text.
        keep: Its tokens that are left; at least one, padding not among them.
        blank: Those of them that are blanked.
    """

    example: Int[Tensor, variant]
    keep: Bool[Tensor, "variant key"]
    blank: Bool[Tensor, "variant key"]


def candidates(trace: Trace, special: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch key"]:
    """The tokens that stand for words: real, and not special."""
    if special.shape != trace.mask.shape:
        raise ValueError(
            f"special must be of shape {tuple(trace.mask.shape)} as the tokens, got {tuple(special.shape)}"
        )
    return trace.mask & ~special


def blank_id(tokenizer: Any, kind: Blank = "unk") -> int:
    """The id that stands for no word in particular: of the unknown token (of the mask token where there is none), or of padding.

    Raises:
        UserError: The tokenizer has no such token.
    """
    if kind not in get_args(Blank):
        raise UserError(f"the blank token must be one of {', '.join(get_args(Blank))}, got {kind!r}")
    names = ("unk_token_id", "mask_token_id") if kind == "unk" else ("pad_token_id",)
    found = [number for number in (getattr(tokenizer, name, None) for name in names) if number is not None]
    if not found:
        wanted = "neither an unknown nor a mask token" if kind == "unk" else "no padding token"
        model = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
        raise UserError(
            f"the tokenizer of {model!r} has {wanted} to blank words with; choose a model whose tokenizer has one"
        )
    return int(found[0])


@torch.no_grad()
def probabilities(
    asked: Asked, variants: Variants, *, unk_id: int | None = None, rows: int = ROWS
) -> Float[Tensor, variant]:
    """What ``Asked.probability`` says of each variant, in double precision.

    Args:
        asked: The batch and the classes asked about.
        variants: Its changed texts.
        unk_id: What blanked tokens become; None: no variant blanks any.
        rows: At most so many sequences run together.
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    if unk_id is None and bool(variants.blank.any()):
        raise ValueError("unk_id must be the id that blanked tokens become, got None")
    found = torch.zeros(len(variants.example), dtype=torch.float64, device=variants.keep.device)
    lengths = variants.keep.sum(dim=-1)
    with evaluation_mode(asked.trace.model):
        for length in sorted(set(lengths.tolist())):
            chosen = (lengths == length).nonzero()[:, 0]
            example = variants.example[chosen]
            inputs = _shortened(asked.trace, variants, chosen, length, unk_id)
            first, place = _distinct(inputs)
            once = {name: value[first] for name, value in inputs.items()}
            answers = [
                asked.trace.model(**batch).logits for batch in _batches(once, min(rows, max(1, _TOKENS // length)))
            ]
            found[chosen] = asked.probability(torch.cat(answers)[place], example)
    return found


def _shortened(trace: Trace, variants: Variants, chosen: Tensor, length: int, unk_id: int | None) -> dict[str, Tensor]:
    """The model's inputs for variants of one length; what is given for each token (token types too) follows its token."""
    example = variants.example[chosen]
    places = variants.keep[chosen].nonzero()[:, 1].view(-1, length)  # (variant, length)
    inputs = {
        name: value[example].gather(1, places) if value.shape == trace.mask.shape else value[example]
        for name, value in model_inputs(trace).items()
    }
    if unk_id is not None:
        inputs["input_ids"] = inputs["input_ids"].masked_fill(variants.blank[chosen].gather(1, places), unk_id)
    return inputs


def _distinct(inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Where each distinct variant first stands, and which of them each variant is."""
    rows = torch.cat([value.reshape(len(value), -1).double() for value in inputs.values()], dim=1)
    unique, place = torch.unique(rows, dim=0, return_inverse=True)
    numbers = torch.arange(len(rows), device=rows.device)
    first = numbers.new_zeros(len(unique)).scatter_reduce(0, place, numbers, "amin", include_self=False)
    return first, place


def _batches(inputs: dict[str, Tensor], rows: int) -> Iterator[dict[str, Tensor]]:
    for start in range(0, len(inputs["input_ids"]), rows):
        yield {name: value[start : start + rows] for name, value in inputs.items()}
