"""The explorer where a notebook shows it: in a frame inside another page, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from effective_attention.explorer.notebook import Explorer
from helpers.explorer_page import header_of, numbers_of

SEEN = (("standard", 0, 1, 2, 3), ("effective", 1, 0, 5, 0), ("effective", 0, 3, 0, 7), ("null", 1, 2, 4, 4))


@pytest.fixture(scope="module")
def explorer(tokenizer: Any) -> Any:
    import torch
    from transformers import BertConfig, BertModel

    from effective_attention import explore

    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 16, "intermediate_size": 16}
    return explore(BertModel(BertConfig(**sizes)), tokenizer, "A <img src=x onerror=alert(1)> cat & a dog sat.")


def exactly(html: str, part: str, layer: int, *place: int) -> str:
    """Write a weight as the page must, from the packed whole numbers: no floating point in between."""
    standard, effective = (numbers_of(html, 0, name, layer)[place] for name in ("standard", "effective"))
    value = int({"standard": standard, "effective": effective, "null": standard - effective}[part])
    digits = f"{abs(value):06d}"
    return f"{'-' if value < 0 else ''}{digits[:-5]}.{digits[-5:]}"


def test_in_a_frame_of_a_notebook(chromium: Any, explorer: Any, tmp_path: Path) -> None:
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><title>notebook</title>{explorer._repr_html_()}", encoding="utf-8")
    page = chromium.new_page()
    said: list[str] = []
    asked: set[str] = set()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.add(request.url))
    try:
        page.goto(notebook.as_uri())
        frame = page.frames[1]
        frame.wait_for_function("() => window.explorer !== undefined")
        frame.evaluate("window.explorer.ready")
        for part, *place in SEEN:
            found = frame.evaluate("(place) => window.explorer.value(0, ...place)", [part, *place])
            assert found.replace("\u2212", "-") == exactly(explorer.html, part, *place), (part, place)
        frame.evaluate("window.explorer.set({ view: 'heatmap', part: 'effective', layer: 1 })")
        assert frame.locator("h1").inner_text() == "Attention of BertModel"
        assert said == []
        assert {url for url in asked if url.startswith(("http", "file"))} == {notebook.as_uri()}
    finally:
        page.close()


def test_the_frame_cannot_reach_the_notebook(chromium: Any, explorer: Any, tmp_path: Path) -> None:
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><title>notebook</title>{explorer._repr_html_()}", encoding="utf-8")
    page = chromium.new_page()
    try:
        page.goto(notebook.as_uri())
        reached = page.frames[1].evaluate("() => { try { return parent.document.title; } catch { return null; } }")
        assert reached is None
        assert header_of(explorer.html)["sides"][0]["size"] > 10
    finally:
        page.close()


def test_an_untrusted_notebook_says_why_nothing_is_shown(explorer: Any) -> None:
    """JupyterLab takes the frame away and keeps the text in it, which no browser shows otherwise."""
    left = re.sub(r"</?iframe[^>]*>", "", explorer._repr_html_())
    assert left.startswith("The attention explorer is not shown, as this notebook is not trusted")


def test_the_height_of_the_frame(chromium: Any, explorer: Any, tmp_path: Path) -> None:
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html>{explorer.show(height=420)._repr_html_()}", encoding="utf-8")
    page = chromium.new_page()
    page.goto(notebook.as_uri())
    assert page.locator("iframe").bounding_box()["height"] == 420
    assert "not trusted" not in page.inner_text("body")
    page.close()


@pytest.mark.parametrize("height", [0, 299, 500.0, True, "500"])
def test_a_height_that_makes_no_sense(explorer: Any, height: Any) -> None:
    with pytest.raises(ValueError, match="height must be a whole number of pixels, at least 300, got"):
        explorer.show(height=height)


def test_a_large_page_is_said_to_be_saved_with_the_notebook(explorer: Any, caplog: Any) -> None:
    explorer._repr_html_()
    assert caplog.messages == []
    Explorer("x" * 12_000_000)._repr_html_()
    assert "the page has 12 MB, which are saved with the notebook; .save(path) writes it" in caplog.text
