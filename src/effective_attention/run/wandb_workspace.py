"""Lay out a W&B workspace for this project: ``python -m effective_attention.run.wandb_workspace --entity <you>``.

Needs the extra ``dashboard`` (wandb-workspaces) and a W&B login. The panels name what ``train.py`` and ``evaluate.py``
log.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from effective_attention.attention.variants import ATTENTIONS
from effective_attention.errors import UserError, first_line
from effective_attention.reports.chapter import Chapter, Scalars
from effective_attention.reports.chapters import all_chapters
from effective_attention.reports.scalars import FINAL
from effective_attention.run.callbacks import WATCHED
from effective_attention.run.cli import one_line_errors

_SCORES = ("accuracy", "f1", "matthews_correlation", "pearson", "spearman")


def workspace(entity: str, project: str, *, name: str = "Effective attention") -> Any:
    """Build the workspace as an object; its ``save()`` sends it to the server."""
    try:
        from wandb_workspaces import workspaces
        from wandb_workspaces.reports import v2 as panels
    except ImportError as error:
        raise UserError("wandb-workspaces is not installed; pip install 'effective-attention[dashboard]'") from error

    chapters = all_chapters()
    scores = [_bars(panels, score, f"test/{{}}/{score}") for score in _SCORES]
    figures = [drawing.name for chapter in chapters for drawing in chapter.figures]
    sections = [
        workspaces.Section("Scores", scores, is_open=True),
        workspaces.Section("Cost of effective attention", _cost(panels), is_open=True),
        workspaces.Section("Attention while the model learns", _followed(panels, chapters), is_open=True),
        workspaces.Section("Attention on the whole split", _final(panels, chapters), is_open=True),
        workspaces.Section("Figures", [panels.MediaBrowser(title=f, media_keys=[f"figures/{f}"]) for f in figures]),
    ]
    runs = workspaces.RunsetSettings(pinned_columns=[f"summary:test/{kind}/accuracy" for kind in ATTENTIONS])
    return workspaces.Workspace(entity=entity, project=project, name=name, sections=sections, runset_settings=runs)


def _bars(panels: Any, title: str, pattern: str) -> Any:
    return panels.BarPlot(title=title, metrics=[pattern.format(kind) for kind in ATTENTIONS], orientation="v")


def _cost(panels: Any) -> list[Any]:
    return [
        _bars(panels, "seconds", "test/{}/seconds"),
        panels.BarPlot(
            title="time, effective / standard: lower quartile, median, upper quartile of the batches",
            metrics=[f"test/effective/seconds_ratio{end}" for end in ("_low", "", "_high")],
            orientation="v",
        ),
        panels.BarPlot(
            title="largest logit difference", metrics=["test/effective/max_logit_difference"], orientation="v"
        ),
    ]


def _followed(panels: Any, chapters: Sequence[Chapter]) -> list[Any]:
    """Draw curves of what ``AttentionDrift`` logs on a few examples, from the pretrained start on."""
    watched = [chapter.scalars for chapter in chapters if chapter.analysis in WATCHED and chapter.scalars is not None]
    return [panel for scalars in watched for panel in _panels(panels, scalars, scalars.prefix)]


def _final(panels: Any, chapters: Sequence[Chapter]) -> list[Any]:
    """Draw the numbers of the whole split, which ``train.py`` and ``evaluate.py`` log once, at the end."""
    every = [chapter.scalars for chapter in chapters if chapter.scalars is not None]
    return [panel for scalars in every for panel in _panels(panels, scalars, f"{FINAL}/{scalars.prefix}")]


def _panels(panels: Any, scalars: Scalars, prefix: str) -> list[Any]:
    """Draw a panel for each attention."""
    return [
        panels.LinePlot(
            title=f"{scalars.title}, {kind}", metric_regex=f"^{prefix}/{kind}/.*", title_y=scalars.unit, y=[]
        )
        for kind in scalars.attentions
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m effective_attention.run.wandb_workspace", description=__doc__)
    parser.add_argument("--entity", required=True, help="your W&B user or team")
    parser.add_argument(
        "--project", default="effective-attention", help="the project the runs are in (default %(default)s)"
    )
    options = parser.parse_args(arguments)
    with one_line_errors():
        view = workspace(options.entity, options.project)
        try:
            view.save()
        except Exception as error:  # no login, no network, no such project: all are the user's to correct
            raise UserError(
                f"W&B did not take the workspace: {first_line(error)}; log in with `wandb login`"
            ) from error


if __name__ == "__main__":
    main(sys.argv[1:])
