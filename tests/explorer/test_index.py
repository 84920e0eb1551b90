"""The list of explorer pages: which examples have one, that they are made one by one, and how the list is used."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from effective_attention.analyses.common.base import OtherModels, UserText
from effective_attention.analyses.common.run import run_analyses
from effective_attention.errors import UserError
from effective_attention.explorer import analysis as explorer_analysis
from effective_attention.explorer.analysis import ExplorerPage
from effective_attention.explorer.index import IndexRow, build_index, expected_bytes
from effective_attention.run.experiment import evaluate
from helpers.browser import CONTRAST
from helpers.explorer_page import header_of, numbers_of

HOSTILE = "<img src=x onerror=hit()> & so on"


def row(example: int, *, gold: Any, answer: Any, probability: float | None, text: str = "some words") -> IndexRow:
    right = None if probability is None else gold == answer
    return IndexRow(example, f"explorer/{example}.html", (text, "more"), gold, answer, probability, right, 9, 150_000)


CLASSES = [
    row(3, gold="no", answer="no", probability=0.6),
    row(10, gold="yes", answer="no", probability=0.55, text=HOSTILE),
    row(20, gold="yes", answer="yes", probability=0.9, text="Zebras run"),
    row(31, gold="no", answer="yes", probability=0.99),
]
SCORES = [row(1, gold=2.0, answer=-0.5, probability=None), row(2, gold=1.0, answer=1.25, probability=None)]


@pytest.fixture(scope="module")
def whole(subject: Any, context: Any) -> Any:
    """Make a context that can show examples of a finetuned model."""
    facts = {"run/model": "tiny", "run/checkpoint": "/somewhere/else/runs/x"}
    return dataclasses.replace(context, models=OtherModels(pretrained=lambda: subject.reference), facts=facts)


def ran(subject: Any, context: Any, **options: Any) -> tuple[pd.DataFrame, ExplorerPage]:
    analysis = ExplorerPage(**options)
    analysis.setup(context)
    return run_analyses(subject, {"explorer": analysis})["explorer"], analysis


def test_a_page_for_each_of_so_many_examples(subject: Any, whole: Any, singles: Any) -> None:
    table, analysis = ran(subject, whole, examples=4)
    pages = dict(analysis.pages())
    total = len(subject.split)
    chosen = [number * total // 4 for number in range(4)]
    assert list(pages) == [*(f"explorer/{number}.html" for number in chosen), "explorer.html"]
    labels = ("not_equivalent", "equivalent")
    for number in chosen:
        (side,) = header_of(pages[f"explorer/{number}.html"])["sides"]
        assert side["texts"] == list(subject.split.examples.texts[number])
        assert side["gold"] == labels[subject.split.examples.labels[number]]
        standard = numbers_of(pages[f"explorer/{number}.html"], 0, "standard", 1) / 1e5
        assert abs(standard - singles[number].layers[1].attention[0].numpy()).max() < 6e-6
        own = table[table["example"] == number]
        assert dict(side["prediction"]["probabilities"]) == dict(zip(own["label"], own["value"], strict=True))
        chances = singles[number].logits[0].softmax(0).tolist()
        assert own["value"].tolist() == pytest.approx(chances, abs=1e-5)
        assert own["tokens"].tolist() == [side["size"]] * 2
        assert f'href="explorer/{number}.html"' in pages["explorer.html"]
        assert 'href="../explorer.html"' in pages[f"explorer/{number}.html"]
    assert "/somewhere/else" not in "".join(pages.values())


def test_more_than_there_are_is_all_and_said(subject: Any, whole: Any, caplog: pytest.LogCaptureFixture) -> None:
    _, analysis = ran(subject, whole, examples=100_000)
    total = len(subject.split)
    assert list(analysis.seen) == list(range(total))
    line = f"analysis.explorer.examples=100000: the split has {total}, and each gets a page"
    assert [record.message for record in caplog.records if "the split has" in record.message] == [line]
    caplog.clear()
    ran(subject, whole, examples=total)
    assert "the split has" not in caplog.text


def test_more_pages_than_anybody_meant_are_refused(whole: Any) -> None:
    split = dataclasses.replace(whole.split, examples=1001, lengths=np.full(1001, 40))
    large = dataclasses.replace(whole, split=split)
    each = expected_bytes(40, whole.layers, whole.heads, whole.width, sides=1)
    for asked in (1001, 100_000):
        with pytest.raises(UserError, match=rf"^analysis\.explorer\.examples={asked} would write 1001 pages of ") as no:
            ExplorerPage(examples=asked).setup(large)
        assert f"of about {1001 * each / 1e6:.1f} MB in all, and analysis.explorer.most_pages is 1000;" in str(no.value)
    assert len(ExplorerPage(examples=1000).setup(large).chosen()) == 1000
    assert len(ExplorerPage(examples=1001, most_pages=1001).setup(large).chosen()) == 1001
    with pytest.raises(UserError, match=r"analysis\.explorer\.most_pages must be at least 1, got 0"):
        ExplorerPage(most_pages=0)


def test_padding_that_is_part_of_the_reading_stays(make_subject: Any) -> None:
    subject = dataclasses.replace(make_subject(), reading="padded")
    table, analysis = ran(subject, subject.context(task=subject.data.task), examples=2)
    pages = dict(analysis.pages())
    number = int(table["example"].max())
    effective = numbers_of(pages[f"explorer/{number}.html"], 0, "effective", 1) / 1e5
    expected = subject.trace([number]).example(0).layers[1].part("effective")[0].numpy()
    assert abs(effective - expected).max() < 6e-6


def test_pages_are_made_one_by_one(subject: Any, whole: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    build = explorer_analysis.build_page
    monkeypatch.setattr(
        explorer_analysis, "build_page", lambda *sides, **options: made.append("") or build(*sides, **options)
    )
    _, analysis = ran(subject, whole, examples=3)
    pages = analysis.pages()
    assert made == []
    for count in (1, 2, 3):
        next(pages)
        assert len(made) == count
    assert sum(value.numel() for seen in analysis.seen.values() for value in seen.inputs.values()) < 2000  # token ids


def test_a_text_has_no_list(subject: Any, whole: Any) -> None:
    own = dataclasses.replace(whole, text=UserText(("A cat.",), subject.trace([0])))
    with pytest.raises(UserError, match="examples shows examples of the split; leave out that, or text="):
        ExplorerPage(examples=3).setup(own)


def test_the_command_writes_list_and_pages(trained: Any, compose: Any, tmp_path: Path, capsys: Any) -> None:
    options = ["analysis=explorer", "analysis.explorer.examples=3", "analysis.explorer.beside=pretrained"]
    evaluate(compose("evaluate", f"checkpoint={trained.folder}", *options))
    run = tmp_path / "run"
    files = sorted(path.name for path in (run / "explorer").iterdir())
    assert len(files) == 3
    assert "the list of 3 pages" in capsys.readouterr().out
    listed = (run / "explorer.html").read_text(encoding="utf-8")
    assert all(f'href="explorer/{name}"' in listed for name in files)
    assert str(trained.folder) not in listed
    assert 'href="explorer.html"' in (run / "report.html").read_text(encoding="utf-8")
    names = [side["name"] for side in header_of((run / "explorer" / files[0]).read_text(encoding="utf-8"))["sides"]]
    assert names == ["finetuned", "pretrained"]


def test_wandb_gets_the_list_alone(caplog: Any) -> None:
    from types import SimpleNamespace

    from effective_attention.run.analysing import AnalysisResults
    from effective_attention.run.loggers import ForgivingWandbLogger

    logged: list[dict[str, Any]] = []
    fake: Any = SimpleNamespace(experiment=SimpleNamespace(log=logged.append))
    caplog.set_level("INFO")
    ForgivingWandbLogger._log_results(fake, AnalysisResults({}, {"explorer": "<p>list</p>"}, {"explorer": 50}))
    assert list(logged[0]) == ["pages/explorer"]
    assert "W&B: of explorer the list is logged; its 50 pages stay in the run directory" in caplog.messages


def test_the_size_is_estimated(subject: Any, whole: Any) -> None:
    table, analysis = ran(subject, whole, examples=3)
    pages = [page for place, page in analysis.pages() if place != "explorer.html"]
    assert analysis._expected(table.groupby("example")["tokens"].first()) == pytest.approx(
        sum(map(len, pages)), rel=0.5
    )
    assert (
        expected_bytes(10, 2, 2, 8, sides=2)
        > expected_bytes(10, 2, 2, 8, sides=1)
        > expected_bytes(9, 2, 2, 0, sides=1)
    )


# --- in a browser ---


def opened(chromium: Any, folder: Path, rows: list[IndexRow], hash_: str = "", **look: Any) -> Any:
    path = folder / "explorer.html"
    path.write_text(build_index(rows, title="Attention of tiny", examples=408), encoding="utf-8")
    page = chromium.new_page(**look)
    page.goto(f"{path.as_uri()}#{hash_}")
    return page


def numbers(page: Any) -> list[int]:
    script = (
        "[...document.querySelectorAll('tbody tr')].filter((row) => !row.hidden).map((row) => +row.dataset.example)"
    )
    return page.evaluate(script)


def test_sorting_and_wrong_ones_first(chromium: Any, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, CLASSES)
    assert "4 of 408 examples · 2 right, 2 wrong · 600 kB in all, 150 kB to 150 kB a page" in page.inner_text("header")
    assert numbers(page) == [3, 10, 20, 31]
    page.click("#worst")
    assert numbers(page) == [31, 10, 3, 20]  # the surest mistake first, the surest success last
    assert page.get_attribute("#worst", "aria-pressed") == "true"
    assert page.evaluate("location.hash") == "#order=error&down=1"
    page.focus("[data-order=probability] button")
    page.keyboard.press("Enter")
    assert numbers(page) == [10, 3, 20, 31]
    page.keyboard.press("Enter")
    assert numbers(page) == [31, 20, 3, 10]
    assert page.get_attribute("[data-order=probability]", "aria-sort") == "descending"
    page.select_option("#order", "gold")
    assert numbers(page) == [3, 31, 10, 20]
    page.close()


def test_the_filter_and_a_link(chromium: Any, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, CLASSES, "filter=wrong&order=example&down=1")
    assert numbers(page) == [31, 10]
    page.fill("#filter", "zebras YES")
    assert (numbers(page), page.inner_text("#shown")) == ([20], "1 of 4")
    page.fill("#filter", "nothing like it")
    assert numbers(page) == []
    assert page.is_visible("#none")
    page.fill("#filter", "")
    assert page.get_attribute("tbody tr a", "href") == "explorer/31.html"
    page.close()


def test_scores_have_errors(chromium: Any, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, SCORES, "order=error&down=1")
    assert numbers(page) == [1, 2]
    assert "\u22120.500" in page.inner_text("tbody")
    assert "2.500" in page.inner_text("tbody")
    assert page.locator("[data-order=probability]").count() == 0
    page.close()


def test_it_is_safe_and_fetches_nothing(chromium: Any, tmp_path: Path) -> None:
    asked: set[str] = set()
    page = opened(chromium, tmp_path, CLASSES)
    page.on("request", lambda request: asked.add(request.url))
    page.reload()
    assert len(asked) == 1
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert HOSTILE in page.inner_text("tbody")
    assert page.evaluate("fetch('https://example.org/').then(() => 'fetched', () => 'blocked')") == "blocked"
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_on_a_telephone_in_both_colours(scheme: str, chromium: Any, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, CLASSES, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(CONTRAST) == []
    page.set_viewport_size({"width": 1200, "height": 800})
    assert page.evaluate(CONTRAST) == []
    page.close()


def test_without_the_script_links_still_work(chromium: Any, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, CLASSES, java_script_enabled=False)
    assert page.locator("tbody a").count() == len(CLASSES)
    page.close()
