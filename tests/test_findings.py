"""The pages of findings say what their kept numbers say."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = ("page", "pages")


@pytest.fixture(scope="module")
def findings():
    sys.path.insert(0, str(ROOT / "scripts" / "findings"))
    try:
        yield [importlib.import_module(name) for name in NAMES]
    finally:
        sys.path.remove(str(ROOT / "scripts" / "findings"))


def test_tables_are_those_of_the_kept_numbers(findings):
    _, pages = findings
    for page in pages.PAGES:
        text = page.file.read_text(encoding="utf-8")
        assert page.written() == text, f"run python scripts/findings --tables {page.name}"
        assert text.count("<!-- table: ") == len(page.tables(page.numbers())), page.name


def test_all_kept_numbers_belong_to_a_part(findings):
    _, pages = findings
    parts = {page.kept(part) for page in pages.PAGES for part in page.parts}
    assert set((ROOT / "docs" / "findings" / "numbers").rglob("*.json")) <= parts


def test_a_part_is_measured_once_and_kept(findings, tmp_path, monkeypatch, capsys):
    module, _ = findings
    monkeypatch.setattr(module, "FINDINGS", tmp_path)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    asked = []

    def measure(part, place):
        asked.append(part)
        return {"value": 1 / 3}

    def tables(numbers):
        return {"t": module.markdown(["part"], [[part] for part in numbers])}

    page = module.Page("some", ("a", "b"), measure, tables)
    place = module.Place(tmp_path, tmp_path)
    page.measure_missing(["a"], place)
    page.measure_missing(["a", "b"], place)
    assert asked == ["a", "b"]
    assert json.loads(page.kept("a").read_text()) == {"value": 0.333333}
    assert "kept numbers/some/a.json" in capsys.readouterr().out
    page.file.write_text("# Title\n\n<!-- table: t -->\nold\n<!-- end of table -->\nafter\n")
    assert "| part |\n|---|\n| a |\n| b |" in page.written()
    assert "old" not in page.written()
    assert page.written().endswith("after\n")
    page.file.write_text("# Title\n")
    with pytest.raises(ValueError, match=r"some\.md has no place for the table 't'"):
        page.written()


def test_missing_data_is_named(findings, tmp_path):
    module, _ = findings
    with pytest.raises(SystemExit, match="wiki is not there: --data must be a folder with wiki in it"):
        module.Place(tmp_path, tmp_path).folder("wiki")
