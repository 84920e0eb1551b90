"""What does mixed precision save? Time of a training step and of a forward pass, as ratios to full precision.

    python benchmarks/mixed_precision.py

The embedded MiniLM with a classification head, fused AdamW and clipped gradients, as ``train.py`` trains it, on random
words of the lengths of MRPC: ``trainer=cpu_bf16`` or ``trainer=gpu`` beside ``trainer.precision=32-true``. Both take
turns on every batch, each with a model and an optimiser of its own, and a batch's ratio is between the two; the table
shows the median and the quartiles over batches. The optimiser works in float32 either way, so the smaller its share,
the more is saved: a step without it is shown too. Absolute times are not a result: they are the machine's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from rich.progress import track
from torch import Tensor

from effective_attention.attention.trace import for_model
from effective_attention.models.encoders import PretrainedEncoder
from effective_attention.run.precision import cpu_has_bfloat16
from effective_attention.run.turns import in_turn, ratio_quartiles

Batch = dict[str, Tensor]
Work = Callable[[Batch], None]
FULL, MIXED = "32-true", "bf16-mixed"


def precision(name: str, device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast(device.type, torch.bfloat16) if name == MIXED else nullcontext()


def training(name: str, device: torch.device, *, update: bool = True) -> Work:
    """Return one step of a model of its own: forward, backward and, unless told otherwise, the update."""
    torch.manual_seed(0)
    model = PretrainedEncoder("minilm").classifier(2).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.0, fused=True)

    def step(batch: Batch) -> None:
        with precision(name, device):
            logits = model(**for_model(batch)).logits
        torch.nn.functional.cross_entropy(logits.float(), batch["labels"]).backward()
        if update:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        optimizer.zero_grad()

    return step


def forward(name: str, device: torch.device) -> Work:
    """Return one pass of a model of its own, without gradients."""
    torch.manual_seed(0)
    model = PretrainedEncoder("minilm").classifier(2).to(device).eval()

    def run(batch: Batch) -> None:
        with torch.inference_mode(), precision(name, device):
            model(**for_model(batch))

    return run


def batches(count: int, size: int, tokens: int, device: torch.device) -> list[Batch]:
    """Make random words, with lengths spread around ``tokens`` as those of MRPC's pairs are, grouped by length."""
    generator = torch.Generator().manual_seed(0)
    lengths = (tokens + tokens / 4 * torch.randn(count * size, generator=generator)).round().clamp(8, 128)
    made = []
    for part in lengths.int().sort().values.split(size):
        width = int(part.max())
        ids = torch.randint(1000, 30000, (size, width), generator=generator)
        mask = (torch.arange(width) < part[:, None]).long()
        labels = torch.randint(0, 2, (size,), generator=generator)
        batch = {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}
        made.append({name: value.to(device) for name, value in batch.items()})
    return [made[place] for place in torch.randperm(count, generator=generator).tolist()]


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def measure(title: str, make: Callable[[str, torch.device], Work], work: list[Batch], device: torch.device) -> str:
    """Return a line of the table."""
    runs = {name: make(name, device) for name in (FULL, MIXED)}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn, batch in enumerate(track([*work[:3], *work], title)):  # the first three warm up
        for name in in_turn((FULL, MIXED), turn):
            started = clock(device)
            runs[name](batch)
            seconds[name].append(clock(device) - started)
    low, middle, high = ratio_quartiles(seconds[FULL][3:], seconds[MIXED][3:])
    return f"| {title} | {middle:.2f} | {low:.2f} to {high:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=60, help="batches of each kind (default %(default)s)")
    parser.add_argument("--size", type=int, default=8, help="examples a batch (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=53, help="mean length of an example (default %(default)s)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="default %(default)s")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="PyTorch threads (default %(default)s)"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    work = batches(options.batches, options.size, options.tokens, device)
    mean = sum(batch["input_ids"].shape[1] for batch in work) / len(work)
    kinds = {"training step": training, "without update": partial(training, update=False), "forward pass": forward}
    lines = [measure(title, make, work, device) for title, make in kinds.items()]
    has = "has" if device.type == "cuda" or cpu_has_bfloat16() else "lacks"
    print(f"\nPyTorch {torch.__version__}, {device}, {options.threads} threads; the processor {has} bfloat16")
    print(f"MiniLM, batch {options.size}, mean width {mean:.0f} tokens, {len(work)} batches in turns\n")
    print(f"| work | {FULL} / {MIXED} | quartiles |", "|---|---|---|", *lines, sep="\n")


if __name__ == "__main__":
    main()
