"""How long does it take to gather finished runs? Generated run directories, as a ratio to reading their files alone.

    python benchmarks/gather.py                # 1 000 runs of nine tasks, three analyses each
    python benchmarks/gather.py --runs 100

The runs are made up: their tables keep the analyses' schemas. Timed is what
``python -m effective_attention.run.report`` does: find the runs, read tables and metrics, write the summary, draw the
figures, write the page. Beside it every byte of the runs is read once. Seconds are the machine's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.progress import track

from effective_attention.analyses import distance, entropy, token_types
from effective_attention.io import write_json, write_table, write_text
from effective_attention.run.report import gather

TASKS = ("mrpc", "rte", "qnli", "sst2", "stsb", "cola", "qqp", "mnli", "wnli")
SCHEMAS = {"token_types": token_types.SCHEMA, "distance": distance.SCHEMA, "entropy": entropy.SCHEMA}
AXES = {
    "layer": range(12), "head": range(12), "convention": ["absolute"],
    "token_type": ["noun", "pronoun", "verb", "sep", "cls", "punctuation"],
}  # fmt: skip
SCORES = {
    "run/model": "made up", "run/data": "local", "test/standard/seconds": 1.0, "test/effective/seconds": 1.1,
    "test/effective/seconds_ratio": 1.1, "test/effective/max_logit_difference": 1e-7,
}  # fmt: skip


def make_run(folder: Path, task: str, seed: int) -> None:
    random = np.random.default_rng([seed, *task.encode()])
    accuracy = float(random.uniform(0.6, 0.9))
    scores = {f"test/{kind}/accuracy": accuracy for kind in ("standard", "effective")}
    write_json(folder / "metrics.json", {"run/task": task, "run/seed": seed, **SCORES, **scores})
    write_text(folder / ".hydra" / "overrides.yaml", json.dumps([f"task={task}", f"seed={seed}"]))
    front = {
        "task": task,
        "model": "made up",
        "data": "local",
        "split": "validation",
        "checkpoint": "",
        "examples": 408,
    }
    for name, schema in SCHEMAS.items():
        table = schema.fake(random, AXES)
        new = {column: value for column, value in {**front, "reading": "exact"}.items() if column not in table}
        write_table(folder / "tables" / name, table.assign(**new))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place) / "runs"
        for number in track(range(count), "made up"):
            make_run(runs / str(number), TASKS[number % len(TASKS)], number // len(TASKS))
        started = time.perf_counter()
        size = sum(len(path.read_bytes()) for path in runs.rglob("*") if path.is_file())
        reading = time.perf_counter() - started
        started = time.perf_counter()
        gather([runs], Path(place) / "report", title="Mean ± std over seeds")
        seconds = time.perf_counter() - started
        page = (Path(place) / "report" / "report.html").stat().st_size
    print("runs | MB | gathered in | time / reading every byte | report")
    print("---|---|---|---|---")
    print(f"{count} | {size / 1e6:.0f} | {seconds:.0f} s | {seconds / reading:.0f} | {page / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
