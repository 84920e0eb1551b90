"""Generated checkpoints, a good one changed by a stranger's hand: one line, or a model that answers."""

from __future__ import annotations

import io
import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

from effective_attention.errors import UserError
from effective_attention.models.checkpoints import read_checkpoint, restore_classifier
from effective_attention.models.classifier import CHECKPOINT_KEY
from fuzz.files import task
from fuzz.lines import problem_with
from helpers.checkpoints import tiny_checkpoint

Case = tuple[int, str]
"""Seed of the change, and the kind of change."""
KINDS = ("architecture", "architecture", "architecture", "origin", "encoder", "weights", "top", "types", "bytes")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 7, -1, 8, 64, 2**20, 2**31, 10**12, 10**18, 10**30, 0.0, 0.5, -0.5, 1e308,
    float("nan"), float("inf"), "", "bert", "gpt2", "x" * 10_000, "\n\x1b", "../..", "stranger/repo", "float32",
    "gelu", "relu", "gelu_new", "absolute", "relative_key", [], [1], [[]], ["a"] * 50, {}, {"0": "a"},
    {"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}, (1, 2), b"bytes", {1: 2}, {None: 1}, {("a", 1): 2},
    torch.ones(3), torch.ones(()), 1j, set(),
)  # fmt: skip
ODD = (
    "attn_implementation",
    "auto_map",
    "quantization_config",
    "use_kernels",
    "per_layer_config",
    "torch_dtype",
    "num_labels",
    "x",
)
TYPES = ("gpt2", "roberta", "distilbert", "albert", "xlnet", "llama", "vit", "t5", "mobilebert", "funnel", "nothing")


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield changes."""
    draw = random.Random(seed)
    for _ in range(count):
        yield draw.getrandbits(40), draw.choice(KINDS)


def check(case: Case) -> str | None:
    """Say what is wrong with how a checkpoint is read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.ckpt"
        path.write_bytes(_content(case))
        try:
            classifier = restore_classifier(read_checkpoint(path, task("mrpc")), task("mrpc"))
        except UserError as error:
            return problem_with(error)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
    logits = classifier.eval()(
        {"input_ids": torch.tensor([[101, 2009, 102]]), "attention_mask": torch.ones(1, 3).long()}
    )
    return None if logits.shape == (1, 2) else f"logits of shape {tuple(logits.shape)}"


def _content(case: Case) -> bytes:
    seed, kind = case
    draw = random.Random(seed)
    if kind == "bytes":
        return _damaged(draw)
    checkpoint = tiny_checkpoint()
    origin = checkpoint[CHECKPOINT_KEY]
    places = {"top": checkpoint, "origin": origin} | {name: origin[name] for name in ("architecture", "encoder")}
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        if kind == "weights":
            _change_weights(draw, checkpoint["state_dict"])
        elif kind == "types":
            origin["architecture"]["model_type"] = draw.choice(TYPES)
        else:
            _change(places[kind], draw)
    return _saved(checkpoint)


def _change(entry: dict[Any, Any], draw: random.Random) -> None:
    """Replace, add or take away an entry."""
    known = sorted(entry, key=str)
    if known and draw.random() < 0.2:
        del entry[draw.choice(known)]
    else:
        entry[draw.choice((*known, *ODD))] = draw.choice(VALUES)


def _change_weights(draw: random.Random, state: dict[Any, Any]) -> None:
    """Put something else in the place of a weight, or beside it."""
    name, old = draw.choice(list(tiny_checkpoint()["state_dict"].items()))
    new: list[Any] = [draw.choice(VALUES), torch.zeros(7), torch.zeros(1).expand(10**9, 8), torch.zeros(0)]
    new += [old.double(), old.half(), old.long(), old.to(torch.complex64), old.to_sparse(), old.to("meta")]
    new += [old[None], old[:1], old.mT.clone().mT if old.ndim == 2 else old]
    state[draw.choice((name, name, f"model.{name}", name.removeprefix("model."), 5, "x" * 2000))] = draw.choice(new)


def _saved(checkpoint: Any) -> bytes:
    out = io.BytesIO()
    torch.save(checkpoint, out)
    return out.getvalue()


@cache
def _good() -> bytes:
    return _saved(tiny_checkpoint())


def _damaged(draw: random.Random) -> bytes:
    content = bytearray(_good())
    if draw.random() < 0.3:
        del content[draw.randrange(len(content)) :]
    # Most of the file is numbers, in which a change is another model: aim at its ends, where the structure is.
    reach = min(len(content), 6000)
    for _ in range(draw.choice((1, 3, 30)) if content else 0):
        place = draw.randrange(reach)
        content[place if draw.random() < 0.5 else -1 - place] = draw.randrange(256)
    return bytes(content)
