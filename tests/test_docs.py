"""The pages of docs/ do what they say: their steps are carried out."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from effective_attention.attention.layer import Layer
from effective_attention.run.options.check import check_options
from helpers.paths import ROOT

DOCS = ROOT / "docs"


def blocks(page: str, language: str) -> list[str]:
    """List the code blocks of a page, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Write the files that docs/add-an-analysis.md has its reader write."""
    (tmp_path / "first_token.py").write_text(blocks("add-an-analysis.md", "python")[0], encoding="utf-8")
    config = tmp_path / "my_conf" / "analysis" / "first_token.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(blocks("add-an-analysis.md", "yaml")[0], encoding="utf-8")
    return tmp_path


def test_an_analysis_of_ones_own_from_the_command_line(toy: Path) -> None:
    (command,) = blocks("add-an-analysis.md", "bash")
    assert command.startswith("PYTHONPATH=. python evaluate.py --config-dir my_conf")
    small = ["model=tiny", "trainer=cpu", "limit=8", "logger=csv", f"hydra.run.dir={toy / 'run'}"]
    small += [f"data.token_cache={toy / 'tokens'}", "trainer.enable_progress_bar=false"]
    asked = ["--config-dir", str(toy / "my_conf"), "task=mrpc", "analysis=[first_token]"]
    done = subprocess.run(
        [sys.executable, "evaluate.py", *asked, *small],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{toy}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    table = pd.read_parquet(toy / "run" / "tables" / "first_token.parquet")
    assert list(table.columns[-5:]) == ["attention", "layer", "head", "value", "count"]
    assert table["value"].between(-1, 1).all()
    assert (toy / "run" / "figures" / "first_token.png").read_bytes().startswith(b"\x89PNG")
    page = (toy / "run" / "report.html").read_text(encoding="utf-8")
    assert 'id="first_token"' in page
    assert "Attention to the first token" in page


def test_an_analysis_of_ones_own_from_python(toy: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    from effective_attention import analyse
    from effective_attention.models.encoders import TinyEncoder
    from effective_attention.reports import all_chapters, chapters

    monkeypatch.syspath_prepend(str(toy))
    monkeypatch.setattr(chapters, "_OF_USERS", {})
    module = importlib.import_module("first_token")
    try:
        texts = ["A cat sat on the mat.", "It purred."]
        table = analyse(TinyEncoder().classifier(2), tokenizer, texts, [module.FirstToken(itself=True)])["first_token"]
        lengths = [len(tokenizer(text)["input_ids"]) for text in texts]
        assert set(table["count"]) == {sum(lengths)}
        assert table.loc[table["attention"] == "standard", "value"].between(0, 1).all()
        assert all_chapters()[-1].analysis == "first_token"
    finally:
        sys.modules.pop("first_token", None)


# --- what is written from the code ---


def generator() -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["README.md", "docs/analyses.md"])
def test_the_table_of_analyses_is_that_of_the_chapters(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert generator().with_table(text) == text, "run python scripts/generate_docs.py"


def test_the_page_of_options_is_that_of_the_schema_and_the_configs() -> None:
    page = (DOCS / "options.md").read_text(encoding="utf-8")
    assert generator().options_page(ROOT / "conf") == page, "run python scripts/generate_docs.py"


def test_the_page_of_tables_is_that_of_the_schemas() -> None:
    page = (DOCS / "tables.md").read_text(encoding="utf-8")
    assert generator().tables_page() == page, "run python scripts/generate_docs.py"


def test_the_example_of_factors() -> None:
    example, rows = blocks("factors.md", "python")
    names: dict[str, Any] = {}
    exec(example.replace("4096", "300"), names)
    assert names["factors"].dense().shape == (1, 12, 300, 300)
    assert float(names["factors"].error.max()) < 1e-2
    names = {"layer": Layer(torch.rand(1, 2, 5, 5).softmax(-1), torch.randn(1, 2, 5, 3))}
    exec(rows, names)
    torch.testing.assert_close(names["effective"], names["layer"].part("effective"))


# --- the recipes ---


def recipes(*pages: str) -> list[list[str]]:
    """Read every command of the pages that calls a script of ours, as its words."""
    text = "".join(block for page in pages for block in blocks(page, "bash")).replace("\\\n", " ")
    lines = [line.partition(" # ")[0] for line in text.splitlines()]
    return [shlex.split(line) for line in lines if "train.py" in line or "evaluate.py" in line]


@pytest.mark.parametrize("words", recipes("scale.md", "plain-text.md", "real-models.md", "recipes.md"), ids=" ".join)
def test_the_recipes_are_composed_and_their_options_allowed(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("path/to/glue", "path/to/treebank"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("wiki.txt", "book.txt", "path/to/text.txt"):
        (tmp_path / name).write_text("A text.\n")
    monkeypatch.chdir(tmp_path)
    command = next(word for word in words if word.endswith(".py"))
    given = [word for word in words[words.index(command) + 1 :] if "=" in word]
    given = [word for word in given if "…" not in word and not word.startswith("text")]  # a run's name, a reader's text
    sweeping = "-m" in words
    first = [re.sub(r"^([\w.]+=[^,\[]+),.*", r"\1", option) if sweeping else option for option in given]
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose(command.removesuffix(".py"), overrides=first, return_hydra_config=True)
    hydra = cfg.hydra
    OmegaConf.set_struct(cfg, False)
    del cfg["hydra"]
    cfg.run_dir = "runs"
    check_options(cfg)
    asked = {name.removeprefix("hydra.launcher."): value for name, value in (one.split("=", 1) for one in first)}
    for name in set(asked) & set(hydra.launcher):
        assert str(hydra.launcher[name]) == asked[name]


def test_the_page_has_the_recipes_of_torchrun_and_slurm() -> None:
    said = [words[0] for words in recipes("scale.md")]
    assert said.count("torchrun") == 2
    assert said.count("srun") == 1


# --- docs/encoder_decoders.md ---


def test_the_page_of_encoder_decoders_does_what_it_says(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    import transformers

    from effective_attention import decompose
    from helpers.writers import build_writer, reading_tokenizer

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 8}
    vision = transformers.ViTModel(transformers.ViTConfig(intermediate_size=8, patch_size=2, **sizes))
    words = reading_tokenizer(tokenizer)
    known: dict[str, Any] = {"model": build_writer("t5", len(words)), "tokenizer": words}
    known |= {"image_model": vision, "pixels": torch.randn(1, 3, 8, 8)}
    monkeypatch.chdir(tmp_path)
    loading, *steps = blocks("encoder_decoders.md", "python")
    assert "AutoModelForSeq2SeqLM" in loading
    for step in steps:
        exec(step, known)
    assert known["written"].shape[1] > 1
    assert set(known["cross"]) == {"null_space", "entropy"}
    layer = known["seen"].layers[1]
    torch.testing.assert_close(decompose(layer.attention, layer.value).effective, layer.part("effective"))
    assert (tmp_path / "cat.html").stat().st_size > 10_000
    assert "patch 16" in (tmp_path / "image.html").read_text(encoding="utf-8")


def test_the_page_of_encoder_decoders_lists_what_each_analysis_reads() -> None:
    from effective_attention.analyses.common.registry import analysis_names, find_analysis

    page = (DOCS / "encoder_decoders.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (yes|no)\b[^|]*\| (yes|no)\b[^|]*\|$", page, flags=re.MULTILINE)
    listed = {
        name: tuple(stack for stack, said in zip(("decoder", "cross"), answers, strict=True) if said == "yes")
        for name, *answers in rows
    }
    stacks = {name: find_analysis(name).stacks for name in analysis_names()}
    assert listed == {name: able for name, able in stacks.items() if able}


# --- docs/effective-attention.md, docs/python.md ---


def test_the_example_of_the_split() -> None:
    (example,) = blocks("effective-attention.md", "python")
    names: dict[str, Any] = {}
    exec(example, names)
    attention, value = names["attention"], names["value"]
    torch.testing.assert_close(names["parts"].effective @ value, attention @ value, atol=1e-5, rtol=1e-4)


def test_the_page_of_python_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from effective_attention.models.encoders import TinyEncoder

    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, Any] = {"classifier": TinyEncoder().classifier(2).eval()}
    for block in blocks("python.md", "python"):
        exec(compile(block, "docs/python.md", "exec"), names)
    assert names["effective"][0].shape[:2] == (2, 12)
    assert names["tables"].keys() == {"null_space", "distance"}
    assert (tmp_path / "why.html").stat().st_size > 0
    assert (tmp_path / "heads.html").stat().st_size > 10_000


# --- docs/architecture.md ---


def test_the_page_of_architecture_has_the_packages_in_their_order() -> None:
    from test_layers import ORDER

    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rows = page.partition("| what is in it |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    said = [name.rstrip("/") for row in rows for name in re.findall(r"`(\w+/?)`", row.split("|")[1])]
    packages = {path.parent.name for path in (ROOT / "src" / "effective_attention").glob("*/__init__.py")}
    assert said == [layer for layer in ORDER if layer in said]
    assert packages <= {*said}


# --- CITATION.cff ---


def test_the_citation_names_the_software_and_the_papers() -> None:
    import yaml

    import effective_attention

    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert cited["version"] == effective_attention.__version__
    assert [paper["year"] for paper in cited["references"]] == [2021, 2020, 2020, 2019]
    assert all({"type", "title", "authors"} <= paper.keys() for paper in cited["references"])
