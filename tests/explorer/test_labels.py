"""What the explorer writes onto its pictures in headless Chromium: nothing is cut, and every part has a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.browser import TOKENS, change, opened

# The picture is drawn anew, and each text on it noted, with its left and right edge.
WRITTEN = """async () => {
  const pen = CanvasRenderingContext2D.prototype;
  const { fillText } = pen;
  const written = [];
  pen.fillText = function (text, x, y) {
    const { width } = this.measureText(text);
    const left = x - { left: 0, center: width / 2, right: width }[this.textAlign];
    if (this.canvas.closest(".pane")) written.push({ text, left, right: left + width });
    fillText.call(this, text, x, y);
  };
  await explorer.settled();
  pen.fillText = fillText;
  return written;
}"""


def written(page: Any) -> list[str]:
    return [one["text"] for one in page.evaluate(WRITTEN)]


@pytest.mark.parametrize("width", [320, 390, 1200])
@pytest.mark.parametrize("kind", ["one", "bare"])  # names of a few letters, and of one
def test_the_headings_of_heads_are_not_cut(kind: str, width: int, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, kind, width=width) as page:
        found = {one["text"]: one for one in page.evaluate(WRITTEN)}
        room = page.evaluate("document.querySelector('.pane canvas').clientWidth")
        assert {"from (query)", "to (key)"} <= set(found)
        assert [one for one in found.values() if one["left"] < 0 or one["right"] > room] == []
        assert found["from (query)"]["right"] < found["to (key)"]["left"]


def test_neuron_of_a_causal_model_starts_where_all_keys_are_visible(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "causal", "view=neuron") as page:
        assert "not visible to the query" not in written(page)
        assert written(change(page, query=0)).count("not visible to the query") == len(TOKENS) - 1


def test_the_bars_under_rollout_say_what_they_are(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "causal", "view=rollout") as page:
        assert "the row of layer 0 as bars" in written(page)
        assert "the row of layer 1 as bars" in written(change(page, layer=1))
