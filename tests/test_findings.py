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


def test_figures_are_drawn_from_the_kept_numbers(findings, tmp_path, monkeypatch):
    module, pages = findings
    drawn = [page for page in pages.PAGES if page.figures is not None]
    kept = {page.name: page.numbers() for page in drawn}
    names = {page.name: [f"{page.name}-{name}.png" for name in page.figures(kept[page.name])] for page in drawn}
    assert names["league"] == ["league-methods.png", "league-ranks.png"]
    for page in drawn:
        shown = page.file.read_text(encoding="utf-8")
        assert all(f"({name})" in shown and (ROOT / "docs" / "findings" / name).exists() for name in names[page.name])
    monkeypatch.setattr(module, "FINDINGS", tmp_path)
    monkeypatch.setattr(module.Page, "numbers", lambda self: kept[self.name])
    for page in drawn:
        assert page.figures({}) == {}
        page.draw()
    assert {file.name for file in tmp_path.iterdir()} == {name for found in names.values() for name in found}


def test_the_league_reads_pairs_from_either_side(findings):
    tables = importlib.import_module("league_tables")
    columns = ["attention", "method", "other_attention", "other_method", "p", "value", "low", "high"]
    pairs = {"columns": columns, "rows": [[None, "random", "effective", "raw", 0.01, 0.2, 0.1, 0.4]]}
    found = {"tokens": {"pairs": pairs}}
    one, other = ("", "random"), ("effective", "raw")
    assert tables._difference(found, one, other) == "0.200 [0.100, 0.400] *"
    assert tables._difference(found, other, one) == "-0.200 [-0.400, -0.100] *"
    assert tables._difference(found, one, ("", "flow")) == tables._difference(found, one, one) == tables.NONE
    rows = {"raw": {"value": -0.1, "p": 0.01}, "flow": {"value": 0.3, "p": 0.02}, "alti": {"value": 0.9, "p": 0.5}}
    assert tables._counted(rows, "comprehensiveness") == tables._counted(rows, "sufficiency") == "1 / 1 / 1"
    assert tables._counted({"raw": {"value": -0.1, "p": 0.01}}, "sufficiency") == "1 / 0 / 0"


def test_the_league_names_all_that_are_not_surely_below_the_best(findings):
    tables = importlib.import_module("league_tables")
    columns = ["attention", "method", "other_attention", "other_method", "p", "value", "low", "high"]
    rows = [
        [None, "random", None, "blank_out", 0.01, -0.5, -0.6, -0.4],  # surely below
        [None, "blank_out", None, "shapley", 0.01, -0.2, -0.3, -0.1],  # surely above, though its average rank is not
        [None, "blank_out", "standard", "alti", 0.4, 0.1, -0.1, 0.3],
        ["effective", "alti", None, "blank_out", 0.4, -0.1, -0.3, 0.1],
        [None, "shapley", None, "random", 0.01, 0.7, 0.6, 0.8],
    ]
    ranks = {"columns": ["method", "value", "count"], "rows": [["blank_out", 1.4, 9], ["shapley", 1.6, 9]]}
    found = {"tokens": {"pairs": {"columns": columns, "rows": rows}, "ranks": ranks}}
    table = tables.best({"minilm-sst2": found}).splitlines()[-1]
    assert table == "| MiniLM, SST-2 | blank-out | ALTI (both), Shapley values | 2 / 0 / 0 |"
    cells = ["MiniLM, SST-2", "blank-out", tables.NONE, tables.NONE, "0.500 [0.400, 0.600] *"]
    assert tables.lead({"minilm-sst2": found}).splitlines()[-1] == f"| {' | '.join(cells)} |"


def test_the_league_orders_by_what_is_better(findings):
    tables = importlib.import_module("league_tables")
    columns = ["method", "measure", "value"]
    rows = [[name, "comprehensiveness", place] for place, name in enumerate(("raw", "flow", "alti"))]
    rows += [[name, "sufficiency", -place] for place, name in enumerate(("raw", "flow", "alti"))]  # low is good
    rows += [[name, "spearman_gradients", -place] for place, name in enumerate(("raw", "flow", "alti"))]
    found = {"minilm-sst2": {"tokens": {"means": {"columns": columns, "rows": rows}}}}
    none = tables.NONE
    assert tables.measures(found).splitlines()[-1] == f"| MiniLM, SST-2 | 1.00 | {none} | -1.00 | {none} |"
    assert tables._best(tables.means(found["minilm-sst2"], "sufficiency"), "sufficiency") == tables.method_title("alti")


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
    page.measure_parts(["a"], place)
    page.measure_parts(["a", "b"], place)
    assert asked == ["a", "b"]
    page.measure_parts(["a"], place, again=True)
    assert asked == ["a", "b", "a"]
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
