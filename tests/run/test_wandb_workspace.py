"""The W&B workspace names what the commands log. Nothing is sent anywhere."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.scalars import FINAL
from effective_attention.run.callbacks import WATCHED
from effective_attention.run.wandb_workspace import main, workspace
from helpers.paths import CONF, ROOT
from helpers.wandb_files import RunFile


def strings(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


@pytest.fixture
def definition():
    """Return the workspace as it would be sent to the server."""
    return workspace("somebody", "some-project")._to_model().model_dump()


def test_sections_and_place(definition):
    sections = definition["spec"]["section"]["panel_bank_config"]["sections"]
    assert [section["name"] for section in sections] == [
        "Scores",
        "Cost of effective attention",
        "Attention while the model learns",
        "Attention on the whole split",
        "Figures",
    ]
    assert (definition["entity"], definition["project"]) == ("somebody", "some-project")


def test_scores_are_metrics_of_some_task(definition):
    """Check that no panel asks for a name that no task has."""
    known = {name for path in (CONF / "task").glob("*.yaml") for name in (OmegaConf.load(path).metrics or {})}
    asked = {text.split("/")[2] for text in strings(definition) if text.startswith("test/")}
    costs = {"seconds", "seconds_ratio_low", "seconds_ratio", "seconds_ratio_high", "max_logit_difference"}
    assert asked == known | costs


def test_every_panel_shows_what_an_offline_run_logs(definition, offline):
    """Compare costs, followed numbers and figures of the panels with what a real run, offline, has logged."""
    named = strings(definition)
    logged = offline.metrics
    assert {text for text in named if text.startswith("test/") and "second" in text} <= logged
    every = {chapter.analysis: chapter.scalars for chapter in CHAPTERS if chapter.scalars is not None}
    prefixes = [scalars.prefix for scalars in every.values()]
    patterns = [text for text in named if text.endswith("/.*")]
    shown = [*every.values(), *(every[name] for name in WATCHED)]
    assert len(patterns) == sum(len(scalars.attentions) for scalars in shown), "for each attention"
    found = {pattern: {name for name in logged if re.search(pattern, name)} for pattern in patterns}
    assert all(found.values()), "no panel is empty"
    followed = {name for name in logged if name.split("/")[0] in (*prefixes, FINAL)}
    assert sorted(name for names in found.values() for name in names) == sorted(followed), "each in one panel"
    assert {f"figures/{name}" for name in offline.figures} <= set(named)


def test_the_page_names_every_key_that_is_logged(offline):
    """Compare the table of docs/wandb.md with what a real run, offline, has logged."""
    page = (
        (ROOT / "docs" / "wandb.md").read_text(encoding="utf-8").partition("## What is logged")[2].partition("## ")[0]
    )
    keys = re.findall(r"^\| `(.*?)` \|", page, flags=re.MULTILINE)
    patterns = {key: re.sub(r"<\w+>", "[^/]+", key) for key in keys}
    facts = re.compile(r"^(attention|tables/\w+|figures/\w+)/\w+$")  # W&B's own, of a table or an image
    logged = {facts.sub(r"\1", name) for name in offline.metrics if name[0] != "_"}
    known = {name: [key for key in keys if re.fullmatch(patterns[key], name)] for name in logged}
    assert [name for name, found in known.items() if not found] == []
    assert set(keys) - {key for found in known.values() for key in found} == {"pages/<name>"}


def test_every_figure_of_every_chapter_has_a_panel(definition):
    shown = {text for text in strings(definition) if text.startswith("figures/")}
    assert shown == {f"figures/{drawing.name}" for chapter in CHAPTERS for drawing in chapter.figures}


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """What one training with the analyses that are followed sends to W&B, where there is no server."""
    wanted = [chapter.analysis for chapter in CHAPTERS if chapter.scalars is not None]
    folder = tmp_path_factory.mktemp("offline")
    options = ["model=tiny", f"analysis=[{','.join(wanted)}]", "trainer=cpu", "trainer.max_epochs=1"]
    options += [
        "trainer.log_every_n_steps=1",
        "data.limit_train=6",
        "data.limit_eval=16",
        "data.batch_size=3",
    ]  # 6 batches: enough to time
    options += [f"hydra.run.dir={folder}", f"data.token_cache={folder / 'tokens'}", "trainer.enable_progress_bar=false"]
    done = subprocess.run(
        [sys.executable, "train.py", *options],
        cwd=ROOT,
        env=os.environ | {"WANDB_MODE": "offline"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    keys = {name for entry in RunFile(folder).history for name in entry}
    figures = {key.split("/")[1] for key in keys if key.startswith("figures/")}
    assert figures
    return SimpleNamespace(metrics=keys, figures=figures)


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
