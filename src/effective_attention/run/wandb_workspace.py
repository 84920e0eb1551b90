"""Lay out a W&B workspace for this project's runs: ``python -m effective_attention.run.wandb_workspace --entity <you>``.

Needs the extra ``dashboard`` (wandb-workspaces) and a W&B login. The panels name what ``train.py`` and ``evaluate.py``
log.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from effective_attention.errors import UserError, first_line
from effective_attention.run.cli import one_line_errors

_ATTENTIONS = ("standard", "effective")
_SCORES = ("accuracy", "f1", "matthews", "pearson", "spearman")
_TOKEN_TYPES = ("cls", "sep", "punctuation", "noun", "pronoun", "verb")
_FIGURES = (
    "token_types", "delimiters", "finetuning_shift", "patterns", "null_space", "timing", "heatmap", "head_ablation",
    "faithfulness", "faithfulness_layers", "faithfulness_subject", "attention_graph", "attention_graph_maps", "pronouns",
    "alternative_attention", "alternative_attention_heads", "token_type_profile", "token_type_profile_pairs",
    "token_identity", "token_identity_transfer", "token_identity_generalisation", "token_identity_layers",
    "token_identity_neighbours", "token_mixing", "token_mixing_context", "token_mixing_cls", "token_mixing_word",
    "token_mixing_tags", "distance", "distance_depth", "entropy", "entropy_relative", "variability", "pos_attention",
    "pos_attention_effective", "pos_attention_from", "dependency_alignment", "dependency_alignment_relations", "exemplars",
    "exemplars_effective",
)  # fmt: skip


def workspace(entity: str, project: str, *, name: str = "Effective attention") -> Any:
    """The workspace as an object; ``save()`` sends it to the server."""
    try:
        from wandb_workspaces import workspaces
        from wandb_workspaces.reports import v2 as panels
    except ImportError as error:
        raise UserError("wandb-workspaces is not installed; pip install 'effective-attention[dashboard]'") from error

    sections = [
        workspaces.Section("Scores", [_bars(panels, score, f"test/{{}}/{score}") for score in _SCORES], is_open=True),
        workspaces.Section("Cost of effective attention", _cost(panels), is_open=True),
        workspaces.Section("Attention drifts while the model learns", _drift(panels), is_open=True),
        workspaces.Section(
            "Figures", [panels.MediaBrowser(title=key, media_keys=[f"figures/{key}"]) for key in _FIGURES]
        ),
    ]
    runs = workspaces.RunsetSettings(pinned_columns=[f"summary:test/{kind}/accuracy" for kind in _ATTENTIONS])
    return workspaces.Workspace(entity=entity, project=project, name=name, sections=sections, runset_settings=runs)


def _bars(panels: Any, title: str, pattern: str) -> Any:
    return panels.BarPlot(title=title, metrics=[pattern.format(kind) for kind in _ATTENTIONS], orientation="v")


def _cost(panels: Any) -> list[Any]:
    return [
        _bars(panels, "seconds", "test/{}/seconds"),
        panels.BarPlot(title="time, effective / standard", metrics=["test/effective/seconds_ratio"], orientation="v"),
        panels.BarPlot(
            title="largest logit difference", metrics=["test/effective/max_logit_difference"], orientation="v"
        ),
    ]


def _drift(panels: Any) -> list[Any]:
    """A line per layer, and one per type of token, for each attention."""
    cosines = [
        panels.LinePlot(
            title=f"similarity to the pretrained start, {kind}",
            metric_regex=f"cosine/{kind}/layer_.*",
            title_y="cosine",
            y=[],
        )
        for kind in _ATTENTIONS
    ]
    tokens = [
        panels.LinePlot(
            title=f"attention of [CLS], {kind}",
            y=[f"token_attention/{kind}/{token}" for token in _TOKEN_TYPES],
            title_y="weight",
        )
        for kind in _ATTENTIONS
    ]
    return [*cosines, *tokens]


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
        except Exception as error:  # no login, no network, no such project: all are the user's to mend
            raise UserError(
                f"W&B did not take the workspace: {first_line(error)}; log in with `wandb login`"
            ) from error


if __name__ == "__main__":
    main(sys.argv[1:])
