"""Export the third lot: maps of texts that no net was trained on or chosen by, one half to train, one half to measure.

    python scripts/patterns/export_fresh.py <data folder> <folder of mpnet_base> <folder of smollm2> <weights>

The texts are those of export_real_texts.py that no map was taken of, and those of other files: MRPC, RTE and STS-B
(train), WikiText-2 (valid), the test sentences of the treebank EWT. Groups of odd number are held out. Held-out maps
are drawn at random and by the crude scores of the second lot; no net chooses them. Of the maps for training many are
those of which the net of ``weights`` is least sure: the datasheet says which net that was. The order is shuffled over
both halves, so that who labels does not know the side either.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from export_maps import Map, attend
from export_real_texts import (
    BINS,
    GLUE,
    HERE,
    KINDS,
    PER_HEAD,
    CellDraw,
    Text,
    encode,
    glue_texts,
    group_numbers,
    likely,
    models,
    neither,
    pool,
    source_of,
    tsv_texts,
    wiki_texts,
    write,
)
from measuring import read_net
from numpy.typing import NDArray
from torch import Tensor, nn

from effective_attention.models.pattern_net import to_image

TRAIN_FILES = ("mrpc", "rte", "stsb")
BEYOND = 20000  # added to the groups' numbers: the other lots' are smaller
TEXTS = 20  # looked at per side, bin and model
MAPS = 60  # looked at per text, at random
CELLS = {"held-out": (8, 8, 5, 5), "train": (0, 0, 0, 0), "more": (0, 0)}  # at random per bin, model and attention
LIKELY = {  # per bin and model
    "held-out": {"neither": (6, 6, 4, 4), "squares": (6, 6, 4, 4), "line": (4, 4, 2, 2), "both": (4, 4, 2, 2)},
    "train": {"doubt": (20, 20, 12, 8), "neither": (8, 8, 6, 4), "squares": (8, 8, 6, 4), "both": (6, 6, 0, 0)},
    "more": {"doubt": (10, 10), "neither": (16, 16), "squares": (16, 16)},  # short texts for training
}
SEEDS = {"train": 4, "held-out": 3, "more": 5}
Scorer = Callable[[Tensor, Tensor, bool], dict[str, Tensor]]


def all_texts(data: Path) -> list[Text]:
    texts = [*glue_texts(data / "glue"), *wiki_texts(data / "wiki" / "wikitext2_test.txt")]
    for task in TRAIN_FILES:
        folder, columns = GLUE[task]
        texts += tsv_texts(data / "glue" / folder / "train.tsv", f"{task}_train", columns)
    texts += wiki_texts(data / "wiki" / "wikitext2_valid.txt", "wikitext2_valid")
    return texts + list(treebank_texts(data / "treebank" / "en_ewt-ud-test.conllu"))


def treebank_texts(file: Path) -> Iterator[Text]:
    sentences = [line[9:] for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("# text = ")]
    for row, sentence in enumerate(sentences):
        yield Text("ewt", row, (sentence.strip(),))


def used_texts() -> set[tuple[str, int]]:
    """Name the texts that maps of the second lot were taken of."""
    with (HERE / "maps_real.csv").open() as file:
        return {(row["task"], int(row["text"])) for row in csv.DictReader(file)}


def doubt(net: nn.Module) -> Scorer:
    """Score how little a net prefers its first answer to its second, per (map, 1, 1)."""

    @torch.no_grad()
    def scorer(image: Tensor, attention: Tensor, _causal: bool) -> dict[str, Tensor]:
        length = torch.full((len(image),), attention.shape[-1])
        best = net(image[:, 0], length).softmax(dim=-1).topk(2).values
        return {"doubt": (1 - (best[:, 0] - best[:, 1]))[:, None, None]}

    return scorer


def crude(image: Tensor, attention: Tensor, causal: bool) -> dict[str, Tensor]:
    """Score as the second lot did, by no net."""
    return neither(image, attention, causal) | {"both": likely(image, attention, causal)["both"]}


@dataclass
class Seen:
    """The maps that were looked at in one cell, with their pictures and the scores each of them got."""

    maps: list[Map] = field(default_factory=list)
    pictures: dict[Any, NDArray[np.uint8]] = field(default_factory=dict)
    signs: dict[str, dict[Any, float]] = field(default_factory=dict)

    def add(self, maps: list[Map], image: Tensor, found: dict[str, Tensor]) -> None:
        keys = [m.key for m in maps]
        self.maps += maps
        self.pictures |= zip(keys, (image[:, 0, 0] * 255).round().byte().numpy(), strict=True)
        for sign, values in found.items():
            self.signs.setdefault(sign, {}).update(zip(keys, values.flatten().tolist(), strict=True))


@dataclass(frozen=True)
class Eye:
    """A model that is looked at, and what scores its maps."""

    name: str
    tokenizer: Any
    model: Any
    scorers: list[Scorer]
    generator: np.random.Generator

    def look(self, text: Text, group: int, seen: Seen) -> None:
        """Add some maps of a text, at random."""
        inputs = encode(self.tokenizer, text)
        attention = attend(self.model, inputs)
        length = attention.shape[-1]
        separator = self.tokenizer.sep_token_id
        boundary = inputs["input_ids"][0].tolist().index(separator) if separator is not None else length - 1
        chosen = self.generator.permutation(attention[..., 0, 0].numel())[:MAPS]
        some = attention.flatten(0, 2)[torch.from_numpy(chosen)][:, None, None]
        image = to_image(some[:, 0, 0])[:, :, None]
        found = [score(image, some, separator is None) for score in self.scorers]
        source = (self.name, source_of(text.task), text.task, "pretrained", text.row, group)
        maps = [
            Map("", *source, layer, head, KINDS[kind], length, boundary, "random")
            for kind, layer, head in np.stack(np.unravel_index(chosen, attention.shape[:3]), axis=1).tolist()
        ]
        seen.add(maps, image, {sign: values for one in found for sign, values in one.items()})


def half(
    side: str, texts: list[Text], groups: dict[tuple[str, int], int], folders: list[str], scorers: list[Scorer]
) -> tuple[list[Map], dict[Any, NDArray[np.uint8]]]:
    """Draw the maps of one side, and their pictures."""
    generator = np.random.default_rng(SEEDS[side])
    drawing = CellDraw(generator)
    pictures: dict[Any, NDArray[np.uint8]] = {}
    for name, tokenizer, model in models(*folders):
        eye = Eye(name, tokenizer, model, scorers, generator)
        for number, bounds in enumerate(BINS[: len(CELLS[side])]):
            seen = Seen()
            for text in pool(texts, tokenizer, bounds, generator, TEXTS):
                eye.look(text, groups[text.task, text.row], seen)
            for kind in KINDS:
                drawing.take_cell([m for m in seen.maps if m.attention == kind], CELLS[side][number])
            for sign, counts in LIKELY[side].items():
                drawing.take_likely(seen.maps, seen.signs[sign], counts[number], sign, PER_HEAD)
            pictures |= {m.key: seen.pictures[m.key] for m in drawing.taken if m.key in seen.pictures}
            print(f"{side} {name} {bounds}: {len(drawing.taken)} maps so far", flush=True)
    return drawing.taken, pictures


def main(data: str, mpnet: str, smollm: str, weights: str) -> None:
    texts = all_texts(Path(data))
    groups = {place: number + BEYOND for place, number in group_numbers(texts).items()}
    used = {groups[place] for place in used_texts()}
    doubtful = [crude, doubt(read_net(Path(weights)))]
    taken: list[list[Map]] = []
    pictures: dict[Any, NDArray[np.uint8]] = {}
    for side, odd, scorers in (("train", 0, doubtful), ("held-out", 1, [crude]), ("more", 0, doubtful)):
        if side == "more":
            used |= {m.group for m in taken[0]}
        mine = [t for t in texts if groups[t.task, t.row] not in used and groups[t.task, t.row] % 2 == odd]
        maps, images = half(side, mine, groups, [mpnet, smollm], scorers)
        taken.append(maps)
        pictures |= images
    first, more = [*taken[0], *taken[1]], taken[2]
    order = [first[place] for place in np.random.default_rng(SEEDS["held-out"]).permutation(len(first))]
    order += [more[place] for place in np.random.default_rng(SEEDS["more"]).permutation(len(more))]
    write([replace(one, id=f"f{number:03d}") for number, one in enumerate(order)], pictures, "fresh")


if __name__ == "__main__":
    main(*sys.argv[1:])
