"""How fast is training beside transformers' ``Trainer``? Examples a second, as ratios to it.

    pip install accelerate                        # which transformers' Trainer needs
    python benchmarks/training.py                 # MiniLM on MRPC, batches of 8: some minutes
    python benchmarks/training.py --rounds 3 --steps 12

Same model, examples, batch size, learning rate schedule, gradient clipping and number of threads. Ours runs as
``train.py`` runs it: Lightning, batches of similar length, padded to their longest. Theirs runs twice: padded to 128
tokens, as their GLUE script does by default, and to the longest of a batch. All three take turns in every round,
each round on other examples; the first step of a turn is not counted. A ratio is between times of the same round, and
the table shows the median and the quartiles over rounds. Absolute times are not a result: they are the machine's.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import transformers
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.progress import track

from effective_attention.data.datamodule import TextDataModule
from effective_attention.models.classifier import SequenceClassifier

CONF = Path(__file__).resolve().parents[1] / "conf"
LONGEST = 128


class Clock:
    """The moments at which steps ended; the first is where counting starts."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    def tick(self) -> None:
        self.moments.append(time.perf_counter())

    def seconds_a_step(self) -> float:
        return (self.moments[-1] - self.moments[0]) / (len(self.moments) - 1)


class LightningClock(Clock, pl.Callback):
    def on_train_batch_end(self, *_: Any) -> None:
        self.tick()


class TransformersClock(Clock, transformers.TrainerCallback):
    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.tick()


def composed(glue: Path) -> DictConfig:
    source = ["data=local", f"data.dir={glue}"] if glue.exists() else ["data=sample"]
    overrides = ["task=mrpc", "trainer=cpu", "logger=csv", *source]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", overrides=overrides)


class Chosen:
    """A source that keeps some random training examples: other ones in every round."""

    def __init__(self, source: Any, count: int, seed: int) -> None:
        self.source = source
        self.count = count
        self.seed = seed
        self.name = source.name

    def load(self, task: Any, split: str) -> Any:
        examples = self.source.load(task, split)
        places = torch.randperm(len(examples), generator=torch.Generator().manual_seed(self.seed))[: self.count]
        texts = [examples.texts[place] for place in places]
        return dataclasses.replace(examples, texts=texts, labels=[examples.labels[place] for place in places])


class OneRound:
    """The examples of one round, and a turn of each side on them."""

    def __init__(self, cfg: DictConfig, steps: int, number: int) -> None:
        self.cfg = cfg
        self.task = instantiate(cfg.task)
        self.encoder = instantiate(cfg.model)
        self.tokenizer = self.encoder.tokenizer()
        source = Chosen(instantiate(cfg.data.source), steps * cfg.data.batch_size, number)
        options = {"batch_size": cfg.data.batch_size, "max_length": LONGEST, "padding": "longest"}
        self.data = TextDataModule(self.task, source, self.tokenizer, **options)
        self.steps = steps

    def ours(self) -> float:
        """Train as ``train.py`` does, without validation and checkpoints, which theirs goes without, too."""
        model = self.encoder.classifier(self.task.num_outputs)
        classifier = SequenceClassifier(model, self.task, instantiate(self.cfg.optimizer), warmup=self.cfg.warmup)
        clock = LightningClock()
        quiet = {"logger": False, "enable_progress_bar": False, "limit_val_batches": 0, "enable_checkpointing": False}
        trainer = instantiate(self.cfg.trainer, max_epochs=1, callbacks=[clock], **quiet)
        trainer.fit(classifier, datamodule=self.data)
        return clock.seconds_a_step()

    def theirs(self, *, padded: bool) -> float:
        model = self.encoder.classifier(self.task.num_outputs)
        clock = TransformersClock()
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=self.cfg.data.batch_size,
                learning_rate=self.cfg.optimizer.lr,
                weight_decay=self.cfg.optimizer.weight_decay,
                num_train_epochs=1,
                max_grad_norm=self.cfg.trainer.gradient_clip_val,
                use_cpu=True,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
            )
            padding = {"padding": "max_length", "max_length": LONGEST} if padded else {"padding": "longest"}
            collator = transformers.DataCollatorWithPadding(self.tokenizer, **padding)
            options = {"args": arguments, "train_dataset": self.their_examples(), "data_collator": collator}
            transformers.Trainer(model=model, callbacks=[clock], **options).train()
        return clock.seconds_a_step()

    def their_examples(self) -> list[dict[str, Any]]:
        split = self.data.split("train")
        rows = [split.encoded.row(index) for index in range(len(split))]
        names = "input_ids", "token_type_ids"
        examples = [dict(zip(names, (part.tolist() for part in row), strict=True)) for row in rows]
        return [row | {"labels": label} for row, label in zip(examples, split.examples.labels or [], strict=True)]


def quartiles(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--glue", type=Path, default=Path("../shared/data/glue"), help="folder with MRPC; else the sample"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=16, help="steps of a turn")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for noisy in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    cfg = composed(options.glue)
    found: dict[str, list[float]] = {"padded to 128": [], "padded to the longest of a batch": []}
    OneRound(cfg, 3, 0).ours()
    for number in track(range(options.rounds), "rounds"):
        turn = OneRound(cfg, options.steps, number)
        turns = [turn.ours, lambda turn=turn: turn.theirs(padded=True), lambda turn=turn: turn.theirs(padded=False)]
        order = [(number + place) % 3 for place in range(3)]
        seconds = {place: turns[place]() for place in order}
        found["padded to 128"].append(seconds[1] / seconds[0])
        found["padded to the longest of a batch"].append(seconds[2] / seconds[0])
    print("transformers' Trainer | its time / ours, median (quartiles)")
    print("---|---")
    for name, ratios in found.items():
        print(f"{name} | {quartiles(ratios)}")


if __name__ == "__main__":
    main()
