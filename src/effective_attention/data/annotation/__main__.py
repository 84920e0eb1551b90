"""How good a tagger is, with gold words: ``python -m effective_attention.data.annotation --treebank <file.conllu>``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from effective_attention.data.annotation.pipelines import EMBEDDED_NAME, EmbeddedTagger, SpacyTagger
from effective_attention.data.annotation.scoring import Sentence, join, read_treebank, scores
from effective_attention.errors import UserError


def measure(tagger: SpacyTagger, path: Path) -> dict[str, dict[str, float]]:
    """Score a tagger on a treebank: sentence by sentence, in lower case, and on texts of up to five sentences."""
    documents = read_treebank(path)
    single = [sentence for document in documents for sentence in document]
    several = [join(document[start : start + 5]) for document in documents for start in range(0, len(document), 5)]
    return {
        "one sentence a text": scores(tagger.nlp, single),
        "… without punctuation": scores(tagger.nlp, single, punctuation=False),
        "… in lower case": scores(tagger.nlp, [_lower(sentence) for sentence in single]),
        "up to five sentences a text": scores(tagger.nlp, several),
    }


def _lower(sentence: Sentence) -> Sentence:
    return replace(sentence, words=tuple(word.lower() for word in sentence.words))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m effective_attention.data.annotation", description=__doc__)
    parser.add_argument("--treebank", type=Path, required=True, help="CoNLL-U file, such as en_ewt-ud-test.conllu")
    parser.add_argument(
        "--tagger", default=EMBEDDED_NAME, help="spaCy pipeline, by name or folder (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    tagger = EmbeddedTagger() if options.tagger == EMBEDDED_NAME else SpacyTagger(options.tagger)
    try:
        rows = measure(tagger, options.treebank)
    except UserError as error:
        sys.exit(f"error: {error}")
    print(
        f"{tagger.name} on {options.treebank.name}, gold words\n\n{'':28}",
        *(f"{name:>6}" for name in ("UPOS", "XPOS", "UAS", "LAS")),
    )
    for label, found in rows.items():
        print(f"{label:28}", *(f"{100 * value:6.1f}" for value in found.values()))


if __name__ == "__main__":
    main()
