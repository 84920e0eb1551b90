"""Other maps with the same output in the explorer: what a page holds of them, and how it shows them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from effective_attention import decompose, explore
from effective_attention.attention.polytope import smallest_map, sparse_map
from effective_attention.attention.trace import trace
from effective_attention.errors import UserError
from effective_attention.explorer.analysis import ExplorerPage
from effective_attention.explorer.page import build_page
from helpers.browser import (
    TOKENS,
    all_maps,
    change,
    colours,
    downloaded,
    opened,
    readout,
    settle,
    state,
    text_of,
    whole,
)
from helpers.explorer_page import header_of, numbers_of

MAPS = ("affine", "sparse", "smallest")
TEXT = "A cat sat on the mat, and the dog that had seen it said nothing at all about it to anybody there."
RANDOM = np.random.default_rng(0)
KEYS = [f"patch {number}" for number in range(7)]
WEIGHTS = RANDOM.dirichlet([0.4] * 7, size=(2, 4, 7))  # (layer, head, query, key)
VALUE = RANDOM.normal(size=(2, 2, 7, 3))  # two heads share a set


# --- what a page holds ---


def test_maps_of_a_model(subject: Any, tokenizer: Any) -> None:
    page = explore(subject.model, tokenizer, TEXT, maps=MAPS).html
    assert header_of(page)["attentions"] == ["standard", "effective", "null", *MAPS, "difference"]
    assert header_of(page)["signed"] == ["effective", "null", "affine", "padded", "difference"]
    layer = trace(subject.model, tokenizer(TEXT, return_tensors="pt")).layers[1]
    value = layer.value[0].double().numpy()
    standard = layer.attention[0].double().numpy()
    found = {name: numbers_of(page, 0, name, 1) / 1e5 for name in MAPS}
    np.testing.assert_allclose(found["affine"], layer.part("affine")[0], atol=2e-5)
    for head in range(len(value)):
        for name, make in (("sparse", sparse_map), ("smallest", smallest_map)):
            rows = standard[head] / standard[head].sum(axis=1, keepdims=True)
            expected = make(rows, value[head], np.full(rows.shape, True))
            np.testing.assert_allclose(found[name][head], expected, atol=2e-5)
            np.testing.assert_allclose(expected @ value[head], standard[head] @ value[head], atol=1e-6)


def test_affine_is_there_unless_it_is_left_out(subject: Any, tokenizer: Any) -> None:
    assert "affine" in header_of(explore(subject.model, tokenizer, TEXT).html)["attentions"]
    header = header_of(explore(subject.model, tokenizer, TEXT, maps=()).html)
    assert header["attentions"] == ["standard", "effective", "null", "difference"]
    assert "affine" not in header["sides"][0]["blocks"]


def test_maps_of_bare_tensors() -> None:
    page = explore(attention=WEIGHTS, value=VALUE, tokens=KEYS, maps=MAPS).html
    found = {name: numbers_of(page, 0, name, 1) / 1e5 for name in MAPS}
    expected = decompose(torch.tensor(WEIGHTS[1:]), torch.tensor(VALUE[1:]), space="affine").effective[0]
    np.testing.assert_allclose(found["affine"], expected, atol=1e-5)
    everything = np.full((7, 7), True)
    for head in range(4):
        expected = sparse_map(WEIGHTS[1, head], VALUE[1, head // 2], everything)
        np.testing.assert_allclose(found["sparse"][head], expected, atol=1e-5)
        assert (found["sparse"][head] > 0).sum(axis=1).max() <= 4
        assert np.linalg.norm(found["smallest"][head]) < np.linalg.norm(WEIGHTS[1, head])
    assert header_of(explore(attention=WEIGHTS, tokens=KEYS, maps=MAPS).html)["attentions"] == ["standard"]


def test_what_is_the_same_is_stored_once() -> None:
    """With as many value dimensions as keys nothing is free, and all maps are standard attention."""
    wide = RANDOM.normal(size=(2, 4, 7, 9))
    (side,) = header_of(explore(attention=WEIGHTS, value=wide, tokens=KEYS, maps=MAPS).html)["sides"]
    assert [side["blocks"][name] for name in ("effective", *MAPS)] == [[None, None]] * 4
    made = all_maps()
    assert made.effective is not None
    (side,) = header_of(build_page([replace(made, maps={"affine": made.effective})]))["sides"]
    assert side["blocks"]["affine"] == side["blocks"]["effective"] != [None, None]


def test_a_page_offers_what_all_its_sides_hold() -> None:
    few, many = (explore_side(maps) for maps in ((), MAPS))
    assert header_of(build_page([few, many]))["attentions"] == ["standard", "effective", "null", "difference"]


def explore_side(maps: tuple[str, ...]) -> Any:
    from effective_attention.explorer.bare import bare_side

    return bare_side(WEIGHTS, VALUE, KEYS, None, maps=maps)


@pytest.mark.parametrize("maps", ["affine", ["null"], ["sparse", "sparse"], 3])
def test_maps_that_there_are_not(maps: Any) -> None:
    said = "maps must be a list of some of affine, sparse, smallest, each once, got "
    with pytest.raises(ValueError, match=f"^{said}"):
        explore(attention=WEIGHTS, value=VALUE, tokens=KEYS, maps=maps)
    with pytest.raises(UserError, match=rf"^analysis\.explorer\.{said}"):
        ExplorerPage(maps=maps)


def test_weights_below_zero_have_no_maps_in_the_simplex() -> None:
    with pytest.raises(ValueError, match="weights below 0, so sparse and smallest do not exist"):
        explore(attention=-WEIGHTS, value=VALUE, tokens=KEYS, maps=["sparse"])


# --- how it is shown ---


def test_the_toolbar_the_keys_and_the_help_have_the_maps(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "maps", "view=heatmap&layer=1&head=2&query=3&key=4") as page:
        named = page.evaluate("[...document.querySelectorAll('button[data-part]')].map((one) => one.textContent)")
        assert named == ["standard", "effective", "null", *MAPS, "difference"]
        for key, part in zip("fpm", MAPS, strict=True):
            page.keyboard.press(key)
            assert state(page)["part"] == part
            said = readout(settle(page))
            assert said["value"] == text_of(whole(all_maps(), part, 1)[2, 3, 4])
            assert f" {part} " in said["text"]
            assert f"part={part}" in page.evaluate("location.hash")
            low = "0" if part != "affine" else "\u2212"
            assert page.get_attribute("#legend-bar", "aria-label").startswith(f"colour scale from {low}")
        page.keyboard.press("?")
        assert "f p m" in page.inner_text("#help-box")
        assert "inside the simplex" in page.inner_text("#help-box")


def test_a_page_without_maps_says_nothing_of_them(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "bare") as page:
        page.keyboard.press("f")
        assert state(page)["part"] == "standard"
        page.keyboard.press("?")
        assert "affine" not in page.inner_text("#help-box")


@pytest.mark.parametrize("part", MAPS)
def test_every_view_draws_them(part: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "maps", f"part={part}&layer=1") as page:
        for view in ("heads", "model", "heatmap", "neuron", "rollout"):
            assert colours(change(page, view=view)) > 3, view
        note = page.inner_text("#legend-note")
        assert ("size of negative weights taken" in note) == (part == "affine")


def test_the_csv_file_has_the_map(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "maps", "view=heatmap&part=smallest&layer=1&head=2") as page:
        place = downloaded(page, "csv", tmp_path)
        assert place.name == "attention-smallest-layer1-head2.csv"
        rows = list(csv.reader(place.read_text(encoding="utf-8").splitlines()))
        expected = whole(all_maps(), "smallest", 1)[2]
        assert [row[1:] for row in rows[1:]] == [[text_of(number) for number in row] for row in expected]
        assert downloaded(page, "svg", tmp_path).name == "attention-smallest-layer1-head2.svg"
        assert len(rows) == len(TOKENS) + 1
