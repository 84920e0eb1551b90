"""Run ``evaluate.py`` with the structure analyses, and find how far their means by layer would move with other texts.

Takes the options of ``evaluate.py``. Tables hold sums over all texts, so the sums of every batch are kept beside them;
batches are drawn with replacement (``DRAWS`` times) and the sums of each draw divided as the analyses do it. A batch
holds texts of like length, so that the intervals are rather too wide than too narrow. ``variability`` keeps its texts
one by one: there texts are drawn. Written to ``intervals.csv`` in the run's folder: attention, layers (a number, a
third of the depth, or a third less the rest), quantity, value (mean over heads), low and high (95 %).

    python benchmarks/structure_intervals.py model=smollm2 task=text data=local data.file=wiki.txt analysis=structure
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from omegaconf import DictConfig
from torch import Tensor

from effective_attention.analyses.dependency_alignment import RULES, DependencyAlignment
from effective_attention.analyses.distance import Distance
from effective_attention.analyses.entropy import STATISTICS, Entropy
from effective_attention.analyses.pos_attention import TAGS, PosAttention
from effective_attention.analyses.variability import Variability, variability
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.run.cli import command
from effective_attention.run.jobs import run_job

DRAWS = 1000
TEXT_DRAWS = 40  # of variability, where one draw takes a second
KEPT = {
    Distance: ("sums",),
    Entropy: ("total", "count"),
    PosAttention: ("total",),
    DependencyAlignment: ("between", "anywhere"),
}
batches: dict[str, list[Tensor]] = {}
seen: dict[str, Variability] = {}


def record(kind: type[Any], names: tuple[str, ...]) -> None:
    """Make an analysis note what each batch adds to its sums."""
    update = kind.update

    def noting(self: Any, trace: Any) -> None:
        before = {name: getattr(self, name).clone() for name in names}
        update(self, trace)
        for name in names:
            batches.setdefault(f"{kind.__name__}.{name}", []).append(getattr(self, name) - before[name])

    kind.update = noting


def record_texts() -> None:
    """Make ``variability`` keep its texts where they can be found afterwards."""
    compute = Variability.compute

    def noting(self: Variability) -> pd.DataFrame:
        seen["variability"] = self
        return compute(self)

    Variability.compute = noting  # type: ignore[method-assign]


def quantities(sums: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """From sums (draw, ...) to each quantity's mean over heads, (draw, attention, layer)."""
    distance = sums["Distance.sums"]
    yield "distance", (distance[..., 0] / distance[..., 1]).mean(dim=-1)
    entropy = sums["Entropy.total"] / sums["Entropy.count"]
    for place, name in enumerate(STATISTICS):
        yield f"entropy {name}", entropy[..., place].mean(dim=-1)
    total = sums["PosAttention.total"][..., 0, :]  # to tags: (draw, attention, layer, head, tag)
    shares = (total / total.sum(dim=-1, keepdim=True)).mean(dim=-2)
    for place, name in enumerate(TAGS):
        yield f"to {name}", shares[..., place]
    between, anywhere = (sums[f"DependencyAlignment.{name}"].sum(dim=1) for name in ("between", "anywhere"))
    aligned = (between / anywhere)[:, :-RULES]  # the sum of both halves
    yield "dependency", aligned.reshape(distance.shape[:-1]).mean(dim=-1)  # (draw, attention, layer, head)


def drawn(generator: torch.Generator) -> dict[str, Tensor]:
    """Return the sums of all batches, then those of ``DRAWS`` random draws of as many, (1 + draw, ...)."""
    size = len(next(iter(batches.values())))
    chosen = torch.randint(size, (DRAWS, size), generator=generator)
    counts = torch.zeros(DRAWS, size, dtype=torch.float64).scatter_add_(1, chosen, torch.ones_like(chosen).double())
    counts = torch.cat([torch.ones(1, size, dtype=torch.float64), counts])
    return {name: torch.tensordot(counts, torch.stack(kept), dims=1) for name, kept in batches.items()}


def drawn_variability(found: Variability, generator: torch.Generator) -> Tensor:
    """(1 + draw, attention, layer): of all texts, then of random draws of as many."""
    there = found.there > 0
    texts = [torch.arange(len(there))]
    texts += [torch.randint(len(there), (len(there),), generator=generator) for _ in range(TEXT_DRAWS)]
    return torch.stack(
        [variability(found.weights[chosen], there[chosen], first_token=found.counts_first).mean(-1) for chosen in texts]
    )


def spans(values: Tensor) -> Iterator[tuple[str, Tensor]]:
    """From (draw, attention, layer) to each layer, each third of the depth, and each third less the rest."""
    layers = values.shape[-1]
    for layer in range(layers):
        yield str(layer), values[..., layer]
    for place, name in enumerate(("first third", "middle third", "last third")):
        inside = torch.zeros(layers, dtype=torch.bool)
        inside[layers * place // 3 : layers * (place + 1) // 3] = True
        yield name, values[..., inside].mean(dim=-1)
        yield f"{name} less the rest", values[..., inside].mean(dim=-1) - values[..., ~inside].mean(dim=-1)


def table(found: Iterator[tuple[str, Tensor]]) -> pd.DataFrame:
    """One row for each attention, span of layers and quantity."""
    rows = []
    for name, values in found:
        for layers, drawn_values in spans(values):
            low, high = np.nanquantile(drawn_values[1:].numpy(), [0.025, 0.975], axis=0)
            for variant, attention in enumerate(ATTENTIONS):
                rows.append((attention, layers, name, float(drawn_values[0, variant]), low[variant], high[variant]))
    return pd.DataFrame(rows, columns=["attention", "layers", "quantity", "value", "low", "high"])


def main(cfg: DictConfig) -> float | None:
    """Evaluate, then write the intervals."""
    result = run_job("evaluate", cfg)
    generator = torch.Generator().manual_seed(int(cfg.seed))
    rows = table(quantities(drawn(generator)))
    if "variability" in seen:
        values = drawn_variability(seen["variability"], generator)
        rows = pd.concat([rows, table(iter([("variability", values)]))])
    path = Path(cfg.run_dir) / "intervals.csv"
    rows.to_csv(path, index=False)
    print(f"intervals: {path}")
    return result


if __name__ == "__main__":
    for kind, names in KEPT.items():
        record(kind, names)
    record_texts()
    command("evaluate", main)
