"""The last step of both commands: put the chosen questions to the model, and write down what it answered.

``Inquiry`` is prepared, and with it every option checked, before anything runs; ``Findings`` are the tables, the
figures drawn from them, and the report.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from transformers import PreTrainedModel

from effective_attention.analyses.common.base import Analysis, Context
from effective_attention.analyses.common.run import Factory, Subject, Tables, analyse, describe
from effective_attention.attention.decomposition import Reading
from effective_attention.attention.trace import Trace, trace
from effective_attention.data.annotation.tagging import Annotated, Tagger, annotate
from effective_attention.errors import UserError
from effective_attention.io import write_table, write_text
from effective_attention.processes import rank_and_world
from effective_attention.run.setup import Run

log = logging.getLogger(__name__)
GOLD = "gold"
"""``run/words`` where annotators, not a tagger, say what the words are."""


@dataclass
class Inquiry:
    """The questions to ask of a run's model: analyses, a tagger, perhaps a text of the user's."""

    run: Run
    factories: dict[str, Factory]
    tagger: Tagger | None
    reading: Reading = "exact"
    text: tuple[str, ...] | None = None

    @classmethod
    def prepare(cls, cfg: DictConfig, run: Run) -> Inquiry:
        """Everything a wrong option or a missing model can break."""
        chosen = _answerable(dict(instantiate(cfg.analysis)) if cfg.analysis else {}, has_labels=run.task.has_labels)
        factories = _comparable(chosen, finetuned=is_finetuned(run))
        texts = [text for text in (cfg.get("text"), cfg.get("text_pair")) if text is not None]
        if cfg.get("text_pair") is not None and cfg.get("text") is None:
            raise UserError("text_pair is given without text; add text=<the first text>")
        needs_tags = any(_class_of(factory).needs_tags for factory in factories.values())
        if cfg.reading not in get_args(Reading):
            raise UserError(f"reading must be one of {', '.join(get_args(Reading))}, got {cfg.reading!r}")
        tagger = _tagger(cfg, run) if needs_tags else None
        inquiry = cls(run, factories, tagger, cfg.reading, tuple(texts) or None)
        if factories:
            inquiry.analyses(
                inquiry.subject(torch.device("cpu")), {}
            )  # thrown away: what matters is whether it can be built
        return inquiry

    @cached_property
    def annotated(self) -> Annotated:
        data = self.run.datamodule
        examples = data.split(data.eval_split).examples
        options: dict[str, Any] = {"progress": True, "gold": examples.words}
        return annotate(examples.texts, data.tokenizer, data.max_length, self.tagger, data.token_cache, **options)

    @cached_property
    def reference(self) -> PreTrainedModel | None:
        """The pretrained start, if some analysis needs it for every example."""
        wanted = any(_class_of(factory).needs_reference for factory in self.factories.values())
        return self.pretrained if wanted else None

    @cached_property
    def pretrained(self) -> PreTrainedModel:
        """The pretrained start; loaded when it is first asked for."""
        return self.run.pretrained_start()

    @cached_property
    def masked_lm(self) -> PreTrainedModel:
        """The encoder as a masked language model, not finetuned; loaded when an analysis first asks."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.run.classifier.origin["seed"])  # of a random encoder
            return self.run.encoder.masked_lm()

    def subject(self, device: torch.device) -> Subject:
        data, model = self.run.datamodule, self.run.classifier.model
        for part in (model, self.reference):
            if part is not None:
                part.to(device)
        return Subject(model, self.reference, data, data.split(data.eval_split), self.annotated, device, self.reading)

    def analyses(
        self, subject: Subject, metrics: Mapping[str, Any], *, only: Collection[str] | None = None
    ) -> dict[str, Analysis]:
        """Fresh ones; ``only`` some of those that were chosen."""
        factories = {name: make for name, make in self.factories.items() if only is None or name in only}
        text = None if self.text is None else self._trace_text(subject)
        facts = {
            "seed": self.run.facts["run/seed"],
            "task": self.run.task,
            "metrics": metrics,
            "text": text,
            "texts": self.text,
        }
        models = {
            "masked_lm": lambda: self.masked_lm,
            "reference": (lambda: self.pretrained) if is_finetuned(self.run) else None,
        }
        one = {
            "example_trace": lambda index: subject.trace([index]),
            "example_texts": subject.split.examples.texts.__getitem__,
        }
        context: Context = describe(subject, **facts, **models, **one)
        try:
            return {name: make(context) for name, make in factories.items()}
        except TypeError as error:  # an option that the analysis does not have
            raise UserError(f"analysis: {error}; --help shows the options of each") from error

    def _trace_text(self, subject: Subject) -> Trace:
        data = self.run.datamodule
        padding = "max_length" if self.reading == "padded" else "do_not_pad"
        options = {"truncation": True, "max_length": data.max_length, "padding": padding, "return_tensors": "pt"}
        encoded = data.tokenizer(*self.text, **options)  # type: ignore[misc]
        return trace(
            subject.model, {name: value.to(subject.device) for name, value in encoded.items()}, reading=self.reading
        )

    def answer(self, metrics: Mapping[str, Any], device: torch.device) -> Findings:
        """One pass over the split."""
        if not self.factories:
            return Findings({})
        subject = self.subject(device)
        analyses = self.analyses(subject, metrics)
        tables = analyse(subject, analyses, title="analyses")
        pages = {name: analysis.page() for name, analysis in analyses.items()} if rank_and_world()[0] == 0 else {}
        for part in (subject.model, subject.reference):
            if part is not None:
                part.to("cpu")
        signed = {name: self._signed(table) for name, table in tables.items()}
        return Findings(signed, {name: page for name, page in pages.items() if page is not None})

    def _signed(self, table: pd.DataFrame) -> pd.DataFrame:
        """In front of every row, what it was measured on."""
        facts, data = self.run.facts, self.run.datamodule
        columns = {
            "task": facts["run/task"],
            "model": facts["run/model"],
            "data": facts["run/data"],
            "split": data.eval_split,
            "checkpoint": self.run.checkpoint or (str(self.run.folder) if is_finetuned(self.run) else ""),
            "examples": len(data.split(data.eval_split)),
        }
        if "reading" not in table:
            columns["reading"] = self.reading
        front = pd.DataFrame(columns, index=table.index)
        own = [name for name in columns if name in table]  # what an analysis says of itself counts
        return pd.concat([front.assign(**table[own]), table.drop(columns=own)], axis=1)


def is_finetuned(run: Run) -> bool:
    """Trained here, or loaded from a checkpoint."""
    return run.checkpoint is not None or run.classifier.make_optimizer is not None


def _tagger(cfg: DictConfig, run: Run) -> Tagger | None:
    """None where the words are known; the run's facts say which."""
    data = run.datamodule
    tagger: Tagger | None = instantiate(cfg.tagger) if data.split(data.eval_split).examples.words is None else None
    run.facts["run/words"] = GOLD if tagger is None else tagger.name
    return tagger


def _answerable(factories: dict[str, Factory], *, has_labels: bool) -> dict[str, Factory]:
    """Without those that ask whether the model is right, where nobody knows."""
    left_out = [name for name, make in factories.items() if _class_of(make).needs_labels and not has_labels]
    if left_out:
        log.warning("left out, because the task has no labels: %s", ", ".join(left_out))
    return {name: factory for name, factory in factories.items() if name not in left_out}


def _comparable(factories: dict[str, Factory], *, finetuned: bool) -> dict[str, Factory]:
    """Without those that would compare the pretrained model with itself."""
    left_out = [name for name, factory in factories.items() if _class_of(factory).needs_reference and not finetuned]
    if left_out:
        log.warning("left out, because there is no finetuned model: %s; add checkpoint=<run>", ", ".join(left_out))
    return {name: factory for name, factory in factories.items() if name not in left_out}


def _class_of(factory: Any) -> type[Analysis]:
    """Hydra hands out ``functools.partial`` of the class."""
    return factory.func


@dataclass
class Findings:
    """What was found: tables and pages (HTML) by analysis, and where figures and the report were written."""

    tables: Tables
    pages: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Path] = field(default_factory=dict)
    report: Path | None = None

    def write(self, folder: Path, metrics: Mapping[str, Any]) -> None:
        """``tables/<analysis>.parquet``, ``.csv``, ``figures/<name>.png``, ``.svg``, ``<analysis>.html``, ``report.html``."""
        if not self.tables:
            return
        from effective_attention.reports.chapters import all_chapters  # matplotlib: seconds
        from effective_attention.reports.drawing.files import write_figures
        from effective_attention.reports.report import write_report
        from effective_attention.reports.runs import RunResults

        for name, table in self.tables.items():
            write_table(folder / "tables" / name, table)
        for name, page in self.pages.items():
            write_text(folder / f"{name}.html", page)
        self.figures = {path.stem: path for path in write_figures(folder / "figures", self.tables, all_chapters())}
        self.report = folder / "report.html"
        write_report(self.report, [RunResults(dict(metrics), self.tables)], figures=folder / "figures")
