"""What does one example cost, and how does that grow with its length and with the model? The numbers of docs/scale.md.

    python benchmarks/costs.py                        # BERT-base and MiniLM shapes, random weights: some minutes
    python benchmarks/costs.py --lengths 64 128

Counted, so the same on every machine: operations of a training step (forward and backward; a multiplication and an
addition are two) and bytes that the forward pass keeps for the backward pass. Timed, as ratios to evaluation with
standard attention at 128 tokens in the same round: a training step, evaluation with standard and with effective
attention, and the split of all layers' attention, in turns. Medians over rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from rich.progress import track
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForSequenceClassification

from effective_attention import trace, use_attention

SHAPES = {"BERT-base": (12, 12, 768), "MiniLM": (6, 12, 384)}
BATCH = 8
REFERENCE = 128


def build(layers: int, heads: int, width: int) -> BertForSequenceClassification:
    torch.manual_seed(0)
    size = {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "hidden_size": width,
        "intermediate_size": 4 * width,
    }
    return BertForSequenceClassification(BertConfig(**size))


def inputs(length: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(1000, 20000, (BATCH, length), generator=torch.Generator().manual_seed(length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def training_step(model: BertForSequenceClassification, batch: dict[str, torch.Tensor]) -> None:
    model.train()
    model(**batch).logits.square().sum().backward()
    model.zero_grad()


def operations(model: BertForSequenceClassification, batch: dict[str, torch.Tensor]) -> float:
    """Return the operations of a training step, an example."""
    with FlopCounterMode(display=False) as counter:
        training_step(model, batch)
    return counter.get_total_flops() / BATCH


def kept_bytes(model: BertForSequenceClassification, batch: dict[str, torch.Tensor]) -> float:
    """Return the bytes that the forward pass keeps for the backward pass, an example; weights are not counted."""
    known = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    model.train()
    with saved_tensors_hooks(note, lambda tensor: tensor):
        logits = model(**batch).logits
    del logits
    return sum(kept.values()) / BATCH


def evaluation(model: BertForSequenceClassification, batch: dict[str, torch.Tensor], kind: str) -> None:
    model.eval()
    with torch.no_grad(), use_attention(model, kind):
        model(**batch)


def split(model: BertForSequenceClassification, batch: dict[str, torch.Tensor]) -> None:
    model.eval()
    for layer in trace(model, batch).layers:
        layer.part("effective")


def seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(name: str, lengths: Sequence[int], rounds: int) -> None:
    model = build(*SHAPES[name])
    batches = {length: inputs(length) for length in {*lengths, REFERENCE}}
    kinds: dict[str, Callable[[int], None]] = {
        "training": lambda length: training_step(model, batches[length]),
        "standard": lambda length: evaluation(model, batches[length], "standard"),
        "effective": lambda length: evaluation(model, batches[length], "effective"),
        "split": lambda length: split(model, batches[length]),
    }
    times: dict[tuple[str, int], list[float]] = {}
    for number in track(range(rounds + 1), name):
        unit = seconds(lambda: kinds["standard"](REFERENCE))
        for length in lengths:
            for kind, work in kinds.items():
                taken = seconds(lambda work=work, length=length: work(length))  # type: ignore[misc]
                if number:  # the first round warms up
                    times.setdefault((kind, length), []).append(taken / unit)
    for length in lengths:
        ratios = " | ".join(f"{statistics.median(times[kind, length]):.2f}" for kind in kinds)
        counted = f"{operations(model, batches[length]) / 1e9:.1f} | {kept_bytes(model, batches[length]) / 1e6:.0f}"
        print(f"{name} | {length} | {counted} | {ratios}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[32, 64, 128, 256, 512])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    options = parser.parse_args()
    print("model | tokens | 10⁹ operations | MB kept | training | standard | effective | split")
    print("---|---|---|---|---|---|---|---")
    for name in options.models:
        measure(name, options.lengths, options.rounds)


if __name__ == "__main__":
    main()
