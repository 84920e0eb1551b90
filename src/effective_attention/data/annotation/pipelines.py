"""Find words, parts of speech and dependency trees in raw text, with the embedded tagger or any spaCy pipeline.

spaCy is imported when the first text is tagged, not before: it takes a second, and most commands do not need it.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from effective_attention.errors import UserError, first_line

UPOS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM",
    "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X",
)  # fmt: skip
PENN = (
    "CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NN", "NNS", "NNP", "NNPS", "PDT", "POS", "PRP",
    "PRP$", "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WP$",
    "WRB", "#", "$", "''", "``", ",", ".", ":", "-LRB-", "-RRB-", "ADD", "AFX", "GW", "HYPH", "NFP", "XX",
)  # fmt: skip
"""The Penn Treebank's tags, and those that later treebanks of English add: addresses, affixes, hyphens and the like."""
EMBEDDED_NAME = "embedded"
EMBEDDED_FOLDER = Path(__file__).parent / "weights"
_LOOSE_CONTRACTION = re.compile(r"(?<=\w) (?='(?:t|m|d|s|re|ve|ll)\b)", re.IGNORECASE)
_UNUSED = [
    "ner",
    "lemmatizer",
    "senter",
    "entity_linker",
    "textcat",
]  # parts of a user's pipeline that would only cost time


@dataclass(frozen=True)
class TaggedText:
    """The words of one text, whitespace left out; all tuples have one entry a word.

    Attributes:
        start: First character of each word in the text.
        end: One past its last character.
        upos: Universal part of speech, one of `UPOS`.
        xpos: The pipeline's finer tag (Penn Treebank for English); empty where it has none.
        head: Index of the word's head; a root is its own. One root a sentence, so a text may have several.
        relation: Relation to the head in lower case, ``root`` for a root.
    """

    start: tuple[int, ...]
    end: tuple[int, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    head: tuple[int, ...]
    relation: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start)


class Tagger(Protocol):
    """Any object that finds words, parts of speech and trees.

    Caches rely on ``version``: it changes whenever the results may.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        """Tag each text; return one result per text, in order."""


@dataclass(frozen=True)
class SpacyTagger:
    """An installed spaCy pipeline, or a folder that holds one; it must set parts of speech and dependencies.

    Attributes:
        name: The pipeline, as ``spacy.load`` takes it, for example ``en_core_web_sm``.
    """

    name: str

    @cached_property
    def nlp(self) -> Any:
        """Load the pipeline, and refuse one that sets no parts of speech or no dependencies."""
        import spacy

        try:
            nlp = spacy.load(self.name, exclude=_UNUSED)
        except Exception as error:  # what a damaged pipeline raises depends on where the damage is
            raise UserError(self._explain(error)) from error
        _check(nlp, self.name)
        return nlp

    @property
    def version(self) -> str:
        return f"{metadata.version('spacy')} {self.nlp.meta.get('version')}"

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        """Tokenise each text by the pipeline's own rules, then tag and parse it."""
        docs, starts, ends = zip(*(_tokenise(self.nlp, text) for text in texts), strict=True) if texts else ((), (), ())
        return [_tagged(*parts) for parts in zip(self.nlp.pipe(docs, batch_size=64), starts, ends, strict=True)]

    def _explain(self, error: Exception) -> str:
        reason = first_line(error).rstrip(".")
        if isinstance(error, OSError) and not Path(self.name).exists():
            return (
                f"tagger.name={self.name} is neither an installed spaCy pipeline nor a folder; "
                f"run `python -m spacy download {self.name}`, or leave out tagger=spacy to use the embedded tagger"
            )
        return f"tagger.name={self.name} cannot be loaded ({reason}); reinstall it, or leave out tagger=spacy"


@dataclass(frozen=True)
class EmbeddedTagger(SpacyTagger):
    """The tagger that comes with the package; see ``DATASHEET.md`` beside this file.

    ``scripts/train_tagger.py`` trained it.
    """

    name: str = field(default=EMBEDDED_NAME, init=False)

    @cached_property
    def nlp(self) -> Any:
        try:
            return _load_embedded(EMBEDDED_FOLDER)
        except Exception as error:  # as above
            reason = first_line(error).rstrip(".")
            raise UserError(
                f"embedded tagger {EMBEDDED_FOLDER} is damaged ({reason}); reinstall effective-attention"
            ) from error

    @cached_property
    def version(self) -> str:
        """Return a digest of all the tagger's files, so that new weights never find what old ones left in a cache."""
        digest = hashlib.sha256(metadata.version("spacy").encode())
        for path in sorted(path for path in EMBEDDED_FOLDER.rglob("*") if path.is_file()):
            digest.update(path.relative_to(EMBEDDED_FOLDER).as_posix().encode() + b"|" + path.read_bytes())
        return digest.hexdigest()[:16]


@cache
def _load_embedded(folder: Path) -> Any:
    """Load the embedded pipeline, once in a process: it takes a second, and every analysis of words asks for it."""
    import spacy

    return spacy.load(folder)


def _check(nlp: Any, name: str) -> None:
    doc = nlp("This is a test.")
    missing = [
        what for what, key in (("parts of speech", "POS"), ("dependencies", "DEP")) if not doc.has_annotation(key)
    ]
    if missing:
        found = ", ".join(nlp.pipe_names) or "nothing"
        raise UserError(
            f"tagger.name={name} is a pipeline that sets no {' and no '.join(missing)} (it has: {found}); "
            "choose one with a tagger and a parser, such as en_core_web_sm"
        )


def _tokenise(nlp: Any, text: str) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """Cut a text into words; return them with where each starts and ends.

    A text has any length: only ``nlp(text)`` has a limit. spaCy makes tokens of extra whitespace, and treebanks have
    none: they are left out. Some corpora (MRPC) hold contractions with a blank inside (*doesn 't*), which is closed for
    the tagger only.
    """
    from spacy.tokens import Doc

    blanks = [match.start() - number for number, match in enumerate(_LOOSE_CONTRACTION.finditer(text))]
    doc = nlp.tokenizer(_LOOSE_CONTRACTION.sub("", text))
    words = [token for token in doc if not token.is_space]
    if len(words) < len(doc):
        doc = Doc(doc.vocab, words=[token.text for token in words], spaces=[bool(token.whitespace_) for token in words])
    lasts = [token.idx + len(token) - 1 for token in words]
    starts = tuple(token.idx + bisect_right(blanks, token.idx) for token in words)
    return doc, starts, tuple(last + bisect_right(blanks, last) + 1 for last in lasts)


def _tagged(doc: Any, starts: tuple[int, ...], ends: tuple[int, ...]) -> TaggedText:
    return TaggedText(
        start=starts,
        end=ends,
        upos=tuple(token.pos_ if token.pos_ in UPOS else "X" for token in doc),
        xpos=tuple(token.tag_ for token in doc),
        head=tuple(token.head.i for token in doc),
        relation=tuple(token.dep_.lower() for token in doc),
    )
