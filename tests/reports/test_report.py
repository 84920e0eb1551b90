"""The report: its words and numbers, that text from data cannot become markup, and how it fares in a browser."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from effective_attention.errors import UserError
from effective_attention.reports import full_table, sections
from effective_attention.reports.chapters import CHAPTERS, patterns
from effective_attention.reports.drawing.files import write_figures
from effective_attention.reports.grid import NONE
from effective_attention.reports.measured import behind, measured
from effective_attention.reports.report import write_report
from effective_attention.reports.runs import RunResults, combine
from effective_attention.reports.scores import scores, scores_found

Make = Callable[..., dict[str, Any]]
TASKS = ("rte", "mrpc", "stsb")
SECTIONS = ["runs", "scores", *(chapter.analysis for chapter in CHAPTERS if chapter.analysis != "explorer")]


@dataclass
class Page(HTMLParser):
    """What a reader sees, by section: text, rows of tables, and attributes of all elements."""

    text: str = ""
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    rows: list[tuple[str, list[str]]] = field(default_factory=list)
    section: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._silent = self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._silent = tag in ("style", "script")
        if tag == "section":
            self.section = str(dict(attrs)["id"])
        if tag == "tr":
            self.rows.append((self.section, []))
        if tag in ("td", "th"):
            self.rows[-1][1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._silent = False
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        self.text += data
        if self._in_cell:
            self.rows[-1][1][-1] += data.strip()

    def row(self, section: str, *start: str) -> list[str]:
        """The section's first row that begins with these cells."""
        return next(cells for place, cells in self.rows if place == section and cells[: len(start)] == list(start))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


@pytest.fixture(scope="module")
def page(report: Path) -> Page:
    return read(report)


# --- contents ---


def test_sections_come_in_order_and_the_navigation_leads_to_each(page: Page) -> None:
    assert [section["id"] for section in page.all("section")] == SECTIONS
    assert [link["href"] for link in page.all("a")][1 : 1 + len(SECTIONS)] == [f"#{name}" for name in SECTIONS]


def test_scores_of_every_run_and_attention(page: Page) -> None:
    assert page.row("scores", "MRPC", "padded") == [
        "MRPC",
        "padded",
        "accuracy 0.804",
        "3",
        "8.7e-06",
        "0.900",
        "7.4",
        "2.47",
        "2.42 to 2.57",
    ]
    assert page.row("scores", "STS-B", "effective")[2:4] == ["pearson 0.804", NONE]


def test_scores_of_one_task_say_which_weights_were_tested() -> None:
    unscored = {"run/task": "treebank", "test/standard/seconds": 7.0}
    runs = [unscored, {**unscored, "run/checkpoint": "runs/x"}]
    grid = scores(runs)
    assert grid.columns[:4] == ["task", "checkpoint", "attention", "score"]
    assert grid.labels == 4
    assert [row[:4] for row in grid.rows] == [
        ["Treebank", "none: pretrained", "standard", NONE],
        ["Treebank", "runs/x", "standard", NONE],
    ]
    assert scores([unscored, {**runs[1], "run/task": "mrpc"}]).columns[:2] == ["task", "attention"]


def test_table_2_has_the_papers_numbers_beside_ours(page: Page, makers: tuple[Make, Make]) -> None:
    table = makers[0]("rte", seed=0)["patterns"]
    rows = table[(table["attention"] == "effective") & table["layer"].isna()].set_index("pattern")["value"]
    cells = page.row("patterns", "RTE", "effective")
    assert cells[3::2] == ["32.6", "12.8", "2.8", "40.3", "11.5"]
    order = ("block", "diagonal", "vertical+diagonal", "heterogeneous", "vertical")
    assert cells[2::2] == [f"{100 * rows[name]:.1f}" for name in order]


def test_table_3_has_the_papers_times_beside_ours(page: Page) -> None:
    assert page.row("timing", "MRPC") == [
        "MRPC", "3.0", "3.9", "7.4", "1.31", "1.26 to 1.41", "2.47", "2.42 to 2.57", "0:45", "1:27", "1.93",
    ]  # fmt: skip


def test_a_task_the_paper_does_not_have_gets_dashes(makers: tuple[Make, Make], tmp_path: Path) -> None:
    tables, facts = makers
    chosen = {name: tables("cola")[name] for name in ("timing", "patterns")}
    write_report(tmp_path / "report.html", [RunResults(facts("cola"), chosen)])
    page = read(tmp_path / "report.html")
    assert page.row("timing", "CoLA")[-3:] == [NONE, NONE, NONE]
    assert page.row("patterns", "CoLA", "standard")[3::2] == [NONE] * 5
    assert [section["id"] for section in page.all("section")] == ["runs", "scores", "timing", "patterns"]


def test_summaries_by_hand(page: Page, makers: tuple[Make, Make]) -> None:
    tables = makers[0]("rte", seed=0)
    shift = tables["finetuning_shift"]
    means = shift[shift["attention"] == "standard"].groupby("layer")["value"].mean()
    assert page.row("finetuning_shift", "RTE", "standard")[2:4] == [f"{value:.3f}" for value in means]
    ablated = tables["head_ablation"]
    heads = ablated[ablated["head"].notna()]
    worst = heads.loc[heads["change"].idxmin()]
    assert page.row("head_ablation", "RTE")[2:4] == [
        "0.800",
        f"{worst['change']:.3f} (layer {worst['layer']}, head\N{NO-BREAK SPACE}{worst['head']})",
    ]
    null = tables["null_space"]
    mass = {
        reading: rows["value"].mean()
        for reading, rows in null[(null["quantity"] == "null_mass") & null["length"].isna()].groupby("reading")
    }
    assert page.row("null_space", "RTE")[8:10] == ["0.230", "0.070"]
    assert page.row("null_space", "RTE")[10] == f"{1 - mass['exact_subset'] / mass['padded']:.3f}"


def test_each_chapter_says_once_what_was_measured_on_which_data(page: Page, makers: tuple[Make, Make]) -> None:
    counts = "RTE 408, MRPC 408, STS-B 408"
    said = f"Measured on validation examples ({counts}), minilm (finetuned), data from local files."
    combined = combine([RunResults({}, makers[0](task, seed=index)) for index, task in enumerate(TASKS)])
    tables = [combined[chapter.analysis] for chapter in CHAPTERS if chapter.analysis in combined]
    expected = Counter(measured(table) for table in tables)
    assert expected[said] > 10
    assert {sentence: page.text.count(sentence) for sentence in expected} == expected
    assert f"the two compared on the same examples ({counts})." in page.text
    tables = makers[0]("rte", model="tiny", data="sample", split="test", examples=7, checkpoint="")
    assert measured(tables["timing"]) == (
        "Measured on test examples (RTE 7), tiny (pretrained), data from the embedded sample; "
        "effective attention read exactly, and as published, with padding inside the null space."
    )


def test_what_is_behind_a_finding_is_counted_by_task(makers: tuple[Make, Make]) -> None:
    runs = [RunResults({}, {"timing": makers[0](task, examples=16)["timing"]}) for task in ("rte", "mrpc")]
    assert behind(combine(runs[:1])["timing"]) == "16 examples"
    assert behind(combine(runs)["timing"]) == "16 examples of each task"


def test_seeds_are_one_row_with_their_mean(makers: tuple[Make, Make]) -> None:
    tables, facts = makers
    runs = [RunResults(facts(**{"run/seed": seed}), {"timing": tables(seed=seed)["timing"]}) for seed in (1, 2)]
    assert "(MRPC 408, mean of 2 runs)" in measured(combine(runs)["timing"])


def test_figures_are_inside_the_page_and_described(page: Page) -> None:
    pictures = page.all("img")
    assert len(pictures) == 56
    assert all(str(picture["src"]).startswith("data:image/svg+xml;base64,") for picture in pictures)
    assert all("RTE, MRPC, STS-B" in str(picture["alt"]) for picture in pictures)


def test_nothing_is_fetched(page: Page) -> None:
    sources = [
        str(value) for _, attributes in page.elements for name, value in attributes.items() if name in ("src", "href")
    ]
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert "default-src 'none'" in str(page.all("meta")[1]["content"])


def test_full_tables_are_cut_on_the_page_and_whole_in_the_link(page: Page, makers: tuple[Make, Make]) -> None:
    links = {str(link["download"]): str(link["href"]) for link in page.all("a") if "download" in link}
    rows = list(csv.DictReader(io.StringIO(unquote(links["delimiters.csv"].partition(",")[2]))))
    assert len(rows) == 3 * len(makers[0]()["delimiters"])
    assert "run" not in rows[0]
    first = makers[0]("rte", seed=0)["delimiters"].iloc[0]
    assert float(rows[0]["value"]) == first["value"]
    shown = [cells for place, cells in page.rows if place == "delimiters" and len(cells) == len(rows[0])]
    assert len(shown) == 1 + min(60, len(rows))


def test_a_table_too_long_for_the_page_is_named_instead(
    makers: tuple[Make, Make], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_table, "_MOST_BYTES", 10)
    write_report(tmp_path / "report.html", [RunResults(makers[1](), {"timing": makers[0]()["timing"]})])
    page = read(tmp_path / "report.html")
    assert not [link for link in page.all("a") if "download" in link]
    assert "All rows: tables/timing.csv of each run." in page.text


def test_the_note_of_embedded_defaults_is_shown_once(makers: tuple[Make, Make], tmp_path: Path) -> None:
    runs = [
        RunResults(makers[1](task, **{"run/note": f"embedded model: a demonstration; task={task}"})) for task in TASKS
    ]
    write_report(tmp_path / "report.html", runs)
    text = read(tmp_path / "report.html").text
    assert text.count("embedded model: a demonstration") == 1
    assert "task=rte" in text
    write_report(tmp_path / "plain.html", [RunResults(makers[1]())])
    assert "Note:" not in read(tmp_path / "plain.html").text


def test_the_interactive_page_of_a_run_is_linked(makers: tuple[Make, Make], tmp_path: Path) -> None:
    tables, facts = makers[0](), makers[1]()
    page = {"side": 0, "name": "", "tokens": 9, "label": "", "value": 0.5}
    one = {"explorer": tables["timing"].assign(**page)}
    runs = [
        RunResults(facts, one, "seed=1 %2F"),
        RunResults(facts, {"timing": tables["timing"]}, "1"),
        RunResults(facts, one),
    ]
    write_report(tmp_path / "report.html", runs)
    links = [str(link["href"]) for link in read(tmp_path / "report.html").all("a")]
    assert [unquote(link) for link in links if link.endswith("explorer.html")] == [
        "seed=1 %2F/explorer.html",
        "explorer.html",
    ]


def test_the_pattern_classifiers_own_quality_is_shown(
    makers: tuple[Make, Make], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"macro_f1": 0.873, "patterns": ["block", "vertical"], "confusion": [[41, 2], [3, 57]]}
    facts["maps_held_out"] = 103
    facts["agreement"] = {"maps": 100, "share": 0.88, "cohen_kappa": 0.84}
    monkeypatch.setattr(patterns, "pattern_net_facts", lambda: facts)
    write_report(tmp_path / "report.html", [RunResults(makers[1](), {"patterns": makers[0]()["patterns"]})])
    page = read(tmp_path / "report.html")
    assert page.row("patterns", "vertical") == ["vertical", "3", "57"]
    assert "macro-F1 on held-out maps is 0.873" in page.text
    assert "on the 103 annotated maps held out" in page.text
    assert "Of 100 maps annotated twice 88 % got the same pattern again (Cohen's kappa 0.84)" in page.text


EVIL = "<script>alert(1)</script>"


def test_text_from_data_stays_text(makers: tuple[Make, Make], tmp_path: Path) -> None:
    tables, facts = makers
    name = f"\"><img src=x onerror='alert(1)'>{EVIL}"
    found = tables(name, model=name, split=EVIL, data=EVIL, checkpoint=name)
    run = RunResults(
        facts(name, **{"run/model": name, "run/note": EVIL, "run/checkpoint": name, f"test/standard/{EVIL}": 0.5}),
        found,
        EVIL,
    )
    write_report(tmp_path / "report.html", [run])
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.count("<script>") == 1  # ours
    page = read(tmp_path / "report.html")
    assert len(page.all("script")) == 1
    assert len(page.all("img")) == 56
    assert not [attributes for _, attributes in page.elements if "onerror" in attributes]
    assert page.text.count(EVIL) > 10
    cells = [cell for place, row in page.rows if place == "heatmap" for cell in row]
    assert EVIL in cells  # the token


def test_missing_and_undefined_numbers_are_dashes(makers: tuple[Make, Make], tmp_path: Path) -> None:
    facts = makers[1](**{"test/effective/max_logit_difference": None, "test/effective/accuracy": None})
    write_report(tmp_path / "report.html", [RunResults(facts)])
    assert read(tmp_path / "report.html").row("scores", "MRPC", "effective")[2:5] == [f"accuracy {NONE}", "0", NONE]


def test_a_report_on_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"report\.html: no finished run"):
        write_report(tmp_path / "report.html", [])
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(("extra", "said"), [({"val/loss": 0.5}, "trained in this run"), ({}, "none: pretrained")])
def test_where_the_weights_come_from(
    makers: tuple[Make, Make], tmp_path: Path, extra: dict[str, float], said: str
) -> None:
    tables, facts = makers
    write_report(
        tmp_path / "report.html",
        [RunResults(facts("mrpc", **{"run/checkpoint": None, **extra}), {"timing": tables()["timing"]})],
    )
    assert f">{said}</td>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_figures_that_are_on_disk_are_not_drawn_again(
    makers: tuple[Make, Make], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, facts = makers
    runs = [RunResults(facts("mrpc"), {name: tables()[name] for name in ("timing", "null_space")})]
    write_report(tmp_path / "drawn.html", runs)
    write_figures(tmp_path / "figures", runs[0].tables, CHAPTERS)
    monkeypatch.setattr(sections, "figure_bytes", None)
    write_report(tmp_path / "read.html", runs, figures=tmp_path / "figures")
    assert (tmp_path / "read.html").read_bytes() == (tmp_path / "drawn.html").read_bytes()


def test_chapters_begin_with_a_question_and_end_with_what_was_found(page: Page, makers: tuple[Make, Make]) -> None:
    shown = [chapter for chapter in CHAPTERS if chapter.analysis in SECTIONS]
    assert all(page.text.count(chapter.question) == 1 for chapter in shown)
    assert page.text.count("Ours") == 1 + len(shown)  # the scores too
    table = makers[0]("rte", seed=0)["token_types"]
    shares = table[(table["statistic"] == "largest") & (table["token_type"] == "sep")].groupby("attention")["value"]
    numbers = f"RTE {shares.mean()['standard']:.3f} → {shares.mean()['effective']:.3f}"
    assert numbers in page.text
    assert "Ours on 408 examples" in " ".join(page.text.split())
    logits = "no logit changes by more than 8.7e\N{NON-BREAKING HYPHEN}06."
    assert f"Effective attention changes no prediction; {logits}" in page.text
    assert "The padded reading changes predictions: 3 in RTE, 3 in MRPC" in page.text


def test_scores_say_which_predictions_changed() -> None:
    tested = {"run/task": "rte", "test/effective/max_logit_difference": 0.5, "test/effective/changed_predictions": 2}
    assert scores_found([tested]) == [
        "Effective attention changes predictions: 2 in RTE; no logit changes by more than 0.500."
    ]
    assert scores_found([{"run/task": "rte"}]) == []


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        (("random", "random"), "the classification head is random"),
        (("random", "trained"), "the classification head of RTE is random"),
        (("trained", None), None),
    ],
)
def test_a_random_head_is_said(
    heads: tuple[str | None, str | None], said: str | None, makers: tuple[Make, Make], tmp_path: Path
) -> None:
    tasks = ("rte", "mrpc")
    runs = [
        RunResults(
            makers[1](task, **({} if head is None else {"run/head": head})),
            {"head_ablation": makers[0](task)["head_ablation"]},
        )
        for task, head in zip(tasks, heads, strict=True)
    ]
    write_report(tmp_path / "report.html", runs)
    text = read(tmp_path / "report.html").text
    assert ("Note: " in text) == (said is not None)
    assert said is None or said in text
    caution = "these numbers depend on it and mean nothing"  # of the scores and of the chapter
    assert text.count(caution) == (0 if said is None else 2)
