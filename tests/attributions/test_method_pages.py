"""The pages about attribution methods name all that are registered, and how their words are joined."""

import re

from effective_attention.attributions import METHOD_FILES, registry
from helpers.paths import ROOT

OURS = [
    method
    for method in registry.registered()
    if method.function.__module__.removeprefix("effective_attention.attributions.") in METHOD_FILES
]


def first_cells(page):
    """List the names in the first cells of a page's tables that have a column of papers."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").split("\n## ")
    rows = [line for part in lines[1:3] for line in part.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_every_method_has_its_formula():
    assert first_cells("attribution-methods.md") == {method.name for method in OURS}


def test_how_words_are_joined_is_said_of_every_method():
    text = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    for pieces, words in (("sum", "| the sum, where"), ("largest", "| the largest in absolute value")):
        (row,) = [line for line in text.splitlines() if line.startswith(words)]
        names = re.findall(r"`(\w+)`", row)
        assert sorted(names) == sorted(method.name for method in OURS if method.pieces == pieces)
