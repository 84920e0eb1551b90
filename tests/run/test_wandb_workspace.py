"""The W&B workspace names what the commands log. Nothing is sent anywhere."""

import re

import pytest

from effective_attention.run import wandb_workspace as module
from effective_attention.run.wandb_workspace import main, workspace


def strings(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


@pytest.fixture
def definition():
    """As it would be sent to the server."""
    return workspace("somebody", "some-project")._to_model().model_dump()


def test_sections_and_place(definition):
    sections = definition["spec"]["section"]["panel_bank_config"]["sections"]
    assert [section["name"] for section in sections] == [
        "Scores",
        "Cost of effective attention",
        "Attention drifts while the model learns",
        "Figures",
    ]
    assert (definition["entity"], definition["project"]) == ("somebody", "some-project")


def test_every_panel_shows_something_that_is_logged(definition, trained_with_analyses):
    """Metric names, patterns and figures of the panels, against a real run's."""
    metrics, figures = trained_with_analyses
    named = strings(definition)
    shown = {text for text in named if text.startswith(("test/", "token_attention/", "figures/"))}
    patterns = {text for text in named if text.startswith("cosine/")}
    assert patterns == {"cosine/standard/layer_.*", "cosine/effective/layer_.*"}
    for pattern in patterns:
        assert [name for name in metrics if re.fullmatch(pattern, name)]
    assert {name for name in metrics if name.startswith("token_attention/")} <= shown
    assert {
        f"test/{kind}/{name}" for kind in ("standard", "effective") for name in ("accuracy", "f1", "seconds")
    } <= shown
    assert {f"figures/{name}" for name in figures} & shown
    for text in shown:
        kind, _, name = text.partition("/")
        if kind != "figures" and not name.endswith(("matthews", "pearson", "spearman")):  # other tasks' metrics
            assert text in metrics


@pytest.fixture(scope="module")
def trained_with_analyses(composer, tmp_path_factory):
    from effective_attention.run.experiment import train

    cfg = composer(
        "train", tmp_path_factory.mktemp("run"), "analysis=[token_types,finetuning_shift]", "drift.examples=0"
    )
    metrics = train(cfg)
    from pathlib import Path

    return metrics, [path.stem for path in (Path(cfg.run_dir) / "figures").glob("*.png")]


def test_every_figure_of_an_analysis_has_a_panel():
    from helpers.figures import FIGURES

    assert set(module._FIGURES) <= set(FIGURES)


def test_a_server_that_refuses_is_one_line(monkeypatch, capsys):
    from wandb_workspaces.workspaces import Workspace

    def refuse(self):
        raise RuntimeError("api_key not configured\nsecond line")

    monkeypatch.setattr(Workspace, "save", refuse)
    with pytest.raises(SystemExit, match="2"):
        main(["--entity", "somebody"])
    assert capsys.readouterr().err == (
        "error: W&B did not take the workspace: api_key not configured; log in with `wandb login`\n"
    )


def test_saved_under_the_given_names(monkeypatch):
    from wandb_workspaces.workspaces import Workspace

    saved = []
    monkeypatch.setattr(Workspace, "save", lambda self: saved.append((self.entity, self.project)))
    main(["--entity", "somebody", "--project", "theirs"])
    assert saved == [("somebody", "theirs")]
