"""The last step of both commands: run the chosen analyses on the model, and write down what they found.

``PlannedAnalyses`` are prepared, and with them every option checked, before anything runs; ``AnalysisResults`` are the
tables, the figures drawn from them, and the report.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from omegaconf import DictConfig, OmegaConf
from transformers import PreTrainedModel

from effective_attention.analyses.common.base import Analysis, Context, OtherModels, UserText
from effective_attention.analyses.common.resampling import Resampling
from effective_attention.analyses.common.run import Tables, run_analyses
from effective_attention.analyses.common.subject import Subject
from effective_attention.attention.readings import EXACT, Reading
from effective_attention.attention.trace import trace
from effective_attention.attributions.ranking import few_examples
from effective_attention.data.annotation.tagging import Annotated, Tagger, annotate, sets_delimiters
from effective_attention.data.own_text import inputs_for
from effective_attention.data.padding import padded
from effective_attention.io import write_text
from effective_attention.processes import rank_and_world
from effective_attention.run.chosen import answerable, comparable, delimited, instances, of_the_text, possible
from effective_attention.run.finished import FinishedTables, dependencies
from effective_attention.run.options.targets import build
from effective_attention.run.own_text import check_length, own_texts, prediction_facts
from effective_attention.run.setup import Run

log = logging.getLogger(__name__)
GOLD = "gold"
"""``run/words`` where annotators, not a tagger, say what the words are."""


@dataclass
class PlannedAnalyses:
    """The analyses to run on a run's model, with the tagger, and the user's text where there is one."""

    run: Run
    chosen: dict[str, Analysis]
    tagger: Tagger | None
    reading: Reading = EXACT
    text: tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    resampling: Resampling | None = None

    @classmethod
    def plan(cls, cfg: DictConfig, run: Run) -> PlannedAnalyses:
        """Build everything that a wrong option or a missing model can break."""
        texts = own_texts(cfg)
        chosen = instances(cfg.analysis)
        if texts is not None:
            check_length(texts, run)
            chosen = of_the_text(chosen)
        chosen = answerable(chosen, has_labels=run.task.has_labels)
        chosen = comparable(chosen, run)
        chosen = delimited(chosen, has_delimiters=sets_delimiters(run.datamodule.tokenizer))
        tagger = _tagger(cfg, run) if any(analysis.needs_tags for analysis in chosen.values()) else None
        options: Any = OmegaConf.to_container(cfg.analysis, resolve=True) if cfg.analysis else {}
        reading = Reading(cfg.reading, cfg.space, cfg.epsilon)
        resampling = _resampling(cfg, run) if texts is None else None
        planned = cls(run, chosen, tagger, reading, texts, options, resampling)
        if chosen:
            subject = planned.subject(torch.device("cpu"))
            planned.chosen = possible(chosen, planned.context(subject, {}))
            planned.set_up(subject, {})  # thrown away: what matters is whether it works
        return planned

    @cached_property
    def annotated(self) -> Annotated:
        """Return the annotation of the split's tokens."""
        data = self.run.datamodule
        examples = data.split(data.eval_split).examples
        options: dict[str, Any] = {"progress": True, "gold": examples.words}
        return annotate(examples.texts, data.tokenizer, data.max_length, self.tagger, data.token_cache, **options)

    @cached_property
    def reference(self) -> PreTrainedModel | None:
        """Return the pretrained start, if some analysis needs it for every example."""
        wanted = any(analysis.needs_reference for analysis in self.chosen.values())
        return self.pretrained if wanted else None

    @cached_property
    def pretrained(self) -> PreTrainedModel:
        """Load the pretrained start, when it is first asked for."""
        return self.run.pretrained_start()

    @cached_property
    def masked_lm(self) -> PreTrainedModel:
        """Load the encoder as a masked language model, not finetuned, when an analysis first asks."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.run.classifier.origin["seed"])  # of a random encoder
            return self.run.encoder.masked_lm()

    def subject(self, device: torch.device) -> Subject:
        """Bring model and examples together on a device, as what analyses look at."""
        data = self.run.datamodule
        model = _at_least_float32(self.run.classifier.model).to(device)
        if self.reference is not None:
            self.reference.to(device, dtype=model.dtype)
        split = data.split(data.eval_split)
        return Subject(model, self.reference, data, split, self.annotated, device, self.reading)

    def context(self, subject: Subject, facts: Mapping[str, Any]) -> Context:
        """Collect what the analyses may know; this runs the model on a short example."""
        return subject.context(
            seed=self.run.facts["run/seed"],
            task=self.run.task,
            text=None if self.text is None else self._trace_text(subject),
            models=OtherModels((lambda: self.pretrained) if self.run.has_start else None, lambda: self.masked_lm),
            facts=facts,
        )

    def set_up(
        self, subject: Subject, facts: Mapping[str, Any], *, only: Collection[str] | None = None
    ) -> dict[str, Analysis]:
        """Make fresh analyses ready for a pass; ``only`` some of those that were chosen."""
        context = self.context(subject, facts)
        wanted = {name: analysis for name, analysis in self.chosen.items() if only is None or name in only}
        return {name: copy.deepcopy(analysis).setup(context) for name, analysis in wanted.items()}

    def _trace_text(self, subject: Subject) -> UserText:
        assert self.text is not None
        data = self.run.datamodule
        encoded = data.tokenizer(*self.text, truncation=True, max_length=data.max_length, return_tensors="pt")
        inputs = inputs_for(subject.model, encoded)
        if self.reading.pads:
            inputs = padded(inputs, data.max_length, data.pad_id)
        return UserText(self.text, trace(subject.model, inputs, reading=self.reading))

    def predicted(self, device: torch.device) -> dict[str, Any]:
        """Return what the model predicts of the user's text, as facts of the run."""
        return prediction_facts(self._trace_text(self.subject(device)).trace, self.run.task)

    def run_all(
        self, facts: Mapping[str, Any], device: torch.device, *, earlier: Path | None = None
    ) -> AnalysisResults:
        """Run all analyses in one pass over the split, and write each table as soon as it is finished.

        Args:
            facts: What testing measured.
            device: The device to run on.
            earlier: A run directory whose finished tables need not be computed again; None: there is none.
        """
        if not self.chosen:
            return AnalysisResults({})
        subject = self.subject(device)
        tables = self._finished(subject, earlier)
        kept = tables.find(self.chosen, self.options)
        told = {name: table.assign(checkpoint=self._checkpoint) for name, table in kept.items()}

        def finish(name: str, table: pd.DataFrame) -> None:
            told[name] = self.with_facts(table)
            tables.write(name, told[name], self.options)

        analyses = self.set_up(subject, facts, only=self.chosen.keys() - kept.keys())
        if self.run.folder != earlier:
            for name in kept:
                tables.write(name, told[name], self.options)
        run_analyses(subject, analyses, title="analyses", finished=finish, resampling=self.resampling)
        results = AnalysisResults({name: told[name] for name in self.chosen})
        if rank_and_world()[0] == 0:
            results.write_pages(self.run.folder, analyses)
        for part in (subject.model, subject.reference):
            if part is not None:
                part.to("cpu")
        return results

    def _finished(self, subject: Subject, earlier: Path | None) -> FinishedTables:
        origin = self.run.classifier.origin
        tagger = None if self.tagger is None else self.tagger.name
        facts = (
            self.run.facts["run/seed"],
            origin.get("encoder"),
            origin.get("seed"),
            self.run.task,
            self.text,
            tagger,
            0 if self.resampling is None else self.resampling.draws,
        )
        return FinishedTables(self.run.folder, earlier, dependencies(subject, *facts))

    @property
    def _checkpoint(self) -> str:
        return self.run.checkpoint or (str(self.run.folder) if self.run.has_start else "")

    def with_facts(self, table: pd.DataFrame) -> pd.DataFrame:
        """Add columns in front that say what was measured on; those the analysis has itself are kept."""
        facts = self.run.facts
        data = self.run.datamodule
        columns = {
            "task": facts["run/task"],
            "model": facts["run/model"],
            "data": facts["run/data"],
            "split": data.eval_split,
            "checkpoint": self._checkpoint,
            "examples": len(data.split(data.eval_split)),
        }
        if "reading" not in table:
            columns["reading"] = self.reading.name
        front = pd.DataFrame(columns, index=table.index)
        own = [name for name in columns if name in table]
        return pd.concat([front.assign(**table[own]), table.drop(columns=own)], axis=1)


def _resampling(cfg: DictConfig, run: Run) -> Resampling | None:
    """Return how examples are drawn again, where that is asked for; say so where they are few."""
    if cfg.resamples == 0:
        return None
    examples = len(run.datamodule.split(run.datamodule.eval_split))
    too_few = few_examples(examples)
    if too_few is not None:
        log.warning("%s", too_few)
    return Resampling(cfg.resamples, seed=cfg.seed)


def _at_least_float32(model: PreTrainedModel) -> PreTrainedModel:
    """Return the model, or a copy in float32 of one that a trainer keeps in half precision (``bf16-true``)."""
    return model if torch.finfo(model.dtype).bits >= 32 else copy.deepcopy(model).float()


def _tagger(cfg: DictConfig, run: Run) -> Tagger | None:
    """Load the tagger, or None where the data has gold words; write into the run's facts which it is."""
    data = run.datamodule
    has_words = data.split(data.eval_split).examples.words is not None
    tagger: Tagger | None = None if has_words else build(cfg.tagger, "tagger", has=("name", "version", "tag"))
    run.facts["run/words"] = GOLD if tagger is None else tagger.name
    return tagger


@dataclass
class AnalysisResults:
    """Tables, main pages (HTML) and how many more there are by analysis, and where figures and report were written."""

    tables: Tables
    pages: dict[str, str] = field(default_factory=dict)
    more_pages: dict[str, int] = field(default_factory=dict)
    figures: dict[str, Path] = field(default_factory=dict)
    report: Path | None = None

    def write_pages(self, folder: Path, analyses: Mapping[str, Analysis]) -> None:
        """Write each page as soon as it is made; only the main one of an analysis is kept in memory."""
        for name, analysis in analyses.items():
            for place, page in analysis.pages():
                write_text(folder / place, page)
                if place == f"{name}.html":
                    self.pages[name] = page
                else:
                    self.more_pages[name] = self.more_pages.get(name, 0) + 1

    def write(self, folder: Path, facts: Mapping[str, Any]) -> None:
        """Write ``figures/<name>.png``, ``.svg`` and the report; tables and pages are there already."""
        if not self.tables:
            return
        from effective_attention.reports.chapters import all_chapters  # matplotlib: seconds
        from effective_attention.reports.drawing.files import write_figures
        from effective_attention.reports.report import write_report
        from effective_attention.reports.runs import RunResults

        written = write_figures(folder / "figures", self.tables, all_chapters())
        self.figures = {path.stem: path for path in written}
        self.report = folder / "report.html"
        write_report(self.report, [RunResults(dict(facts), self.tables)], figures=folder / "figures")
