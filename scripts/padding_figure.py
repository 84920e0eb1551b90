"""Draw the README's figure from a sweep: where effective attention can differ from attention, and what padding does to it.

python evaluate.py -m task=rte,mrpc,qnli,sst2,stsb data=local data.dir=path/to/glue attention=all hydra.sweep.dir=multirun/padding
python scripts/padding_figure.py multirun/padding docs/padding.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

PAPER_ORDER = ("rte", "mrpc", "qnli", "sst2", "stsb")
TITLES = {"rte": "RTE", "mrpc": "MRPC", "qnli": "QNLI", "sst2": "SST-2", "stsb": "STS-B"}
BLUE, GREY = "#2b6cb0", "#8a8f98"  # blue for effective, as in the paper


def read(sweep: Path) -> dict[str, dict[str, Any]]:
    """Metrics by task, in the paper's order."""
    found = {metrics["run/task"]: metrics for path in sweep.glob("*/metrics.json") for metrics in [json.loads(path.read_text())]}
    missing = [task for task in PAPER_ORDER if task not in found]
    if missing:
        sys.exit(f"error: {sweep} has no finished run for {', '.join(missing)}; see the head of this script for the command")
    return {task: found[task] for task in PAPER_ORDER}


def bars(axes: Axes, tasks: dict[str, dict[str, Any]], series: dict[str, tuple[str, str]], ylabel: str) -> None:
    """Grouped bars in percent: ``series`` maps a label to a metric and a colour."""
    width = 0.8 / len(series)
    for place, (label, (metric, colour)) in enumerate(series.items()):
        positions = [index + (place - (len(series) - 1) / 2) * width for index in range(len(tasks))]
        values = [100 * metrics[metric] for metrics in tasks.values()]
        drawn = axes.bar(positions, values, width * 0.92, color=colour, label=label)
        axes.bar_label(
            drawn, fmt=lambda value: f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.1f}", fontsize=8, padding=1
        )
    axes.set_xticks(range(len(tasks)), [TITLES[task] for task in tasks])
    axes.set_ylabel(ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.16)
    axes.legend(frameon=False, fontsize=8.5, loc="upper right")


def draw(tasks: dict[str, dict[str, Any]]) -> plt.Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.3), layout="constrained")
    heads = "heads with a null space (%)"
    exact = {"padding removed first (exact)": ("test/effective/null_space_share", BLUE)}
    bars(left, tasks, exact | {"padded to 128 (published code)": ("test/padded/null_space_share", GREY)}, heads)
    left.set_title("Where effective attention can differ", fontsize=10, loc="left")
    left.set_ylim(0, 145)
    left.set_yticks(range(0, 101, 25))
    change = {"mean": ("test/padded/output_change", GREY), "largest": ("test/padded/max_output_change", "#c4c8cf")}
    bars(right, tasks, change, "change of a head's output (%)")
    right.set_title("What the published protocol changes (exact: none)", fontsize=10, loc="left")
    return figure


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python scripts/padding_figure.py <sweep folder> <figure.png>")
    draw(read(Path(sys.argv[1]))).savefig(sys.argv[2], dpi=160)
