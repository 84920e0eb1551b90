"""Tables are written as soon as they are finished, each with a fingerprint of everything it depends on.

So a run that was stopped between two analyses, and is resumed, computes only those that are not finished.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from numpy.typing import NDArray

from effective_attention.analyses.common.base import Analysis, SplitAnalysis, Study, TextAnalysis
from effective_attention.analyses.common.subject import Subject
from effective_attention.io import fingerprint, read_table, write_table
from effective_attention.processes import gather, rank_and_world

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinishedTables:
    """The tables of a run directory.

    Attributes:
        folder: The run's.
        earlier: The folder of the run that is resumed, which may be the same; None: none is.
        depends_on: What all tables depend on, as text.
    """

    folder: Path
    earlier: Path | None
    depends_on: str

    def find(self, analyses: Mapping[str, Analysis], options: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
        """Return the tables that need not be computed again; every process gets the same ones."""
        if self.earlier is None:
            return {}
        found: dict[str, pd.DataFrame] = {}
        for name, analysis in analyses.items():
            path = self.earlier / "tables" / name
            table = read_table(path, self.fingerprint(name, options)) if _can_be_kept(analysis) else None
            if table is not None:
                found[name] = table
        names = gather(list(found))[0]  # on a shared disk a process may see less than another
        if names:
            log.info("finished before, and not computed again: %s", ", ".join(names))
        return {name: found[name] for name in names}

    def write(self, name: str, table: pd.DataFrame, options: Mapping[str, Any]) -> None:
        """Keep a table; of several processes the first does."""
        if rank_and_world()[0] == 0:
            write_table(self.folder / "tables" / name, table, fingerprint=self.fingerprint(name, options))

    def fingerprint(self, name: str, options: Mapping[str, Any]) -> str:
        """Digest what one table depends on."""
        own = json.dumps([name, options.get(name)], sort_keys=True, default=str)
        return hashlib.sha256(f"{self.depends_on} {own}".encode()).hexdigest()


def dependencies(subject: Subject, *facts: Any) -> str:
    """Describe what the tables of all analyses depend on: weights, tokens, tags, labels, ``facts``, and this code."""
    encoded = subject.split.encoded
    tags = subject.annotated
    tokens: list[NDArray[Any]] = [encoded.input_ids, encoded.token_type_ids, encoded.offsets]
    tokens += [] if subject.split.verb_ids is None else [subject.split.verb_ids]
    words: list[NDArray[Any]] = [tags.word, tags.upos, tags.xpos, tags.head, tags.relation, tags.kind]
    parts = (
        fingerprint(subject.model, [*tokens, *words]),
        hashlib.sha256(repr((subject.split.examples.labels, subject.split.examples.marks)).encode()).hexdigest(),
        subject.reading,
        subject.data.max_length,
        subject.data.batch_size,
        subject.device.type,
        torch.__version__,
        _code(),
        *facts,
    )
    return repr(parts)


def _can_be_kept(analysis: Analysis) -> bool:
    """Tell whether a table depends on nothing else: ``timing`` shows the clock, and a page is no table."""
    return isinstance(analysis, SplitAnalysis | TextAnalysis | Study) and type(analysis).pages is Analysis.pages


@cache
def _code() -> str:
    """Digest the sources of this package."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
