"""The same texts with tokens removed, blanked or hidden: what does the model answer then?

Perturbed texts run without padding, in batches of one length, and equal ones run once. So does the untouched text
where it is compared with them: the two sides of a difference then come from the same kind of batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from effective_attention.attention.hook import evaluation_mode
from effective_attention.attention.model_facts import text_config_of
from effective_attention.attention.rerun import model_inputs
from effective_attention.attention.trace import Trace, answer_of
from effective_attention.attributions.request import AttributionRequest
from effective_attention.errors import UserError
from effective_attention.progress import Progress

Blank = Literal["unk", "pad"]
_NO_TOKEN = -1  # an id that no token has
ROWS = 256  # sequences that run together
SHOWN_AFTER = 3.0  # seconds
_BLANKS = ("unk_token_id", "mask_token_id", "eos_token_id", "bos_token_id")
_TOKENS = 32_768  # and no more tokens than this, so that long texts do not fill the memory
_TOKENS_ON_CPU = 2048  # where more is no quicker, and for gradients takes gigabytes


@dataclass(frozen=True, eq=False)
class PerturbedTexts:
    """Texts of a batch with a perturbation each.

    Attributes:
        example: Which text.
        keep: Its tokens that are left; at least one, padding not among them.
        blank: Those of them that are blanked.
        hidden: Those of them that stay in their place, but that no token may attend to; None: none of them.
    """

    example: Int[Tensor, " text"]
    keep: Bool[Tensor, "text key"]
    blank: Bool[Tensor, "text key"]
    hidden: Bool[Tensor, "text key"] | None = None


def candidates(trace: Trace, special: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch key"]:
    """Find the tokens that stand for words: real, and not special."""
    if special.shape != trace.mask.shape:
        raise ValueError(
            f"special must be of shape {tuple(trace.mask.shape)} as the tokens, got {tuple(special.shape)}"
        )
    return trace.mask & ~special


def blank_id(tokenizer: Any, kind: Blank = "unk") -> int:
    """Find the id that stands for no word in particular.

    With ``kind="unk"`` that of the unknown token, where there is none of the mask token, and where there is neither, as
    in many decoders, of the one that ends a text, or starts it; with ``"pad"`` padding's.

    Raises:
        UserError: The tokenizer has no such token.
    """
    if kind not in get_args(Blank):
        raise UserError(f"the blank token must be one of {', '.join(get_args(Blank))}, got {kind!r}")
    names = _BLANKS if kind == "unk" else ("pad_token_id",)
    found = [number for number in (getattr(tokenizer, name, None) for name in names) if number is not None]
    if not found:
        wanted = "no unknown, mask, end or start token" if kind == "unk" else "no padding token"
        model = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
        raise UserError(
            f"the tokenizer of {model!r} has {wanted} to blank words with; choose a model whose tokenizer has one"
        )
    return int(found[0])


def rows_together(length: int, device: torch.device, rows: int = ROWS) -> int:
    """Return how many sequences of a length run together: as many as the device is quick with, at most ``rows``.

    >>> [rows_together(length, torch.device("cpu")) for length in (4, 512, 4096)]
    [256, 4, 1]
    """
    tokens = _TOKENS_ON_CPU if device.type == "cpu" else _TOKENS
    return min(rows, max(1, tokens // length))


@torch.no_grad()
def probabilities(
    request: AttributionRequest,
    texts: PerturbedTexts,
    *,
    unk_id: int | None = None,
    rows: int = ROWS,
    title: str | None = None,
) -> Float[Tensor, " text"]:
    """Run the texts and take ``AttributionRequest.probability`` of each, in double precision.

    Args:
        request: The batch and its targets.
        texts: Its perturbed texts.
        unk_id: What blanked tokens become; None: no text blanks any.
        rows: At most so many sequences run together.
        title: Under which is shown how far it has got, if it takes long; None: nothing is shown.
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    if unk_id is None and bool(texts.blank.any()):
        raise ValueError("unk_id must be the id that blanked tokens become, got None")
    found = torch.zeros(len(texts.example), dtype=torch.float64, device=texts.keep.device)
    lengths = texts.keep.sum(dim=-1)
    model = request.trace.model
    shown = progress_of(title, len(texts.example), "shortened texts")
    with evaluation_mode(model), _no_padding(model, unk_id), shown:
        for length in sorted(set(lengths.tolist())):
            chosen = (lengths == length).nonzero()[:, 0]
            example = texts.example[chosen]
            inputs = _shortened(request.trace, texts, chosen, length, unk_id)
            first, place = _distinct(inputs)
            once = {name: value[first] for name, value in inputs.items()}
            answers = []
            for batch in _batches(once, rows_together(length, texts.keep.device, rows)):
                answers.append(answer_of(model(**batch)))
                shown.advance(len(answers[-1]))
            shown.advance(len(chosen) - len(first))  # equal ones ran once
            found[chosen] = request.probability(torch.cat(answers)[place], example)
    return found


def progress_of(title: str | None, total: int, unit: str) -> Progress:
    """Return what shows how far work has got once it takes long; nothing is shown of what has no title."""
    return Progress(title or "", 0 if title is None else total, unit, after=SHOWN_AFTER)


@contextmanager
def _no_padding(model: nn.Module, unk_id: int | None) -> Iterator[None]:
    """Tell the model that nothing is padding, which is so in these texts, where blanks would be taken for it.

    Many decoders are padded with the token that words are blanked with too. Their heads answer from the last token that
    is not that one.
    """
    config = text_config_of(model)
    if config is None:
        yield
        return
    before = config.pad_token_id
    try:
        config.pad_token_id = _NO_TOKEN if before == unk_id else before
        yield
    finally:
        config.pad_token_id = before


def _shortened(
    trace: Trace, texts: PerturbedTexts, chosen: Tensor, length: int, unk_id: int | None
) -> dict[str, Tensor]:
    """Make the model's inputs for texts of one length; what belongs to a token (its type too) goes with it."""
    example = texts.example[chosen]
    places = texts.keep[chosen].nonzero()[:, 1].view(-1, length)  # (text, length)
    inputs = {
        name: value[example].gather(1, places) if value.shape == trace.mask.shape else value[example]
        for name, value in model_inputs(trace).items()
    }
    if unk_id is not None:
        inputs["input_ids"] = inputs["input_ids"].masked_fill(texts.blank[chosen].gather(1, places), unk_id)
    if texts.hidden is not None:
        seen = ~texts.hidden[chosen].gather(1, places)
        inputs["attention_mask"] = seen.to(inputs["input_ids"])
    return inputs


def _distinct(inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Find where each distinct text first stands, and which of them each text is."""
    rows = torch.cat([value.reshape(len(value), -1).double() for value in inputs.values()], dim=1)
    unique, place = torch.unique(rows, dim=0, return_inverse=True)
    numbers = torch.arange(len(rows), device=rows.device)
    first = numbers.new_zeros(len(unique)).scatter_reduce(0, place, numbers, "amin", include_self=False)
    return first, place


def _batches(inputs: dict[str, Tensor], rows: int) -> Iterator[dict[str, Tensor]]:
    for start in range(0, len(inputs["input_ids"]), rows):
        yield {name: value[start : start + rows] for name, value in inputs.items()}
