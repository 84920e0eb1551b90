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


def test_a_killed_training_goes_on_and_a_finished_one_is_left_alone(findings, tmp_path, monkeypatch):
    module, _ = findings
    ran = []
    monkeypatch.setattr(module, "command", lambda program, *options: ran.append((program, options)))
    module.train(tmp_path, "task=rte")
    assert ran == [("train.py", ("task=rte", "logger=csv", f"hydra.run.dir={tmp_path}"))]
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    module.train(tmp_path, "task=rte")
    assert ran[1] == ("train.py", (f"resume={tmp_path}",))
    (tmp_path / "metrics.json").touch()
    before = len(ran)
    assert module.train(tmp_path, "task=rte") == tmp_path
    assert len(ran) == before


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


@pytest.fixture
def main_paper(findings):
    return importlib.import_module("main_paper_tables")


def made_up(seed, value, change, *, task="mrpc"):
    """A part with one number under standard attention, 0.5, and under effective attention, with intervals."""
    name = "delimiters/{}/sep"
    exact = {name.format("standard"): 0.5, name.format("effective"): value}
    exact |= {f"interval/delimiters/{kind}/sep/low": 0.4 for kind in ("standard", "effective")}
    exact |= {f"interval/delimiters/{kind}/sep/high": 0.6 + seed / 100 for kind in ("standard", "effective")}
    exact |= {f"interval/delimiters/effective/sep/change_{side}": change[side == "high"] for side in ("low", "high")}
    exact |= {f"cosine/standard/layer_{layer:02d}": 1 - layer / 10 for layer in range(4)}
    return {"part": {"task": task, "seed": seed, "train": None}, "exact": exact, "affine": exact, "padded": exact}


def test_seeds_are_averaged_and_their_intervals_joined(main_paper):
    runs = [made_up(1, 0.3, (-0.3, -0.1)), made_up(2, 0.2, (-0.4, -0.2))]
    name = "delimiters/{}/sep"
    assert main_paper.value(runs, "exact", name.format("effective")) == main_paper.Value(0.25, 0.4, 0.62)
    assert main_paper.change(runs, "exact", name) == main_paper.Value(-0.25, -0.4, -0.1)
    assert main_paper.value(runs, "exact", "delimiters/effective/cls") is None


def test_a_claim_is_counted_where_every_seed_is_sure(main_paper):
    sure, unsure = made_up(1, 0.3, (-0.3, -0.1)), made_up(2, 0.3, (-0.3, 0.1))
    name = "delimiters/{}/sep"
    assert main_paper.verdicts({"mrpc": [sure]}, "exact", name) == "less: MRPC (-0.2)"
    assert main_paper.verdicts({"mrpc": [sure, unsure]}, "exact", name) == "neither: MRPC (-0.2)"
    both = {"mrpc": [sure], "rte": [made_up(1, 0.9, (0.3, 0.5))]}
    assert main_paper.verdicts(both, "exact", name) == "less: MRPC (-0.2); more: RTE (+0.4)"
    assert main_paper.verdicts({}, "exact", name) == ""


def test_the_layers_that_changed_most_are_told_from_the_last_ones(main_paper):
    runs = {"mrpc": [made_up(1, 0.3, (-0.3, -0.1))]}
    assert main_paper.cosines(runs["mrpc"], "exact", "standard") == pytest.approx([1, 0.9, 0.8, 0.7])
    assert main_paper.last_layers(runs, "exact") == "standard: MRPC; effective: none"
    table = main_paper.finetuning(runs)
    assert "| MRPC | standard | 2, 3 | 1.00 | 0.90 | 0.80 | 0.70 |" in table
