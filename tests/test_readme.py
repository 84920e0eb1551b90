"""The README stays short, leads somewhere, and its examples do what they say."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_it_is_short() -> None:
    lines = README.splitlines()
    assert len(lines) <= 200
    assert len(README.split()) <= 1500
    assert max(map(len, lines)) <= 120


def without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """List the anchors of a page's headings, as GitHub and MyST make them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = without_code(page.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        assert place.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(place), f"{page.name}: {target}"


def test_every_page_is_in_the_sites_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {line for block in re.findall(r"```{toctree}(.*?)```", index, flags=re.DOTALL) for line in block.split()}
    pages = {
        str(page.relative_to(ROOT / "docs").with_suffix("")) for page in PAGES if page.is_relative_to(ROOT / "docs")
    }
    assert pages - {"index"} <= listed


@pytest.fixture
def folder(tmp_path: Path, tokenizer: Any) -> Path:
    """Save a tiny classifier under the name that the README's example loads."""
    from effective_attention.models.encoders import TinyEncoder

    torch.manual_seed(0)
    TinyEncoder().classifier(2).save_pretrained(tmp_path / "my-model")
    tokenizer.save_pretrained(tmp_path / "my-model")
    return tmp_path


def test_the_python_examples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)
    assert names["tables"].keys() == {"null_space", "distance"}
    assert (folder / "why.html").stat().st_size > 0
    assert (folder / "heads.html").stat().st_size > 10_000
    torch.testing.assert_close(names["parts"].effective @ names["value"], names["attention"] @ names["value"])
    rows = names["attentions"][0].sum(dim=-1)
    assert rows.shape[-1] > 16  # longer than the tiny model's heads are wide, so that the two part
    assert float((rows - 1).abs().max()) > 1e-3
