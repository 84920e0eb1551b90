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
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

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


def test_the_readmes_table_is_that_of_the_chapters() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert generator().with_table(readme) == readme, "run python scripts/generate_docs.py"


def test_the_page_of_options_is_that_of_the_schema_and_the_configs() -> None:
    page = (DOCS / "options.md").read_text(encoding="utf-8")
    assert generator().options_page(ROOT / "conf") == page, "run python scripts/generate_docs.py"


def test_the_page_of_tables_is_that_of_the_schemas() -> None:
    page = (DOCS / "tables.md").read_text(encoding="utf-8")
    assert generator().tables_page() == page, "run python scripts/generate_docs.py"


def test_the_example_of_factors() -> None:
    (example,) = blocks("factors.md", "python")
    names: dict[str, Any] = {}
    exec(example.replace("4096", "300"), names)
    assert names["factors"].dense().shape == (1, 12, 300, 300)
    assert float(names["factors"].error.max()) < 1e-2


# --- the recipes of docs/scale.md ---


def recipes() -> list[list[str]]:
    """Read every command of the page that calls a script of ours, as its words."""
    text = "".join(blocks("scale.md", "bash")).replace("\\\n", " ")
    lines = [line.partition(" # ")[0] for line in text.splitlines()]
    return [shlex.split(line) for line in lines if "train.py" in line or "evaluate.py" in line]


@pytest.mark.parametrize("words", recipes(), ids=" ".join)
def test_the_recipes_are_composed_and_their_options_allowed(words: list[str]) -> None:
    command = next(word for word in words if word.endswith(".py"))
    given = [word for word in words[words.index(command) + 1 :] if "=" in word]
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
    said = [words[0] for words in recipes()]
    assert said.count("torchrun") == 2
    assert said.count("srun") == 1
