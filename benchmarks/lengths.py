"""What does effective attention cost at any length, in any kind of model? Ratios to standard attention with weights.

    python benchmarks/lengths.py                  # every shape and length: some minutes
    python benchmarks/lengths.py bert gpt2 --rounds 5
    python benchmarks/lengths.py --models smollm2 mpnet_base --text wiki.txt   # real weights, real text

Whole models with random weights, two layers of their family's base size, batch 2, no gradients. Standard attention is
the model's own eager one, asked for its weights; effective attention is asked for its weights too (*whole*), or for
nothing (*factors*: what a model runs with when nobody looks). All take turns in every round, and a process gives the
median of its rounds. Where a process's memory happens to lie moves its ratio by more than rounds of one process differ
(by 0.05 here), so each case is measured in several processes, one after the other; the table shows the median of
their ratios, and the lowest and highest. Absolute times are not a result: they are the machine's.

Two clocks are read. That of the wall is what a user waits for; on a virtual machine whose host gives its processors to
others as well, it measures those, too. Processor time counts only what ran here: read it where the wall's ratios differ
widely, best with ``--threads 1``, as threads that wait for work count as if they worked.

With ``--models``, whole models with the weights of a folder, or of what `python -m effective_attention.models fetch`
has brought, on consecutive tokens of a text.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import torch
import transformers
from rich.progress import Progress
from torch import Tensor
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention import use_attention
from effective_attention.models.packaged import PACKAGED, fetch
from effective_attention.run.turns import in_turn

BATCH = 2
VOCABULARY = 5000
REAL_LENGTHS = (128, 512)
KINDS = ("whole", "factors")
Ratios = dict[tuple[str, str], float]
"""A kind's time over that of standard attention, by clock and kind."""
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}
CASES: dict[str, tuple[str, tuple[int, ...]]] = {
    "bert": ("BERT-base shape", (128, 512, 1024, 2048)),
    "gpt2": ("GPT-2 small shape, causal", (96, 192, 384, 1024)),
    "llama": ("small Llama, 8 heads, 2 key-value heads", (192, 1024)),
    "modernbert": ("ModernBERT-base shape, window 64", (192, 1024)),
}


def build(name: str, length: int) -> PreTrainedModel:
    """Return a model of two layers, all of them of the kind that is asked for."""
    torch.manual_seed(0)
    common = {"vocab_size": VOCABULARY, "max_position_embeddings": length}
    configs: dict[str, Callable[[], PreTrainedModel]] = {
        "bert": lambda: transformers.BertModel(transformers.BertConfig(num_hidden_layers=2, **common)),
        "gpt2": lambda: transformers.GPT2Model(
            transformers.GPT2Config(n_layer=2, vocab_size=VOCABULARY, n_positions=length)
        ),
        "llama": lambda: transformers.LlamaModel(
            transformers.LlamaConfig(
                hidden_size=512,
                intermediate_size=2048,
                num_hidden_layers=2,
                num_attention_heads=8,
                num_key_value_heads=2,
                **common,
            )
        ),
        "modernbert": lambda: transformers.ModernBertModel(
            transformers.ModernBertConfig(
                num_hidden_layers=2,
                layer_types=["sliding_attention", "sliding_attention"],
                local_attention=64,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                cls_token_id=1,
                sep_token_id=2,
                **common,
            )
        ),
    }
    return configs[name]().eval()


@torch.no_grad()
def run(model: PreTrainedModel, kind: str, inputs: dict[str, Tensor], *, weights: bool) -> None:
    with use_attention(model, kind):
        model(**inputs, output_attentions=weights)


def real(name: str) -> tuple[PreTrainedModel, Tokenizer]:
    """Load a folder, or a packaged model from the cache."""
    folder = fetch(name, agree=False) if name in PACKAGED else name
    model = transformers.AutoModel.from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def windows(tokenizer: Tokenizer, text: Path, length: int) -> Tensor:
    """Return consecutive tokens of a text (batch, length), without special tokens."""
    characters = 20 * BATCH * length  # more than enough
    ids = tokenizer(text.read_text(encoding="utf-8")[:characters], add_special_tokens=False)["input_ids"]
    return torch.tensor(ids[: BATCH * length]).view(BATCH, length)


def measure(model: PreTrainedModel, ids: Tensor, rounds: int) -> Ratios:
    """Return the median over rounds of each kind's time over that of standard attention, by clock and kind."""
    inputs = {"input_ids": ids}
    work = {
        "standard": partial(run, model, "standard", inputs, weights=True),
        "whole": partial(run, model, "effective", inputs, weights=True),
        "factors": partial(run, model, "effective", inputs, weights=False),
    }
    ratios: dict[tuple[str, str], list[float]] = {(clock, kind): [] for clock in CLOCKS for kind in KINDS}
    for turn in range(rounds + 1):
        seconds = {}
        for kind in in_turn(list(work), turn):
            start = {clock: read() for clock, read in CLOCKS.items()}
            work[kind]()
            seconds.update({(clock, kind): read() - start[clock] for clock, read in CLOCKS.items()})
        for (clock, kind), found in ratios.items():
            found.append(seconds[clock, kind] / seconds[clock, "standard"])
    return {key: statistics.median(found[1:]) for key, found in ratios.items()}  # the first round warms up


def measure_shape(name: str, length: int, rounds: int, threads: int | None) -> Ratios:
    """Measure a model with random weights."""
    if threads is not None:
        torch.set_num_threads(threads)
    model = build(name, length)
    return measure(model, torch.randint(3, VOCABULARY, (BATCH, length)), rounds)


def measure_real(name: str, length: int, rounds: int, threads: int | None, text: Path) -> Ratios:
    """Measure a model with its own weights, on a text."""
    if threads is not None:
        torch.set_num_threads(threads)
    model, tokenizer = real(name)
    return measure(model, windows(tokenizer, text, length), rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="shape", help=f"which: {', '.join(CASES)}; default: all")
    parser.add_argument("--processes", type=int, default=5, help="that measure each case (%(default)s)")
    parser.add_argument("--rounds", type=int, default=11, help="of each process (%(default)s)")
    parser.add_argument("--threads", type=int, help="of PyTorch and of the compiled loops; default: all processors")
    parser.add_argument("--lengths", type=int, nargs="*", help="other lengths")
    parser.add_argument("--models", nargs="+", default=[], help="folders, or packaged models in the cache")
    parser.add_argument(
        "--text", type=Path, default=Path("../shared/data/wiki/wikitext2_test.txt"), help="their text (%(default)s)"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(CASES))
    if unknown:
        parser.error(f"{unknown[0]} is no shape; choose from {', '.join(CASES)}")
    if min(options.processes, options.rounds) < 1:
        parser.error("--processes and --rounds must be at least 1")
    print_table(rows(options))


def rows(options: argparse.Namespace) -> list[str]:
    """Measure case by case, each time in a process of its own."""
    how = (options.rounds, options.threads)
    cases: list[tuple[str, int, Callable[..., Ratios], tuple[object, ...]]]
    if options.models:
        both = [(name, length) for name in options.models for length in options.lengths or REAL_LENGTHS]
        cases = [
            (f"{Path(name).name}, real weights", length, measure_real, (name, length, *how, options.text))
            for name, length in both
        ]
    else:
        both = [(name, length) for name in options.names or CASES for length in options.lengths or CASES[name][1]]
        cases = [(CASES[name][0], length, measure_shape, (name, length, *how)) for name, length in both]
    found = []
    fresh = multiprocessing.get_context("spawn")
    with Progress() as progress:
        task = progress.add_task("", total=len(cases) * options.processes)
        for title, length, work, arguments in cases:
            ratios = []
            for _ in range(options.processes):
                with ProcessPoolExecutor(1, mp_context=fresh) as pool:
                    ratios.append(pool.submit(work, *arguments).result())
                progress.advance(task)
            found.append(row(title, length, ratios))
    return found


def row(title: str, length: int, ratios: list[Ratios]) -> str:
    """Write a case: the median of the processes, and the lowest and highest."""
    cells = []
    for clock in CLOCKS:
        for kind in KINDS:
            mine = [one[clock, kind] for one in ratios]
            cells.append(f"{statistics.median(mine):.2f} ({min(mine):.2f}-{max(mine):.2f})")
    return " | ".join((title, str(length), *cells))


def print_table(lines: list[str]) -> None:
    print(
        "model | tokens | whole / standard, median of processes (lowest-highest) | factors / standard"
        " | whole / standard, processor time | factors / standard, processor time"
    )
    print("---|---|---|---|---|---")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
