"""Turn a WikiText file into sentences, one a line: ``python benchmarks/wikitext_sentences.py IN OUT``.

WikiText has a paragraph a line, blanks around every mark, ``@-@`` for a hyphen inside a word and ``<unk>`` for rare
words. Headings and sentences with ``<unk>``, which no model has seen in real text, are left out; hyphens and most
blanks are put back as they were. Blanks stay around a quotation mark without a partner in its sentence, around single
quotes and apostrophes that are no common ending (``Chang 'an``), and after a bracket that begins a sentence. A sentence
ends at a mark with a blank on both sides, so that ``Mr.`` and ``3.5`` end none.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LEAST_WORDS = 10
_REWRITTEN = (
    (r" @(.)@ ", r"\1"),
    (r" ([,.;:!?%)\]]|'s|'t|'d|'m|'ll|'re|'ve|n't)(?= |$)", r"\1"),
    (r"(?<= )([(\[$£]) ", r"\1"),
    (r'"\s?([^"]*?)\s?"', r'"\1"'),
)


def sentences(lines: Iterator[str]) -> Iterator[str]:
    """Yield the sentences of ``LEAST_WORDS`` words or more."""
    for line in (line.strip() for line in lines):
        if line.startswith("= "):
            continue
        for sentence in re.split(r"(?<= [.!?]) (?=\S)", line):
            if "<unk>" not in sentence and len(sentence.split()) >= LEAST_WORDS:
                yield rewritten(sentence)


def rewritten(sentence: str) -> str:
    """Undo WikiText's tokenisation.

    >>> rewritten('He said : " no " , a low @-@ cost ( cheap ) 3 @.@ 5 % of it .')
    'He said: "no", a low-cost (cheap) 3.5% of it.'
    """
    for pattern, replacement in _REWRITTEN:
        sentence = re.sub(pattern, replacement, sentence)
    return sentence


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    with source.open(encoding="utf-8") as lines:
        found = list(sentences(lines))
    target.write_text("\n".join(found) + "\n", encoding="utf-8")
    print(f"{len(found)} sentences in {target}")
