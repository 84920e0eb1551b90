"""Export maps of three models on real texts, 10 to 128 tokens long: the second lot, which is labelled like the first.

    python scripts/patterns/export_real_texts.py <data folder> <folder of mpnet_base> <folder of smollm2>

The data folder holds ``glue/`` (MRPC, RTE, QNLI, STS-B, SST-2 in the classic layout: dev files) and
``wiki/wikitext2_test.txt``. Texts are not written anywhere: maps_real.csv says data set and row, maps_real.npz has the
pictures. Each cell of length, model and attention gets as many maps, drawn at random with layers in turn; a few more
are drawn because a crude score ranks them high for a rare class. The order is shuffled. When the first 600 had turned
out to hold few blocks and heterogeneous maps, likely ones of other texts were added (r600 on), and then more of texts
under 30 tokens, for training alone (r839 on). DATASHEET.md says more.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from export_maps import Draw, Map, attend, group_texts, scores
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from effective_attention.models.encoders import embedded_folder
from effective_attention.models.pattern_net import SIZE, to_image, two_squares

HERE = Path(__file__).parent
KINDS = ("standard", "effective")
BINS = ((10, 14), (15, 29), (30, 59), (60, 128))  # tokens, with the special ones
GLUE = {  # task: folder, columns of the sentences
    "sst2": ("SST-2", (0,)),
    "stsb": ("STS-B", (7, 8)),
    "mrpc": ("MRPC", (3, 4)),
    "rte": ("RTE", (1, 2)),
    "qnli": ("QNLI", (1, 2)),
}
POOL = 36  # texts looked at per bin and model
CELL = 21  # maps drawn at random per bin, model and attention
LIKELY = {"block": 4, "both": 2, "heterogeneous": 2}  # per bin and model
RARE = {bounds: {"neither": count, "squares": count} for bounds, count in zip(BINS, (14, 14, 6, 6), strict=True)}
"""Maps of the added lot, per bin and model."""
SHORT = {bounds: {"neither": 13, "squares": 13, "line": 8} for bounds in BINS[:2]}
"""Maps of the lot for training alone."""
PER_HEAD = 3  # at most so many of the added maps of one head, per bin
AMONG = 6  # likely maps are drawn at random from the best so many times as many
PER_TEXT = 3
FIRST_GROUP = 1000  # the first lot's groups have smaller numbers
SEED = 0


@dataclass(frozen=True)
class Text:
    """One text: where it is, and what it says."""

    task: str
    row: int
    sentences: tuple[str, ...]


def glue_texts(folder: Path) -> Iterator[Text]:
    for task, (name, columns) in GLUE.items():
        yield from tsv_texts(folder / name / "dev.tsv", task, columns)


def tsv_texts(file: Path, task: str, columns: tuple[int, ...]) -> Iterator[Text]:
    for row, line in enumerate(file.read_text(encoding="utf-8-sig").splitlines()[1:]):
        cells = line.split("\t")
        yield Text(task, row, tuple(cells[column].strip() for column in columns))


def wiki_texts(file: Path, name: str = "wikitext2") -> Iterator[Text]:
    """Take paragraphs, and the first sentence of each; ``row`` is the line, from 0. Unknown words are left out."""
    for row, line in enumerate(file.read_text(encoding="utf-8").split("\n")):
        words = re.sub(r" @(.)@ ", r"\1", line.replace("<unk> ", "")).strip()
        if words and not words.startswith("="):
            yield Text(f"{name}_paragraph", row, (words,))
            yield Text(f"{name}_sentence", row, (words.split(" . ")[0].removesuffix(" .") + " .",))


def source_of(task: str) -> str:
    if task.startswith("wikitext2"):
        return "wikitext-2"
    return {"ewt": "ud-ewt", "train": "glue-train"}.get(task.rpartition("_")[-1], "glue-dev")


def group_numbers(texts: list[Text]) -> dict[tuple[str, int], int]:
    """Number the sets of texts that share a sentence; a paragraph and its first sentence do."""
    by_task: dict[str, dict[int, tuple[str, ...]]] = {}
    for text in texts:
        wiki = text.task.startswith("wikitext2")
        line = f"{text.task.rpartition('_')[0]} line {text.row}"
        by_task.setdefault(text.task, {})[text.row] = (line,) if wiki else text.sentences
    numbers = group_texts({task: list(rows.values()) for task, rows in by_task.items()})
    return {
        (task, row): FIRST_GROUP + numbers[task, place]
        for task, rows in by_task.items()
        for place, row in enumerate(rows)
    }


def models(mpnet: str, smollm: str) -> Iterator[tuple[str, Any, Any]]:
    for name, folder, kind in (
        ("minilm", str(embedded_folder()), AutoModel),
        ("mpnet_base", mpnet, AutoModel),
        ("smollm2", smollm, AutoModelForCausalLM),
    ):
        yield name, AutoTokenizer.from_pretrained(folder), kind.from_pretrained(folder).eval()


def encode(tokenizer: Any, text: Text) -> Any:
    """Encode a text; a model without separators reads a pair as one text."""
    sentences = text.sentences if tokenizer.sep_token_id is not None else (" ".join(text.sentences),)
    return tokenizer(*sentences, return_tensors="pt", truncation="longest_first", max_length=BINS[-1][1])


def pool(
    texts: list[Text], tokenizer: Any, bounds: tuple[int, int], generator: np.random.Generator, count: int = POOL
) -> list[Text]:
    """Draw texts of a length, taking the tasks in turn, and no line or pair twice."""
    by_task: dict[str, list[Text]] = {}
    for number in generator.permutation(len(texts)):
        by_task.setdefault(texts[number].task, []).append(texts[number])
    fitting = {
        task: (t for t in some if bounds[0] <= encode(tokenizer, t)["input_ids"].shape[1] <= bounds[1])
        for task, some in by_task.items()
    }
    chosen: list[Text] = []
    for task in cycle(sorted(by_task)):
        if len(chosen) == count or not fitting:
            return chosen
        found = next(fitting[task], None) if task in fitting else None
        if found is None:
            fitting.pop(task, None)
        else:
            chosen.append(found)
    return chosen


def likely(image: Tensor, attention: Tensor, causal: bool) -> dict[str, Tensor]:
    """Score how likely a rare class is, per (kind, layer, head), only to find such maps; 0: not likely."""
    found = scores(image, attention, boundary=0)
    column, diagonal = found["column"], found["diagonal"]
    seen = torch.maximum(image, image.mT) if causal else image  # a causal map has nothing above the diagonal
    squares = two_squares(seen.flatten(0, 2)[:, None]).amax(dim=-1).view(image.shape[:3])
    dull = (column < 4) & (diagonal < 4)
    return {
        "block": squares.clamp_min(0) * dull,
        "both": torch.minimum(diagonal, column) * ((diagonal > 2) & (column > 2.5)),
        "heterogeneous": 1 / (column * diagonal * squares.exp()),
    }


def collect(
    model_name: str,
    tokenizer: Any,
    model: Any,
    texts: list[Text],
    groups: dict[tuple[str, int], int],
    scorer: Callable[[Tensor, Tensor, bool], dict[str, Tensor]],
) -> tuple[list[Map], dict[Any, NDArray[np.uint8]], dict[str, dict[Any, float]]]:
    """Collect every map of the texts, with its image and its scores."""
    maps, images = [], {}
    signs: dict[str, dict[Any, float]] = {}
    for text in texts:
        inputs = encode(tokenizer, text)
        attention = attend(model, inputs)
        length = attention.shape[-1]
        ids = inputs["input_ids"][0].tolist()
        boundary = ids.index(tokenizer.sep_token_id) if tokenizer.sep_token_id is not None else length - 1
        image = to_image(attention.flatten(0, 2)).view(*attention.shape[:3], SIZE, SIZE)
        found = scorer(image, attention, tokenizer.sep_token_id is None)
        for kind, layer, head in np.ndindex(*attention.shape[:3]):
            place = (text.row, groups[text.task, text.row], layer, head, KINDS[kind], length, boundary, "random")
            entry = Map("", model_name, source_of(text.task), text.task, "pretrained", *place)
            maps.append(entry)
            images[entry.key] = (image[kind, layer, head] * 255).round().byte().numpy()
            for name, score in found.items():
                signs.setdefault(name, {})[entry.key] = float(score[kind, layer, head])
    return maps, images, signs


def neither(image: Tensor, attention: Tensor, causal: bool) -> dict[str, Tensor]:
    """Score how little a map has of a column and a diagonal as the guideline wants them, per (kind, layer, head).

    ``squares`` is the same for maps that fall into two squares; ``line`` is high for a diagonal without a column.
    """
    size = image.shape[-1]
    columns = []
    for place in range(size // 2 if causal else size):  # bright only if two thirds of the rows that see it are
        rows = image[..., place if causal else 0 :, place]
        columns.append(rows.kthvalue(max(1, rows.shape[-1] // 3), dim=-1).values)
    cell = round(size / attention.shape[-1])
    offsets = range(-2 * cell, 2 * cell + 1)
    diagonal = torch.stack([image.diagonal(d, -2, -1).median(dim=-1).values for d in offsets]).amax(dim=0)
    plain = 1 / (0.05 + torch.stack(columns).amax(dim=0) + diagonal)
    seen = torch.maximum(image, image.mT) if causal else image
    squares = two_squares(seen.flatten(0, 2)[:, None]).amax(dim=-1).view(image.shape[:3])
    line = diagonal / (0.2 + torch.stack(columns).amax(dim=0))
    return {"neither": plain, "squares": plain * squares.clamp_min(0), "line": line}


class CellDraw(Draw):
    """A draw that never takes one head on one text under both attentions: on short texts the two are the same map."""

    def take_cell(self, candidates: list[Map], count: int) -> None:
        """Take maps of one cell at random, the layers in turn."""
        by_layer: dict[int, list[Map]] = {}
        for number in self.generator.permutation(len(candidates)):
            by_layer.setdefault(candidates[number].layer, []).append(candidates[number])
        layers = cycle(self.generator.permutation(sorted(by_layer)).tolist())
        for _ in range(count):
            mine = by_layer[next(layers)]
            while not self.add(mine.pop(), "cell"):
                pass

    def take_likely(
        self, candidates: list[Map], signs: dict[Any, float], count: int, drawn: str, most: float = np.inf
    ) -> None:
        """Take maps of high scores at random, at most ``most`` of one head."""
        ranked = sorted((m for m in candidates if signs[m.key] > 0), key=lambda m: -signs[m.key])
        ranked = ranked[: AMONG * count]
        per_head: dict[Any, int] = {}
        for number in self.generator.permutation(len(ranked)):
            head = ranked[number].layer, ranked[number].head
            if count == 0:
                return
            if per_head.get(head, 0) < most and self.add(ranked[number], drawn):
                per_head[head] = per_head.get(head, 0) + 1
                count -= 1

    def add(self, entry: Map, drawn: str) -> bool:
        """Take a map, unless its head on that text, or enough of that text, has been taken."""
        head = (entry.model, entry.task, entry.text, entry.layer, entry.head)
        text = (entry.model, *entry.source_text)
        if head in self.keys or self.per_text.get(text, 0) >= PER_TEXT:
            return False
        self.taken.append(replace(entry, drawn=drawn))
        self.keys.add(head)
        self.per_text[text] = self.per_text.get(text, 0) + 1
        return True


def main(data: str, mpnet: str, smollm: str) -> None:
    texts = [*glue_texts(Path(data) / "glue"), *wiki_texts(Path(data) / "wiki" / "wikitext2_test.txt")]
    groups = group_numbers(texts)
    taken: list[Map] = []
    pictures: dict[Any, NDArray[np.uint8]] = {}
    for number, rare in enumerate((None, RARE, SHORT)):
        used = {m.group for m in taken}
        others = [text for text in texts if groups[text.task, text.row] not in used]
        maps, images = lot(others, groups, [mpnet, smollm], np.random.default_rng(SEED + number), rare)
        taken += maps
        pictures |= images
    write([replace(m, id=f"r{number:03d}") for number, m in enumerate(taken)], pictures)


def lot(
    texts: list[Text],
    groups: dict[tuple[str, int], int],
    folders: list[str],
    generator: np.random.Generator,
    rare: dict[tuple[int, int], dict[str, int]] | None,
) -> tuple[list[Map], dict[Any, NDArray[np.uint8]]]:
    """Draw one lot, shuffled, and its pictures; ``rare``: likely maps only, so many per bin."""
    drawing = CellDraw(generator)
    pictures: dict[Any, NDArray[np.uint8]] = {}
    for name, tokenizer, model in models(*folders):
        for bounds in rare or BINS:
            chosen = pool(texts, tokenizer, bounds, generator)
            maps, images, signs = collect(name, tokenizer, model, chosen, groups, neither if rare else likely)
            for kind in () if rare else KINDS:
                drawing.take_cell([m for m in maps if m.attention == kind], CELL)
            for sign, count in (rare[bounds] if rare else LIKELY).items():
                drawing.take_likely(maps, signs[sign], count, sign, PER_HEAD if rare else np.inf)
            pictures |= {m.key: images[m.key] for m in drawing.taken if m.key in images}
            print(f"{name} {bounds}: {len(drawing.taken)} maps so far", flush=True)
    return [drawing.taken[place] for place in generator.permutation(len(drawing.taken))], pictures


def write(maps: list[Map], pictures: dict[Any, NDArray[np.uint8]], lot: str = "real") -> None:
    image = np.stack([pictures[m.key] for m in maps])
    np.savez_compressed(HERE / f"maps_{lot}.npz", image=image, id=[m.id for m in maps])
    with (HERE / f"maps_{lot}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(Map.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(m) for m in maps)


if __name__ == "__main__":
    main(*sys.argv[1:])
