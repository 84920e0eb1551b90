"""How much of a hidden token still comes from its own word, and what from which neighbours?

Brunner et al. (2020), section 5 and appendix C, D.2: hidden token attribution. The contribution of input token i to the
hidden embedding of token j in layer l is ``c_ij^l = ||de_j^l/dx_i|| / sum_k ||de_j^l/dx_k||`` (Eq. 11). ``x_i`` is what
the first layer reads: token, segment and position embeddings added up, after the embeddings' LayerNorm where there is
one; ``embeddings=summed`` takes the sum before the LayerNorm instead, which the paper's text describes ("the sum of the
token-, segment- and position embeddings"). Layers are counted from 0: layer 0 is the first layer's output.

The table holds, by ``quantity`` (see ``attribution.statistics`` for each): ``own`` (c_jj; Fig. 3a and, by part of
speech, 26-37), ``not_largest`` (Fig. 3b), ``neighbour`` (Fig. 4a), ``offset`` (Fig. 4b), ``cls`` (Fig. 18: the token
that the model answers from), ``word`` (Fig. 19-25: one token of one text through the layers) and ``error``.

Deviations. The norms are estimated from some random directions, which costs a small part of the exact ones; ``error``
is the estimate's own mean relative standard error, and ``directions=exact`` has none. By default a random sample of the
split is used. Parts of speech are universal ones; ``tags=penn`` takes the Penn Treebank's, as the paper does. Each
finished text is kept, so that a run that is killed goes on; tags are no part of what is kept, so that another run may
split the same contributions by other tags.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import pandas as pd
from jaxtyping import Int
from numpy import ndarray

from effective_attention.analyses.common.base import Analysis, Context, Study
from effective_attention.analyses.common.options import check_example, check_limit, check_one_of, is_whole_number
from effective_attention.analyses.common.samples import sample
from effective_attention.analyses.common.schema import LAYER, Block, Column, Schema
from effective_attention.analyses.token_mixing.first_layer import Embeddings, from_first_layer
from effective_attention.analyses.token_mixing.jacobian import contributions
from effective_attention.analyses.token_mixing.statistics import (
    BOX,
    CLS,
    GROUPS,
    SEP,
    Text,
    all_statistics,
    word_context,
)
from effective_attention.attention.trace import Trace, one_text
from effective_attention.attributions.answer import answer_position
from effective_attention.data.annotation.tagging import KINDS, PENN, UPOS
from effective_attention.errors import UserError, first_line
from effective_attention.io import PartStore, check_disk
from effective_attention.processes import gather, wait_for_others

DIRECTIONS = 28
"""Within 3 % of the exact contributions on MRPC with MiniLM (long texts need most); ``benchmarks/token_mixing.py``."""
_QUANTITIES = ("own", "not_largest", "neighbour", "offset", "cls", "error", "word")
_EMBEDDINGS = get_args(Embeddings)
_TAGSETS = {"universal": ("upos", UPOS), "penn": ("xpos", PENN)}
"""The name of a token's number among the facts of tokens, and the names that are numbered."""
_STATISTICS = (*BOX, "share", "relative", "total", "standard_error")
SCHEMA = Schema(
    (
        Column("quantity", "what is measured, see token_mixing.statistics", "name", _QUANTITIES, key=True),
        LAYER,
        Column("statistic", "of the contributions", "name", _STATISTICS, key=True, missing=True),
        Column(
            "tag",
            "part of speech of the words; '' for all tokens",
            "name",
            tuple(dict.fromkeys(("", *UPOS, CLS, SEP, *PENN))),
            key=True,
            missing=True,
        ),
        Column("group", "how many tokens away the neighbours are", "name", tuple(GROUPS), key=True, missing=True),
        Column(
            "offset",
            "position of the contributing token, from the token or the centre",
            "whole",
            key=True,
            missing=True,
        ),
        Column(
            "centre",
            "where offsets of contributions to the token that the model answers from are counted from: that token "
            "itself (cls), or the first [SEP]",
            "name",
            ("cls", "sep"),
            key=True,
            missing=True,
        ),
        Column("query", "position of the chosen word", "whole", low=0, key=True, missing=True),
        Column("key", "position of the token that contributes to it", "whole", low=0, key=True, missing=True),
        Column("token", "what stands at key", "name", missing=True),
        Column("value", "share of the contributions; of tokens (not_largest); relative (error)", low=0),
        Column("count", "how many tokens or contributions are behind the value", "whole", low=0, missing=True),
        Column("examples", "how many texts of the sample were used", "whole", low=1),
        Column("embeddings", "what contributes: embeddings after their LayerNorm, or before", "name", _EMBEDDINGS),
        Column("tagset", "whose parts of speech: universal ones, or the Penn Treebank's", "name", tuple(_TAGSETS)),
    ),
    blocks=(
        Block({"quantity": "own", "statistic": BOX}, ("layer", "tag")),
        Block({"quantity": "not_largest", "statistic": "share"}, ("layer",)),
        Block({"quantity": "neighbour", "statistic": ("mean", "relative")}, ("layer", "group")),
        Block({"quantity": "offset", "statistic": ("mean", "total")}, ("layer", "offset")),
        Block({"quantity": "cls", "statistic": "total"}, ("layer", "centre", "offset")),
        Block({"quantity": "error", "statistic": "standard_error"}, ("layer",)),
        Block({"quantity": "word"}, ("layer", "query", "key")),
    ),
)
_WHOLE = ("layer", "offset", "query", "key", "count")
_VERSION = 1  # of what a part holds; another number, and nothing kept is taken for it
Part = Mapping[str, Any]


def tag_names(facts: Mapping[str, Int[ndarray, " key"]], tags: str = "universal") -> ndarray:
    """Each token's tag: [CLS], [SEP], its word's part of speech, or nothing."""
    special = {KINDS.index("cls"): CLS, KINDS.index("sep"): SEP}
    fact, known = _TAGSETS[tags]
    numbers = zip(facts["kind"], facts[fact], strict=True)
    names = [special.get(int(kind), known[tag] if tag >= 0 else "") for kind, tag in numbers]
    return np.array(names, dtype=np.str_)


def find_word(choice: int | str, ids: Sequence[int], tokenizer: Any) -> int | None:
    """Where a token is: by its place, as the tokenizer writes it, or as a word, of which it is the first token.

    Of several the first; None: it is not there.
    """
    if isinstance(choice, int):
        return choice if 0 <= choice < len(ids) else None
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    if choice in tokens:
        return int(tokens.index(choice))
    for written in (choice, f" {choice}"):  # byte-level tokenizers tell a word after a space from one without
        wanted = tokenizer(written, add_special_tokens=False)["input_ids"]
        for place in range(len(ids) - len(wanted) + 1) if wanted else ():
            if list(ids[place : place + len(wanted)]) == wanted:
                return place
    return None


class TokenMixing(Study):
    """Table: the columns above, missing where they do not apply; one value per row.

    Args:
        limit: How many random examples; None: all.
        directions: How many random directions at each token, 2 or more; ``exact``, or no fewer than the hidden states
            are wide: all.
        example: Which example of the split the word is in, counted from 0.
        word: The token whose context is followed: its place, counted from 0, or what is written there (its first
            occurrence).
        embeddings: What contributes: ``normalised``, what the first layer reads, or ``summed``, the embeddings before
            their LayerNorm. Where a model has none, both are the same.
        tags: By which parts of speech: ``universal``, or ``penn``, the Penn Treebank's, where the tagger or the data
            has them.
    """

    schema = SCHEMA

    needs_tags: ClassVar[bool] = True
    needs_embeddings: ClassVar[bool] = True
    reads_text: ClassVar[bool] = True

    def __init__(
        self,
        *,
        limit: int | None = 100,
        directions: int | str = DIRECTIONS,
        example: int = 0,
        word: int | str = 1,
        embeddings: str = "normalised",
        tags: str = "universal",
    ) -> None:
        check_limit("analysis.token_mixing.limit", limit)
        _check_directions(directions)
        check_one_of("analysis.token_mixing.embeddings", embeddings, _EMBEDDINGS)
        check_one_of("analysis.token_mixing.tags", tags, list(_TAGSETS))
        if not isinstance(word, int | str) or isinstance(word, bool):
            raise UserError(
                f"analysis.token_mixing.word must be a token's place or what is written there, got {word!r}"
            )
        self.limit = limit
        self.wanted_directions = directions
        self.example = example
        self.word = word
        self.embeddings: Any = embeddings
        self.tags = tags

    def obstacle(self, context: Context) -> str | None:
        """Ask too whether the place is found where the model's first layer reads its input."""
        found = super().obstacle(context)
        if found is not None or context.probe is None:
            return found
        try:
            text = one_text(context.probe, 0)
            with from_first_layer(context.probe.transformer, text, embeddings=self.embeddings):
                return None
        except ValueError as error:
            return first_line(error)

    def setup(self, context: Context) -> Analysis:
        """Choose the texts, find the word, and see what is finished already."""
        super().setup(context)
        self.__dict__.pop("_folder", None)
        self.__dict__.pop("_parts", None)
        self.__dict__.pop("_missing", None)
        check_example("analysis.token_mixing.example", self.example, context)
        wanted = self.wanted_directions
        self.directions = None if wanted == "exact" or int(wanted) >= context.width else int(wanted)
        self._check_word()
        self.sample = sample(context, self.limit).nonzero()[:, 0].tolist() if context.text is None else []
        self.needed = sorted({*self.sample, *([self.example] if context.text is None else [])})
        self._check_tags()
        self._check_disk()
        return self

    # --- before any work ---

    def _check_word(self) -> None:
        text = self.context.text
        token_ids = self.context.split.token_ids
        if text is not None:
            self._place(text.trace.inputs["input_ids"][0][text.trace.mask[0]].tolist())
        elif token_ids is not None:
            self._place(token_ids(self.example))

    def _place(self, ids: Sequence[int]) -> int:
        """Find the chosen word in these tokens, or refuse it."""
        place = find_word(self.word, ids, self.context.tokenizer)
        if place is None:
            tokens = " ".join(self.context.tokenizer.convert_ids_to_tokens(list(ids)))
            raise UserError(
                f"analysis.token_mixing.word must be a token of the text, from 0 to {len(ids) - 1}, or one of its "
                f"words ({tokens}), got {self.word!r}"
            )
        return place

    def _check_tags(self) -> None:
        if self.tags == "penn" and self.sample and not self._has_penn_tags():
            raise UserError(
                "analysis.token_mixing.tags=penn: no word has a tag of the Penn Treebank; take a tagger of English "
                "that has them (tagger=embedded), or tags=universal"
            )

    def _has_penn_tags(self) -> bool:
        return any((self._facts(index)["xpos"] >= 0).any() for index in self.sample)

    def _facts(self, index: int) -> Mapping[str, Any]:
        """Tell what the tokens of an example are."""
        facts = self.context.split.token_facts
        if facts is None:
            raise ValueError("token_mixing needs to know what tokens are (SplitFacts.token_facts)")
        return facts(index)

    def _check_disk(self) -> None:
        context = self.context
        lengths = (
            np.full(context.examples, context.max_length) if context.split.lengths is None else context.split.lengths
        )
        size = 8 * context.layers * int((lengths[self.needed].astype(np.int64) ** 2).sum())  # two numbers of four bytes
        check_disk("analysis.token_mixing", self._folder, size)

    # --- the work ---

    @cached_property
    def _folder(self) -> Path | None:
        options = {"directions": self.directions, "seed": self.context.seed, "version": _VERSION}
        options |= {} if self.embeddings == "normalised" else {"embeddings": self.embeddings}
        return None if self.context.folder is None else self.context.folder("token_mixing", options)

    @cached_property
    def _parts(self) -> PartStore:
        return PartStore(self._folder)

    @cached_property
    def _missing(self) -> set[int]:
        """Examples whose part is not there, or cannot be read."""
        return {index for index in self.needed if self._parts.read(str(index)) is None}

    def wants(self, indices: Sequence[int]) -> bool:
        return not self._missing.isdisjoint(indices)

    def update(self, trace: Trace) -> None:
        for row, index in enumerate(trace.inputs["index"].tolist()):
            if index in self._missing:
                self._parts.write(str(index), self._part(trace, row))
                self._missing.discard(index)

    def _part(self, trace: Trace, row: int) -> dict[str, Any]:
        """All that is kept of a text."""
        options: Any = {"directions": self.directions, "seed": self.context.seed, "embeddings": self.embeddings}
        found = contributions(trace, row, **options)
        real = trace.mask[row]
        numbers = {name: getattr(found, name).float().cpu().numpy() for name in ("shares", "errors")}
        answer = int(real[: int(answer_position(trace)[row])].sum())  # counted without padding
        return {**numbers, "ids": trace.inputs["input_ids"][row][real].cpu().numpy(), "answer": answer}

    # --- the answer ---

    def compute(self) -> pd.DataFrame:
        wait_for_others()
        parts = _from_all({index: part for index in self.needed if (part := self._parts.read(str(index))) is not None})
        texts = [
            Text(part["shares"], part["errors"], tag_names(self._facts(index), self.tags), _answer(part))
            for index, part in ((index, parts[index]) for index in self.sample if index in parts)
        ]
        tables = [all_statistics(texts)] if texts else []
        shown = self._text() if self.context.text is not None else parts.get(self.example)
        if shown is not None:
            ids = shown["ids"].tolist()
            tables.append(
                word_context(shown["shares"], self._place(ids), self.context.tokenizer.convert_ids_to_tokens(ids))
            )
        table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
        table = table.assign(examples=max(len(texts), 1), embeddings=self.embeddings, tagset=self.tags)
        table = table.reindex(columns=SCHEMA.names)
        return table.astype(dict.fromkeys(_WHOLE, "Int64") | {"value": "float64"})

    def _text(self) -> Part:
        """Return the part of the user's text, made once."""
        assert self.context.text is not None
        text = self.context.text.trace
        ids = text.inputs["input_ids"][0][text.mask[0]].cpu().numpy()
        name = f"text-{hashlib.sha256(ids.tobytes()).hexdigest()[:24]}"
        part: Part | None = self._parts.read(name)
        if part is None:
            part = self._part(text, 0)
            self._parts.write(name, part)
        return part


def _answer(part: Part) -> int | None:
    """Return where the model answers from; None in parts that were kept before this was: all are of encoders."""
    return int(part["answer"]) if "answer" in part else None


def _check_directions(directions: Any) -> None:
    if directions != "exact" and not is_whole_number(directions, 2):
        raise UserError(
            f"analysis.token_mixing.directions must be a whole number of 2 or more, or exact, got {directions!r}"
        )


def _from_all(parts: dict[int, Part]) -> dict[int, Part]:
    """Return the parts of all processes: those that share a disk have them already, those that do not send them."""
    known = gather(sorted(parts))
    if all(one == known[0] for one in known):
        return parts
    return {index: part for one in gather(parts) for index, part in one.items()}
