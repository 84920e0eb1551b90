"""Which analyses run: those of the config, but for those that this model, task or text has no answer for.

What is left out is named in one line of the log, with the reason.
"""

from __future__ import annotations

import logging

from omegaconf import DictConfig

from effective_attention.analyses.common.base import Analysis, Context
from effective_attention.errors import UserError
from effective_attention.run.options.targets import build
from effective_attention.run.setup import Run

log = logging.getLogger(__name__)


def instances(configs: DictConfig) -> dict[str, Analysis]:
    """Build the chosen analyses from their configs.

    Raises:
        UserError: An option is wrong, or there is none of that name.
    """
    needed = ("analysis_name", "setup", "compute")
    names = [str(name) for name in configs]
    return {name: build(configs[name], f"analysis.{name}", has=needed) for name in names}


def of_the_text(analyses: dict[str, Analysis]) -> dict[str, Analysis]:
    """Leave out analyses of the split, where the user has given a text: that text alone is looked at.

    Raises:
        UserError: All of them are of the split.
    """
    left_out = [name for name, analysis in analyses.items() if not analysis.reads_text]
    if left_out and len(left_out) == len(analyses):
        raise UserError(
            f"text: analysis={', '.join(left_out)} is of the split, not of a text; leave text= out, or add "
            "analysis=explain"
        )
    if left_out:
        log.warning("left out, because they look at the split and not at text=: %s", ", ".join(left_out))
    return {name: analysis for name, analysis in analyses.items() if name not in left_out}


def answerable(analyses: dict[str, Analysis], *, has_labels: bool) -> dict[str, Analysis]:
    """Leave out analyses that ask what the model answers, or whether that is right, where the task has no labels."""
    left_out = [name for name, analysis in analyses.items() if _asks(analysis) and not has_labels]
    if left_out:
        log.warning("left out, because the task has no labels: %s", ", ".join(left_out))
    return {name: analysis for name, analysis in analyses.items() if name not in left_out}


def comparable(analyses: dict[str, Analysis], run: Run) -> dict[str, Analysis]:
    """Leave out analyses that would compare the pretrained model with itself, or with nothing anybody knows."""
    left_out = [name for name, analysis in analyses.items() if analysis.needs_reference and not run.has_start]
    if left_out and run.checkpoint is None and run.facts.get("run/head") != "finetuned":
        log.warning("left out, because there is no finetuned model: %s; add checkpoint=<run>", ", ".join(left_out))
    elif left_out:
        why = "the model was finetuned elsewhere, and what it was before is not known"
        log.warning("left out, because %s: %s; they need a run of train.py", why, ", ".join(left_out))
    return {name: analysis for name, analysis in analyses.items() if name not in left_out}


def delimited(analyses: dict[str, Analysis], *, has_delimiters: bool) -> dict[str, Analysis]:
    """Leave out analyses of [CLS] and [SEP], where the tokenizer sets none."""
    left_out = [name for name, analysis in analyses.items() if analysis.needs_delimiters and not has_delimiters]
    if left_out:
        log.warning("left out, because the model's tokenizer sets no [CLS] and [SEP]: %s", ", ".join(left_out))
    return {name: analysis for name, analysis in analyses.items() if name not in left_out}


def possible(analyses: dict[str, Analysis], context: Context) -> dict[str, Analysis]:
    """Leave out analyses of what the model has not got."""
    obstacles = {name: analysis.obstacle(context) for name, analysis in analyses.items()}
    for name, obstacle in obstacles.items():
        if obstacle is not None:
            log.warning("left out, because %s: %s", obstacle, name)
    return {name: analysis for name, analysis in analyses.items() if obstacles[name] is None}


def _asks(analysis: Analysis) -> bool:
    return analysis.needs_labels or analysis.needs_answer
