"""Hidden token attribution: how good is the estimate of the contributions, and what does it cost beside other ways?

    python benchmarks/token_mixing.py     # 20 texts of MRPC dev with MiniLM: half an hour on one free core
    python benchmarks/token_mixing.py --texts 3 --rounds 1

Error: |estimate - exact| / exact of the contributions c, averaged over blocks (layer, query, key). All blocks of 20
texts would take hours, so the truth is made for random rows: in each text and layer one hidden token, whose exact
contributions from all inputs come from one backward pass for each of its coordinates; another way than the estimate's,
so that it checks the way too. The estimate is made along the most directions of the table; any k of them are k random
orthonormal directions, so that fewer are tried on disjoint sets of the same passes. The stated error is the estimate's
own standard error; its ratio to the true error (root mean squares) should be 1. What was found of a text is kept in
--cache.

Cost: the ways take turns in every round, on one text each round; a ratio is between times of the same round, and the
table shows the median and the quartiles. The slow ways are timed on a random sample and scaled to all they would have
to do:

- naive reverse: one backward pass (`torch.autograd.grad`) for each coordinate of each layer's output.
- batched reverse: the same, many coordinates at a time (`is_grads_batched`).
- forward, exact: `width` directions at every position; scaled from as many passes as the estimate has.
- forward, estimate: what `analysis=token_mixing` does, in full.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from rich.progress import track
from torch import Tensor

from effective_attention.analyses.common.subject import Subject
from effective_attention.analyses.token_mixing.analysis import DIRECTIONS
from effective_attention.analyses.token_mixing.first_layer import Hidden, from_first_layer
from effective_attention.analyses.token_mixing.jacobian import (
    contributions,
    estimate,
    normalise,
    random_directions,
    squared_norms,
)
from effective_attention.attention.trace import Trace, one_text
from effective_attention.data.annotation.tagging import annotate
from effective_attention.data.datamodule import TextDataModule
from effective_attention.io import PartStore

CONF = Path(__file__).resolve().parents[1] / "conf"
COUNTS = (8, 16, 24, DIRECTIONS)


def set_up(glue: Path, cache: Path) -> Subject:
    """Set up MRPC dev, or the sample where there is no GLUE, with the pretrained MiniLM."""
    source = ["data=local", f"data.dir={glue}"] if glue.exists() else ["data=sample"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("evaluate", overrides=["task=mrpc", *source])
    task = instantiate(cfg.task)
    encoder = instantiate(cfg.model)
    options: dict[str, Any] = {"batch_size": 1, "max_length": 128, "padding": "longest", "limit_eval": None}
    data = TextDataModule(task, instantiate(cfg.data.source), encoder.tokenizer(), **options, token_cache=str(cache))
    torch.manual_seed(0)  # of the head, which plays no part but is a part of the cache's name
    model = encoder.classifier(task.num_outputs).eval()
    split = data.split("validation")
    annotated = annotate(split.examples.texts, data.tokenizer, data.max_length, None, None)
    return Subject(model, None, data, split, annotated, torch.device("cpu"))


def choose(subject: Subject, count: int) -> list[int]:
    """Choose texts evenly spaced from the shortest to the longest, so that lengths are as in the data."""
    order = np.argsort(subject.split.encoded.lengths, kind="stable")
    return [int(order[place]) for place in np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int)]


# --- error ---


@dataclass(frozen=True)
class Rows:
    """One random row of each layer.

    ``exact`` holds squared norms (layer, 1, key), ``samples`` the estimate's (layer, 1, key, direction).
    """

    exact: Tensor
    samples: Tensor
    width: int


def make_rows(seen: Trace, directions: int, seed: int) -> Rows:
    with from_first_layer(seen.model, one_text(seen, 0)) as (run, x):
        size, width = x.shape[1:]
        queries = torch.randint(size, (len(seen.layers),), generator=torch.Generator().manual_seed(seed))
        start = x.clone().requires_grad_()
        pairs = zip(run(start), queries.tolist(), strict=True)
        exact = torch.stack([exact_row(layer, start, query) for layer, query in pairs])
        with torch.no_grad():
            samples = squared_norms(run, x, random_directions(width, directions, seed).to(x), keep=True)
    return Rows(exact[:, None], samples[torch.arange(len(queries)), queries][:, None], width)


def exact_row(layer: Tensor, x: Tensor, query: int) -> Tensor:
    """Return the squared norms of a hidden token's blocks, (key,): every coordinate of it, some at a time."""
    channels = torch.arange(layer.shape[-1]).split(64)
    parts = [batched(layer, x, torch.full_like(some, query), some).double().sum(dim=0) for some in channels]
    return sum(parts)  # type: ignore[return-value]


def known_rows(subject: Subject, index: int, kept: PartStore) -> Rows:
    found = kept.read(str(index))
    if found is None:
        rows = make_rows(subject.trace([index]), max(COUNTS), seed=index)
        found = {"exact": rows.exact.numpy(), "samples": rows.samples.numpy(), "width": np.array(rows.width)}
        kept.write(str(index), found)
    return Rows(torch.from_numpy(found["exact"]), torch.from_numpy(found["samples"]), int(found["width"]))


def errors(rows: Rows, count: int) -> tuple[Tensor, Tensor]:
    """Return the relative errors of c, true and stated, over disjoint sets of directions."""
    exact = normalise(rows.exact).shares
    sets = [one for one in rows.samples.split(count, dim=-1) if one.shape[-1] == count]
    made = [estimate(one, rows.width) for one in sets]
    return torch.stack([(one.shares - exact) / exact for one in made]), torch.stack(
        [one.errors / exact for one in made]
    )


def error_table(subject: Subject, indices: list[int], kept: PartStore) -> str:
    found: dict[int, list[tuple[Tensor, Tensor]]] = {count: [] for count in COUNTS}
    for index in track(indices, description="exact contributions"):
        rows = known_rows(subject, index, kept)
        for count in COUNTS:
            found[count].append(errors(rows, count))
    lines = ["| directions | error of c | by text | stated / true error |", "|---|---|---|---|"]
    for count, pairs in found.items():
        means = [float(true.abs().mean()) for true, _ in pairs]
        true, stated = (torch.cat([pair[side].flatten() for pair in pairs]).square().mean().sqrt() for side in (0, 1))
        spread = f"{min(means):.1%} to {max(means):.1%}"
        lines.append(f"| {count} | {statistics.mean(means):.2%} | {spread} | {float(stated / true):.2f} |")
    return "\n".join(lines)


# --- cost ---


def sampled(run: Hidden, x: Tensor, count: int, backward: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> float:
    """Estimate the seconds a reverse way needs for all coordinates, from ``count`` random ones of every layer."""
    x = x.clone().requires_grad_()
    hidden = run(x)
    size, width = x.shape[1:]
    seconds = 0.0
    for layer in hidden:
        places, channels = torch.randint(size, (count,)), torch.randint(width, (count,))
        begin = time.perf_counter()
        backward(layer, x, places, channels)
        seconds += (time.perf_counter() - begin) / count * size * width
    return seconds


def naive(layer: Tensor, x: Tensor, places: Tensor, channels: Tensor) -> Tensor:
    """Return squared norms (coordinate, key), by one backward pass for each coordinate."""
    pairs = zip(places.tolist(), channels.tolist(), strict=True)
    rows = [torch.autograd.grad(layer[0, place, channel], x, retain_graph=True)[0] for place, channel in pairs]
    return torch.stack([row[0].square().sum(dim=-1) for row in rows])


def batched(layer: Tensor, x: Tensor, places: Tensor, channels: Tensor) -> Tensor:
    """Return squared norms (coordinate, key), by one batched backward pass."""
    ones = torch.zeros(len(places), *layer.shape)
    ones[torch.arange(len(places)), 0, places, channels] = 1
    rows = torch.autograd.grad(layer, x, ones, retain_graph=True, is_grads_batched=True)[0]
    return rows[:, 0].square().sum(dim=-1)


def times(seen: Trace, options: argparse.Namespace, turn: int) -> dict[str, float]:
    """Measure the seconds of each way on one text; which is first changes from round to round."""
    with from_first_layer(seen.model, one_text(seen, 0)) as (run, x):

        def forward() -> float:
            begin = time.perf_counter()
            contributions(seen, directions=options.directions)
            return time.perf_counter() - begin

        ways: dict[str, Callable[[], float]] = {
            "naive reverse": lambda: sampled(run, x, options.naive, naive),
            "batched reverse": lambda: sampled(run, x, options.batched, batched),
            "forward, exact": lambda: forward() * x.shape[-1] / options.directions,
            "forward, estimate": forward,
        }
        names = list(ways)
        return {name: ways[name]() for name in names[turn % len(names) :] + names[: turn % len(names)]}


def cost_table(subject: Subject, indices: list[int], options: argparse.Namespace) -> str:
    found: dict[str, list[float]] = {}
    for turn in track(range(options.rounds + 1), description="costs"):
        seconds = times(subject.trace([indices[turn % len(indices)]]), options, turn)
        for name, value in seconds.items() if turn else ():  # the first is the warm-up
            found.setdefault(name, []).append(value / seconds["forward, estimate"])
    lines = ["| way | its time / the estimate's | quartiles |", "|---|---|---|"]
    for name, ratios in found.items():
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        lines.append(f"| {name} | {middle:,.1f} | {low:,.1f} to {high:,.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=20, help="how many texts (default %(default)s)")
    parser.add_argument("--no-errors", action="store_true", help="costs only")
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds after one warm-up; 0: no costs (default %(default)s)"
    )
    parser.add_argument(
        "--directions", type=int, default=DIRECTIONS, help="of the timed estimate (default %(default)s)"
    )
    parser.add_argument(
        "--naive", type=int, default=20, help="timed coordinates per layer, one by one (default %(default)s)"
    )
    parser.add_argument(
        "--batched", type=int, default=64, help="timed coordinates per layer, together (default %(default)s)"
    )
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data/glue"), help="GLUE folder (default %(default)s)"
    )
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "token_mixing_benchmark", help="%(default)s"
    )
    options = parser.parse_args()
    subject = set_up(options.data, options.cache)
    indices = choose(subject, options.texts)
    lengths = subject.split.encoded.lengths[indices].tolist()
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, {subject.split.examples.source}, MiniLM")
    print(f"texts {indices} of {lengths} tokens\n")
    if options.rounds:
        print(cost_table(subject, indices[:: max(1, len(indices) // (options.rounds + 1))], options), "\n", flush=True)
    if not options.no_errors:
        print(error_table(subject, indices, PartStore(subject.folder("exact_rows", {"directions": max(COUNTS)}))))


if __name__ == "__main__":
    main()
