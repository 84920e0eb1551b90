"""Export attention maps of MiniLM on the embedded sample's validation texts, to be looked at and labelled.

    python train.py task=mrpc            # and rte, qnli: the finetuned checkpoints
    python scripts/patterns/export_maps.py mrpc=<run directory> rte=<run directory> qnli=<run directory>

Writes maps.npz (images as ``to_image`` makes them, in 256 steps) and maps.csv (where each comes from). Five hundred are
drawn at random over task, checkpoint, text, layer, head and attention; the rest among the maps that a crude score finds
likely to be of a rare class. The order is shuffled, so that who labels them does not know which is which. DATASHEET.md
says more.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from effective_attention.attention.trace import trace
from effective_attention.data.sources import SampleSource
from effective_attention.data.tasks import Task
from effective_attention.models.checkpoints import read_checkpoint, restore_classifier
from effective_attention.models.encoders import PretrainedEncoder
from effective_attention.models.pattern_net import SIZE, to_image
from effective_attention.models.places import find_checkpoint

HERE = Path(__file__).parent
TASKS = ("mrpc", "rte", "qnli", "sst2", "stsb")
KINDS = ("standard", "effective")
TEXTS = 64  # texts looked at per task and checkpoint
RANDOM = 500  # maps drawn at random
LIKELY = ({"block": 140, "diagonal": 50, "both": 80}, {"block": 120})  # maps drawn because a score says so, in two lots
RARE = ("block", "diagonal", "both")
PER_TEXT = 4  # at most so many maps of one text
PER_HEAD = 6  # at most so many likely maps of one head
AMONG = 6  # likely maps are drawn at random from the best so many times as many
SEED = 0
Key = tuple[Any, ...]
Signs = dict[str, dict[Key, float]]


@dataclass(frozen=True)
class Map:
    """One map and where it comes from; texts that share a sentence, in whatever task, share a ``group``."""

    id: str
    model: str
    source: str
    task: str
    checkpoint: str
    text: int
    group: int
    layer: int
    head: int
    attention: str
    length: int
    boundary: int
    drawn: str

    @property
    def source_text(self) -> tuple[str, int]:
        return self.task, self.text

    @property
    def key(self) -> Key:
        return self.model, self.task, self.checkpoint, self.text, self.layer, self.head, self.attention


def read_task(name: str) -> Task:
    with initialize_config_dir(str(HERE.parents[1] / "conf"), version_base="1.3"):
        return instantiate(compose(overrides=[f"+task={name}"]).task)


def group_texts(texts: dict[str, list[tuple[str, ...]]]) -> dict[tuple[str, int], int]:
    """Number the sets of examples that are connected by a common sentence."""
    parent: dict[str, str] = {}

    def root(sentence: str) -> str:
        while parent.setdefault(sentence, sentence) != sentence:
            sentence = parent[sentence]
        return sentence

    for sentences in (sentences for examples in texts.values() for sentences in examples):
        for other in sentences:
            parent[root(other)] = root(sentences[0])
    numbers: dict[str, int] = {}
    return {
        (task, index): numbers.setdefault(root(sentences[0]), len(numbers))
        for task, examples in texts.items()
        for index, sentences in enumerate(examples)
    }


def attend(model: PreTrainedModel, inputs: Any) -> Tensor:
    """Return all attention of one text, (kind, layer, head, query, key)."""
    layers = trace(model, inputs).layers
    return torch.stack([torch.cat([layer.part(kind) for layer in layers]) for kind in KINDS])


def scores(image: Tensor, attention: Tensor, boundary: int) -> dict[str, Tensor]:
    """Score crude signs of a class for each (kind, layer, head), only to find rare ones: column, diagonal, block."""
    mean = image.mean(dim=(-2, -1)) + 1e-9
    column = image.mean(dim=-2).amax(dim=-1) / mean
    diagonal = torch.stack([image.diagonal(d, -2, -1).mean(dim=-1) for d in range(-3, 4)]).amax(dim=0) / mean
    return {"column": column, "diagonal": diagonal, "block": same_segment(attention.clamp_min(0), boundary)}


def same_segment(attention: Tensor, boundary: int) -> Tensor:
    """Compare attention within a segment with attention across, at the same distance, without delimiters.

    Comparing at the same distance keeps a mere diagonal band from looking like two blocks.
    """
    length = attention.shape[-1]
    segments = min(boundary - 1, length - boundary - 2)  # of the shorter one
    if segments < max(8, length // 4):
        return torch.zeros(attention.shape[:-2])
    position = torch.arange(length)
    second = position > boundary
    same = second[:, None] == second[None]
    real = (position > 0) & (position != boundary) & (position < length - 1)
    distance = (position[:, None] - position[None]).abs() * (real[:, None] & real[None])
    ratios = []
    for d in range(3, segments):
        inside, across = (attention[..., (distance == d) & which].mean(-1) for which in (same, ~same))
        ratios.append(inside / (across + 1e-6))
    return torch.stack(ratios).clamp_max(10).median(dim=0).values


def likely(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Score how likely each rare class is, per (kind, layer, head); 0: not likely."""
    column = found["column"]
    diagonal = found["diagonal"]
    block = found["block"]
    return {
        "block": block * ((block > 1.2) & (diagonal < 4) & (column < 4)),
        "diagonal": diagonal * ((diagonal > 3) & (column < 3)),
        "both": torch.minimum(diagonal, column) * ((diagonal > 2) & (column > 2.5)),
    }


def collect(
    model: PreTrainedModel, task: Task, checkpoint: str, chosen: NDArray[Any], groups: dict[tuple[str, int], int]
) -> tuple[list[Map], dict[Key, NDArray[np.uint8]], Signs]:
    """Collect every map of the chosen texts, with its image and its scores."""
    tokenizer = PretrainedEncoder("minilm").tokenizer()
    texts = SampleSource().load(task, "validation").texts
    maps = []
    images = {}
    signs: Signs = {name: {} for name in RARE}
    for index in sorted(int(i) for i in chosen):
        inputs = tokenizer(*texts[index], return_tensors="pt", truncation="longest_first", max_length=128)
        attention = attend(model, inputs)
        length = attention.shape[-1]
        boundary = inputs["input_ids"][0].tolist().index(tokenizer.sep_token_id)
        image = to_image(attention.flatten(0, 2)).view(*attention.shape[:3], SIZE, SIZE)
        found = likely(scores(image, attention, boundary))
        for kind, layer, head in np.ndindex(*attention.shape[:3]):
            place = (index, groups[task.name, index], layer, head, KINDS[kind], length, boundary)
            entry = Map("", "minilm", "sample", task.name, checkpoint, *place, drawn="random")
            maps.append(entry)
            images[entry.key] = (image[kind, layer, head] * 255).round().byte().numpy()
            for name, score in found.items():
                signs[name][entry.key] = float(score[kind, layer, head])
    return maps, images, signs


class Draw:
    """A draw of maps that takes none twice, and not too many of one text."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self.taken = []
        self.keys = set()
        self.per_text: dict[Any, int] = {}

    def take(self, candidates: list[Map], count: int, drawn: str, per_head: int | None) -> None:
        per_head_taken: dict[Any, int] = {}
        for number in self.generator.permutation(len(candidates)):
            entry = candidates[number]
            head = (entry.checkpoint, entry.layer, entry.head, entry.attention)
            full = per_head is not None and per_head_taken.get(head, 0) >= per_head
            if full or entry.key in self.keys or self.per_text.get(entry.source_text, 0) >= PER_TEXT:
                continue
            if sum(1 for taken in self.taken if taken.drawn == drawn) == count:
                return
            self.taken.append(replace(entry, drawn=drawn))
            self.keys.add(entry.key)
            self.per_text[entry.source_text] = self.per_text.get(entry.source_text, 0) + 1
            per_head_taken[head] = per_head_taken.get(head, 0) + 1


def draw(maps: list[Map], signs: Signs, generator: np.random.Generator) -> list[Map]:
    """Draw the maps in two lots, each shuffled; the second was added because the first held few blocks."""
    drawing = Draw(generator)
    chosen = []
    drawing.take(maps, RANDOM, "random", None)
    for lot in LIKELY:
        for name, count in lot.items():
            ranked = sorted((m for m in maps if signs[name][m.key] > 0), key=lambda m: -signs[name][m.key])
            drawing.take(ranked[: AMONG * count], count, name, PER_HEAD)
        order = generator.permutation(len(drawing.taken))
        chosen += [drawing.taken[i] for i in order]
        drawing.taken = []
    return [replace(entry, id=f"m{number:03d}") for number, entry in enumerate(chosen)]


def models(runs: dict[str, str]) -> list[tuple[Task, str, PreTrainedModel]]:
    pretrained = PretrainedEncoder("minilm").classifier(2).eval()
    found = [(read_task(name), "pretrained", pretrained) for name in TASKS]
    for name, run in runs.items():
        task = read_task(name)
        checkpoint = read_checkpoint(find_checkpoint(run, name), task)
        found.append((task, "finetuned", restore_classifier(checkpoint, task).model.eval()))
    return found


def main(runs: dict[str, str]) -> None:
    generator = np.random.default_rng(SEED)
    groups = group_texts({name: SampleSource().load(read_task(name), "validation").texts for name in TASKS})
    maps = []
    images = {}
    signs = {name: {} for name in RARE}
    for task, checkpoint, model in models(runs):
        texts = [index for name, index in groups if name == task.name]
        found = collect(model, task, checkpoint, generator.permutation(texts)[:TEXTS], groups)
        maps += found[0]
        images |= found[1]
        for name in RARE:
            signs[name] |= found[2][name]
    chosen = draw(maps, signs, generator)
    np.savez_compressed(HERE / "maps.npz", image=np.stack([images[m.key] for m in chosen]), id=[m.id for m in chosen])
    with (HERE / "maps.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(Map.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(m) for m in chosen)
    print(f"{len(chosen)} maps of {len({m.source_text for m in chosen})} texts")


if __name__ == "__main__":
    main(dict(argument.split("=", 1) for argument in sys.argv[1:]))
