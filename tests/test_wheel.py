"""The wheel, as a user has it: built, installed in an environment of its own, and used outside the checkout.

One test, so that one process builds and installs once.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from helpers.paths import CONF, ROOT

SMALL = ("task=mrpc", "model=tiny", "data.limit_eval=16", "analysis=none", "logger=csv")
FROM_PYTHON = """
import sys
from effective_attention import analyse, explain, load_run

model, tokenizer = load_run(sys.argv[1])
assert len(analyse(model, tokenizer, ["A good film.", "A dull one."], ["distance"], progress=False)["distance"])
explain(model, tokenizer, "A good film.", method="gradient_x_input").save("why.html")
model.save_pretrained("my_classifier")
tokenizer.save_pretrained("my_classifier")
"""
"""The README's tasks in a notebook: the model of a run, an analysis, why a prediction, and a classifier's folder."""


def build(folder: Path, kind: str, to: Path) -> Path:
    """Build an sdist or a wheel of the project in a folder, without the network; return the file."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", to], cwd=folder, check=True)
    (file,) = to.iterdir()
    return file


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment, which finds its dependencies in this one; return its scripts' folder.

    A ``.pth`` file adds our packages behind the environment's own, without following the ``.pth`` files among them:
    an editable install of the checkout stays out of sight.
    """
    venv.create(folder, with_pip=False)
    scripts, own = (Path(sysconfig.get_path(kind, "venv", {"base": str(folder)})) for kind in ("scripts", "purelib"))
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (own / "dependencies.pth").write_text("\n".join(places) + "\n")
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--python", str(scripts / "python")]
    subprocess.run([*pip, "install", *options, str(wheel)], check=True)
    return scripts


def test_an_installed_wheel_does_what_the_readme_says_outside_the_checkout(tmp_path: Path) -> None:
    for tool in ("hatchling", "pip"):
        pytest.importorskip(tool, reason="builds and installs the wheel: pip install -e '.[dev]'")
    with tarfile.open(build(ROOT, "sdist", tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    wheel = build(source, "wheel", tmp_path / "wheel")
    files = {name.removeprefix("effective_attention/") for name in zipfile.ZipFile(wheel).namelist()}
    assert {f"conf/{path.relative_to(CONF).as_posix()}" for path in CONF.rglob("*.yaml")} <= files
    scripts = install(wheel, tmp_path / "environment")
    here = tmp_path / "elsewhere"
    here.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"EFFECTIVE_ATTENTION_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}

    def run(*words: str) -> str:
        command = [str(scripts / "effective-attention"), *words]
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    assert "usage: effective-attention <command>" in run("--help")
    told = run("doctor")
    assert f", installed: {tmp_path / 'environment'}" in told, "the wheel is used, not the checkout"
    assert told.endswith("what the default commands need is here\n")
    said = run("train", *SMALL, "data.limit_train=16", "trainer.max_epochs=1")
    assert "a small demonstration, not the paper's setting" in said
    (trained,) = (here / "runs" / "mrpc").glob("train-*")
    assert (trained / "checkpoints" / "last.ckpt").is_file()
    run("evaluate", *SMALL, f"checkpoint={trained.relative_to(here)}")
    (evaluated,) = (here / "runs" / "mrpc").glob("evaluate-*")
    scores = [json.loads((folder / "metrics.json").read_text()) for folder in (trained, evaluated)]
    assert scores[0]["test/effective/accuracy"] == scores[1]["test/effective/accuracy"]
    assert {path.name for path in here.iterdir()} == {"runs"}

    rows = [f'"Film {number} was {label}.",{label}' for number, label in enumerate(["good", "bad", "dull"] * 8)]
    (here / "my_data").mkdir()
    (here / "my_data" / "train.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    own = ["task=custom", "data=local", "data.dir=my_data", "task.text_columns=[text]", *SMALL[1:]]
    assert "bad (8), dull (8), good (8)" in run("train", *own, "trainer.max_epochs=1")
    (trained,) = (here / "runs" / "custom").glob("train-*")
    notebook = subprocess.run(
        [str(scripts / "python"), "-c", FROM_PYTHON, trained], cwd=here, env=environment, capture_output=True, text=True
    )
    assert notebook.returncode == 0, notebook.stderr[-2000:]
    assert (here / "why.html").is_file()
    said = run("explain", "checkpoint=my_classifier", "text=Film 3 was so good.", "logger=csv")
    assert "predicted: " in said
