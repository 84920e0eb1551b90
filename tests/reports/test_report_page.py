"""The report in headless Chromium: nothing fails, nothing is fetched, everything can be seen, reached and read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Show = Callable[..., Any]


@pytest.fixture
def show(chromium: Any, report: Path) -> Iterator[Show]:
    """``show(width=..., scheme=...)``: the report in a fresh page, which keeps ``messages`` and ``requests``."""
    opened = []

    def open_report(*, width: int = 1280, scheme: str = "light") -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, is_mobile=width < 500
        )
        opened.append(context)
        page = context.new_page()
        page.messages, page.requests = [], set()
        page.on("console", lambda message: page.messages.append(message.text))
        page.on("pageerror", lambda error: page.messages.append(str(error)))
        page.on("request", lambda request: page.requests.add(request.url))
        page.goto(report.as_uri())
        return page

    yield open_report
    for context in opened:
        context.close()


FIGURES_SEEN = """
() => [...document.querySelectorAll("main img")].map((image) => {
  const box = image.getBoundingClientRect();
  return image.complete && image.naturalWidth > 0 && box.width >= 250 && box.height >= 100 && image.checkVisibility();
})"""


@pytest.mark.parametrize("width", [1280, 390])
def test_every_figure_is_visible_and_only_boxes_scroll_sideways(width: int, show: Show) -> None:
    page = show(width=width)
    assert page.evaluate(FIGURES_SEEN) == [True] * 56
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.querySelectorAll('main table, main img')].every((part) => part.closest('.box'))")


def test_no_errors_and_no_requests(show: Show, report: Path) -> None:
    page = show()
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    page.wait_for_load_state("networkidle")
    assert {url for url in page.requests if not url.startswith("data:")} == {report.as_uri()}
    assert page.messages == []


def test_colours_follow_the_system_and_the_button(show: Show) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = show(scheme="light").evaluate(colour)
    page = show(scheme="dark")
    assert light != page.evaluate(colour)
    button = page.locator("#theme")
    assert button.inner_text() == "Light"
    button.click()
    assert page.evaluate(colour) == light


def test_the_navigation_stays_in_view_and_works_by_keyboard(show: Show) -> None:
    page = show()
    page.locator("nav a[href='#null_space']").press("Enter")
    top = "(place) => document.querySelector(place).getBoundingClientRect().top"
    assert page.evaluate(top, "nav") == 0
    assert 0 <= page.evaluate(top, "#null_space h2") < 200
    assert page.evaluate("[...document.querySelectorAll('.box')].every((box) => box.tabIndex === 0 && !!box.ariaLabel)")


def test_text_has_enough_contrast(show: Show) -> None:
    """WCAG AA: 4.5 for text of this size, in both schemes."""
    colours = """
    (place) => [document.querySelector(place), document.body].map(getComputedStyle).map(
      (style, index) => index === 0 ? style.color : style.backgroundColor)"""

    def luminance(text: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", text)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for scheme in ("light", "dark"):
        page = show(scheme=scheme)
        for part in ("main p", ".measured", "td.paper", "nav a", "summary", ".remark"):
            low, high = sorted(luminance(colour) for colour in page.evaluate(colours, part))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, part)


def test_it_prints_in_black_on_white_without_navigation(show: Show) -> None:
    page = show(scheme="dark")
    page.emulate_media(media="print")
    style = "(() => { const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]; })()"
    assert page.evaluate(style) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"


NAVIGATION = """
() => [...document.querySelectorAll("nav a")].map((link) => {
  const box = link.getBoundingClientRect();
  return link.checkVisibility() && box.left >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
})"""


def test_the_contents_stand_at_the_side_or_fold_away(show: Show) -> None:
    assert all(show(width=1280).evaluate(NAVIGATION))
    page = show(width=390)
    assert not any(page.evaluate(NAVIGATION))
    page.locator("nav summary").click()
    assert page.locator("nav ul").evaluate("(list) => list.scrollWidth - list.clientWidth") == 0
    link = page.locator("nav a[href='#null_space']")
    link.scroll_into_view_if_needed()
    link.click()
    assert not link.is_visible()
    page.locator("#here", has_text="null space").wait_for()
    page.keyboard.press("Home")
    page.locator("#here:empty").wait_for(state="attached")  # the head of the page is in no chapter
    assert page.locator("nav a[aria-current]").count() == 0


def test_small_tables_and_the_heatmap_fit_and_what_does_not_fades(show: Show) -> None:
    wide = "(box) => box.scrollWidth - box.clientWidth"
    page = show(width=390)
    boxes = page.locator("main .box:has(table.small)")
    assert [box.evaluate(wide) for box in boxes.all()] == [0] * boxes.count()
    for box in page.locator("main figure .box").all():
        goes_on = box.evaluate(wide) > 1
        assert ("more-right" in (box.get_attribute("class") or "")) == goes_on
    box = page.locator("#heatmap figure .box")
    assert box.evaluate(wide) > 1
    box.evaluate("(box) => { box.scrollLeft = box.scrollWidth; }")
    page.locator("#heatmap figure .box.more-left:not(.more-right)").wait_for()
    assert show(width=1280).locator("#heatmap figure .box").evaluate(wide) == 0


def test_figures_turn_dark_on_a_dark_page_and_print_as_they_are(show: Show) -> None:
    filters = "[...document.querySelectorAll('main img')].map((image) => getComputedStyle(image).filter)"
    assert set(show(scheme="light").evaluate(filters)) == {"none"}
    page = show(scheme="dark")
    assert all("invert" in one for one in page.evaluate(filters))
    page.emulate_media(media="print")
    assert set(page.evaluate(filters)) == {"none"}


LINES_OF_NUMBERS = """
() => [...document.querySelectorAll("table.small tbody tr")].flatMap((row) => {
  const lines = {};
  for (const cell of row.querySelectorAll("td")) {
    const range = document.createRange();
    range.selectNodeContents(cell);
    (lines[Math.round(cell.getBoundingClientRect().top)] ??= []).push(range.getBoundingClientRect().top);
  }
  return Object.values(lines).map((starts) => Math.max(...starts) - Math.min(...starts));
})"""


LINES_OF_INTERVALS = """
() => [...document.querySelectorAll("table.small tbody td")].filter((cell) => / \\[.*\\]$/.test(cell.textContent)).map(
  (cell) => {
    cell.textContent = "-0.016 [-0.024,\\u00a0-0.008]"; // as wide as they come
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getClientRects().length;
  })"""


def test_on_a_phone_an_interval_is_not_broken(show: Show) -> None:
    lines = show(width=390).evaluate(LINES_OF_INTERVALS)
    assert len(lines) > 10
    assert max(lines) == 2  # the number, and its interval


def test_on_a_phone_the_numbers_of_a_card_begin_on_lines(show: Show) -> None:
    apart = show(width=390).evaluate(LINES_OF_NUMBERS)
    assert len(apart) > 50
    assert max(apart) <= 1


def test_no_number_is_parted_from_its_percent_sign_and_words_break_at_a_plus(show: Show) -> None:
    page = show(width=390)
    said = " ".join(page.locator(".found p, section p:not([class])").all_text_contents())
    assert "\N{NO-BREAK SPACE}%" in said
    assert not re.search(r"\d %", said)
    assert page.locator("td[data-label^='vertical+\N{ZERO WIDTH SPACE}diagonal']").count() > 0


def test_words_that_speak_against_are_underlined(show: Show) -> None:
    lines = "(marks) => marks.map((mark) => getComputedStyle(mark).textDecorationLine)"
    page = show()
    assert set(page.locator(".passage [class^='w-']").evaluate_all(lines)) == {"underline"}
    assert set(page.locator(".signed .passage .w5").evaluate_all(lines)) == {"none"}
