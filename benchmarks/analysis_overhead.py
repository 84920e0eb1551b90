"""What do the analyses cost? One pass with the main paper's against plain evaluation that returns attention weights.

    python benchmarks/analysis_overhead.py            # MRPC dev with MiniLM, both passes in turns
    python benchmarks/analysis_overhead.py --memory   # peak memory of the pass on 1 x and on 10 x the examples

The pass has every analysis of `analysis=paper` but `patterns` and `head_ablation`, which run models of their own. It is
timed with one model against one plain evaluation, and with the pretrained model beside (`finetuning_shift`) against
plain evaluation of both. Texts are tagged before the clock starts, as they are kept on disk after the first time.
Batches take turns between the two sides, long ones first, and the table shows the median and the quartiles of the
rounds' ratios; absolute times are the machine's.
"""

from __future__ import annotations

import argparse
import copy
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from rich.progress import track

from effective_attention.analyses.common.subject import Subject
from effective_attention.attention.interface import attention_function
from effective_attention.data.annotation.tagging import annotate
from effective_attention.data.datamodule import TextDataModule

CONF = Path(__file__).resolve().parents[1] / "conf"
LEFT_OUT = ("patterns", "head_ablation")


def set_up(glue: Path, limit: int | None, copies: int = 1) -> tuple[Subject, Any]:
    """Set up MRPC dev, or the sample where there is no GLUE, with two MiniLMs.

    The second has other weights, so that nothing is shared.
    """
    source = ["data=local", f"data.dir={glue}"] if glue.exists() else ["data=sample"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("evaluate", overrides=["task=mrpc", "analysis=paper", *source])
    task = instantiate(cfg.task)
    encoder = instantiate(cfg.model)
    options = {"batch_size": 8, "max_length": 128, "padding": "longest", "limit_eval": limit}
    data = TextDataModule(task, _Repeated(instantiate(cfg.data.source), copies), encoder.tokenizer(), **options)
    models = [encoder.classifier(task.num_outputs).eval() for _ in range(2)]
    split = data.split("validation")
    annotated = annotate(
        split.examples.texts, data.tokenizer, data.max_length, instantiate(cfg.tagger), data.token_cache
    )
    return Subject(*models, data, split, annotated, torch.device("cpu")), instantiate(cfg.analysis)


class _Repeated:
    """A source that repeats the same examples, for a larger dataset."""

    def __init__(self, source: Any, copies: int) -> None:
        self.source = source
        self.copies = copies
        self.name = source.name

    def load(self, task: Any, split: str) -> Any:
        import dataclasses

        examples = self.source.load(task, split)
        return dataclasses.replace(
            examples, texts=list(examples.texts) * self.copies, labels=list(examples.labels) * self.copies
        )


def streaming(analyses: Any, context: Any, *, with_reference: bool) -> list[Any]:
    chosen = [copy.deepcopy(analysis) for name, analysis in analyses.items() if name not in LEFT_OUT]
    wanted = [one.setup(context) for one in chosen if with_reference or not one.needs_reference]
    return [one for one in wanted if any(one.wants([index]) for index in range(context.examples))]


# --- time ---


def plain(models: list[Any], subject: Subject, batch: list[int]) -> None:
    inputs = subject.data.collate(subject.split, batch)
    given = {name: value for name, value in inputs.items() if name not in ("labels", "index")}
    for model in models:
        with torch.no_grad(), attention_function(model, "eager"):
            model(**given, output_attentions=True)


def measure(subject: Subject, chosen: Any, rounds: int, *, with_reference: bool) -> list[float]:
    context = subject.context()
    ratios = []
    for _ in track(range(rounds + 1), description="with the pretrained model" if with_reference else "one model"):
        analyses = streaming(chosen, context, with_reference=with_reference)
        models = [subject.model, subject.reference] if with_reference else [subject.model]
        spent = [0.0, 0.0]
        for number, batch in enumerate(subject.batches()):
            for side in (0, 1) if number % 2 else (1, 0):
                start = time.perf_counter()
                if side == 0:
                    plain(models, subject, batch)
                else:
                    look(subject, analyses, batch)
                spent[side] += time.perf_counter() - start
        start = time.perf_counter()
        for analysis in analyses:
            analysis.compute()
        ratios.append((spent[1] + time.perf_counter() - start) / spent[0])
    return ratios[1:]  # the first is the warm-up


def look(subject: Subject, analyses: list[Any], batch: list[int]) -> None:
    seen = subject.trace(batch)
    for analysis in (analysis for analysis in analyses if analysis.wants(batch)):
        analysis.update(seen)


# --- memory ---


def peak(glue: Path, limit: int, copies: int) -> int:
    """Measure the peak memory of one pass, in bytes, in a process of its own."""
    command = [sys.executable, __file__, "--glue", str(glue), "--limit", str(limit), "--one-pass", str(copies)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def one_pass(glue: Path, limit: int, copies: int) -> None:
    subject, chosen = set_up(glue, limit * copies, copies)
    analyses = streaming(chosen, subject.context(), with_reference=True)
    for batch in subject.batches():
        look(subject, analyses, batch)
    print(len(subject.split), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds after one warm-up (default %(default)s)")
    parser.add_argument("--limit", type=int, help="only the first so many examples (default: all; with --memory 96)")
    parser.add_argument(
        "--glue", type=Path, default=Path("../shared/data/glue"), help="GLUE folder (default %(default)s)"
    )
    parser.add_argument("--memory", action="store_true", help="measure memory instead of time")
    parser.add_argument("--one-pass", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_pass is not None:
        return one_pass(options.glue, options.limit, options.one_pass)
    if options.memory:
        small, large = (peak(options.glue, options.limit or 96, copies) for copies in (1, 10))
        print(
            f"peak memory: {small / 2**20:.0f} MiB on 1 x, {large / 2**20:.0f} MiB on 10 x the examples: "
            f"{large / small - 1:+.1%}"
        )
        return None
    subject, chosen = set_up(options.glue, options.limit)
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, {len(subject.split)} examples")
    print("\n| pass | time / plain evaluation | quartiles |\n|---|---|---|")
    for name, with_reference in (("one model", False), ("pretrained model beside", True)):
        ratios = measure(subject, chosen, options.rounds, with_reference=with_reference)
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        print(f"| {name} | {middle:.3f} | {low:.3f} to {high:.3f} |")
    return None


if __name__ == "__main__":
    main()
