"""Train the embedded tagger: a small spaCy pipeline with parts of speech and dependency trees, on UD English EWT.

Four components share one embedding of a word's lower-cased form, first letter, last three letters and shape, seen
through a window of six words to each side: XPOS tags, UPOS tags, and a transition-based parser that also finds where
sentences end.

Training texts are runs of one to five sentences of a document, drawn anew each epoch, because the texts to be tagged
later may hold several sentences; some are lower-cased, because some corpora (SST-2) are. The weights kept are the
average over the steps, as they scored best on the development split. Everything is drawn from the seed.

    python scripts/train_tagger.py --treebank ../shared/data/treebank --output weights
    python -m effective_attention.data.annotation --treebank ../shared/data/treebank/en_ewt-ud-test.conllu \\
        --tagger weights

The package holds what the first command made, in src/effective_attention/data/tagger/weights.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from spacy.util import fix_random_seed
from spacy.vocab import Vocab
from thinc.api import Adam, warmup_linear

from effective_attention.data.annotation.scoring import Sentence, join, read_treebank, scores
from effective_attention.errors import UserError

META = {
    "name": "effective_attention_ewt",
    "version": "1.0.0",
    "description": "Parts of speech and dependency trees, trained on UD English EWT",
    "license": "CC BY-SA 4.0",
    "spacy_version": ">=3.8,<3.9",
}
WIDTH = 96
DEPTH = 6  # convolutions: a word is seen with six to its left and right
ROWS = {
    "NORM": 5000,
    "PREFIX": 1000,
    "SUFFIX": 2500,
    "SHAPE": 2500,
}  # of the hashed embeddings, most of the size on disk
DROPOUT = 0.15
WARMUP = 250
BATCH_WORDS = (300, 1000)  # small batches first, larger ones as the gradient gets finer
RAMP = 0.3  # share of the steps over which they grow
SINGLE = 0.5  # share of texts that are one sentence; the rest hold two to five
LOWER = 0.1  # share of texts in lower case


def build() -> Language:
    """Build an English pipeline without weights."""
    nlp = spacy.blank("en", meta=META)
    embed = {"attrs": list(ROWS), "rows": list(ROWS.values()), "include_static_vectors": False}
    encode = {"window_size": 1, "maxout_pieces": 3, "depth": DEPTH}
    shared = architecture(
        "Tok2Vec.v2",
        embed=architecture("MultiHashEmbed.v2", width=WIDTH, **embed),
        encode=architecture("MaxoutWindowEncoder.v2", width=WIDTH, **encode),
    )
    listener = architecture("Tok2VecListener.v1", width=WIDTH, upstream="*")
    linear = architecture("Tagger.v2", tok2vec=listener, nO=None)
    transitions = {
        "state_type": "parser",
        "extra_state_tokens": False,
        "hidden_width": 64,
        "maxout_pieces": 2,
        "use_upper": True,
    }
    parser = architecture("TransitionBasedParser.v2", tok2vec=listener, **transitions)
    for name, model in (("tok2vec", shared), ("tagger", linear), ("morphologizer", linear), ("parser", parser)):
        nlp.add_pipe(name, config={"model": model})
    return nlp


def architecture(name: str, **options: Any) -> dict[str, Any]:
    """Describe a model as spaCy's config does."""
    return {"@architectures": f"spacy.{name}", **options}


def example(nlp: Language, sentences: list[Sentence], lower: bool) -> Example:
    """Join consecutive sentences to one text with gold tokens, tags and trees."""
    gold = join(sentences)
    words = [word.lower() if lower else word for word in gold.words]
    doc = Doc(nlp.vocab, words=words, tags=gold.xpos, pos=gold.upos, heads=gold.heads, deps=gold.relations)
    return Example(Doc(nlp.vocab, words=words), doc)


def epoch(nlp: Language, documents: list[list[Sentence]], rng: random.Random) -> list[Example]:
    """Put every sentence once into texts of one to five, shuffled."""
    texts = []
    for document in documents:
        start = 0
        while start < len(document):
            size = 1 if rng.random() < SINGLE else rng.randint(2, 5)
            texts.append(example(nlp, document[start : start + size], lower=rng.random() < LOWER))
            start += size
    rng.shuffle(texts)
    return texts


def batches(nlp: Language, documents: list[list[Sentence]], steps: int, rng: random.Random) -> Iterator[list[Example]]:
    """Yield exactly ``steps`` batches, each of about as many words as its step asks for."""
    low, high = BATCH_WORDS
    sizes = (min(high, low + (high - low) * step / (RAMP * steps)) for step in count())
    done = 0
    while True:
        for batch in minibatch_by_words(epoch(nlp, documents, rng), size=sizes, tolerance=0.2, discard_oversize=False):
            yield batch
            done += 1
            if done == steps:
                return


def train(treebank: Path, output: Path, steps: int, every: int, seed: int) -> None:
    """Train for ``steps`` batches and keep in ``output`` what scored best on the development split."""
    fix_random_seed(seed)
    documents = read_treebank(treebank / "en_ewt-ud-train.conllu")
    dev = [sentence for document in read_treebank(treebank / "en_ewt-ud-dev.conllu") for sentence in document]
    nlp = build()
    examples = epoch(nlp, documents, random.Random(seed))
    nlp.initialize(lambda: examples)
    optimizer = Adam(
        warmup_linear(1e-3, WARMUP, steps), L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=True
    )
    best = 0.0
    began = time.monotonic()
    for step, batch in enumerate(batches(nlp, documents, steps, random.Random(seed)), start=1):
        nlp.update(batch, sgd=optimizer, drop=DROPOUT)
        optimizer.step_schedules()
        if step % every == 0 or step == steps:
            with nlp.use_params(optimizer.averages):
                found = scores(nlp, dev)
                if sum(found.values()) > best:
                    best = sum(found.values())
                    save(nlp, output)
            print(
                f"step {step:6d} {time.monotonic() - began:6.0f} s ",
                *(f"{name} {value:.4f}" for name, value in found.items()),
                flush=True,
            )


def save(nlp: Language, output: Path) -> None:
    """Save the pipeline with a vocabulary of its labels only: the hashed embeddings need no list of words."""
    output.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(output, exclude=["vocab"])
    Vocab(strings=sorted({label for labels in nlp.pipe_labels.values() for label in labels})).to_disk(output / "vocab")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--treebank", type=Path, required=True, help="folder with en_ewt-ud-{train,dev}.conllu")
    parser.add_argument("--output", type=Path, required=True, help="folder for the trained pipeline")
    parser.add_argument("--steps", type=int, default=5000, help="batches of up to 1 000 words (default: %(default)s)")
    parser.add_argument("--every", type=int, default=500, help="steps between scores on dev (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    try:
        train(**vars(parser.parse_args()))
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
