"""An explanation as people see it: in a notebook, and as a page that runs nothing and asks the network for nothing."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from effective_attention.attributions.explanation import Explanation
from effective_attention.attributions.explanation_page import MOST_BARS, page_of
from effective_attention.attributions.highlight import AGAINST, FOR
from effective_attention.attributions.trust import BesideRandom, Trust
from effective_attention.attributions.words import Word

TEXT = "No <script>hit()</script>  café & co"
SPANS = [(0, 2), (3, 25), (27, 31), (34, 36)]
TRUST = Trust(BesideRandom(0.5, 0.1, 20), BesideRandom(-0.01, 0.3, 20), 20)


def made_up(**changes):
    words = tuple(Word(TEXT[start:end], 0, start, end, (place,)) for place, (start, end) in enumerate(SPANS))
    found = Explanation(
        (TEXT,), words, (0.5, -1.0, 0.001, 0.25), "<b>yes</b>", 0.875, "<b>yes</b>", 0.875, "integrated_gradients",
        "integrated gradients", None, None, "word", TRUST,
    )  # fmt: skip
    return replace(found, **changes)


class Marks(HTMLParser):
    """Collect the text, and the words that have a background with it."""

    def __init__(self, page):
        super().__init__()
        self.text, self.marks, self.tags = "", [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "mark":
            self.marks.append([dict(attrs), ""])

    def handle_data(self, data):
        self.text += data
        if self.marks and not self.marks[-1][1]:
            self.marks[-1][1] = data


def test_a_notebook_shows_the_users_own_text_with_its_spacing():
    shown = Marks(made_up()._repr_html_())
    assert TEXT in shown.text
    assert [word for _, word in shown.marks] == [TEXT[start:end] for start, end in SPANS]
    styles = [attributes["style"] for attributes, _ in shown.marks]
    assert f"rgba({FOR}, 0.300)" in styles[0]
    assert f"rgba({AGAINST}, 0.600)" in styles[1]
    assert "background: none" in styles[2]
    assert all("color: inherit" in style for style in styles)  # light or dark, as the page around
    assert [attributes["title"] for attributes, _ in shown.marks] == ["+0.5", "-1", "+0.001", "+0.25"]
    assert not {"script", "style", "link"} & set(shown.tags)
    assert "<b>yes</b> (probability 0.875)" in shown.text
    assert "Both checks beat chance" in shown.text
    assert "speaks against it" in shown.text


def test_scores_without_a_sign_speak_against_nothing():
    shown = Marks(made_up(scores=(0.5, 1.0, 0.0, 0.2))._repr_html_())
    assert "matters for" in shown.text
    assert "against" not in shown.text


def test_another_class_than_the_predicted_one_is_named():
    shown = Marks(made_up(target="no", target_probability=0.125)._repr_html_())
    assert "<b>yes</b> (probability 0.875), explained is no (probability 0.125)" in shown.text


def test_special_tokens_stand_beside_the_text_and_do_not_set_the_scale():
    found = made_up()
    cls = Word("[CLS]", 0, None, None, (9,), special=True)
    shown = Marks(replace(found, words=(cls, *found.words), scores=(9.0, *found.scores), unit="token")._repr_html_())
    assert next(word for _, word in shown.marks) == "[CLS]"
    assert f"rgba({AGAINST}, 0.600)" in shown.marks[2][0]["style"]
    assert TEXT in shown.text


@pytest.mark.parametrize(
    ("beaten", "verdict"),
    [((20, 20), "Both"), ((20, 19), "One check beats chance: without"), ((0, 20), "One check beats chance: with these"),
     ((19, 0), "Neither")],
)  # fmt: skip
def test_the_verdict(beaten, verdict):
    one, other = beaten
    assert Trust(BesideRandom(0.1, 0, one), BesideRandom(0.1, 0, other), 20).verdict.startswith(verdict)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_the_saved_page_opens_and_asks_for_nothing(chromium, tmp_path, width, scheme):
    many = tuple(Word(f"word{place}", 0, None, None, (place,)) for place in range(30))
    found = made_up()
    long = replace(found, words=found.words + many, scores=found.scores + tuple(range(30)))
    path = long.save(tmp_path / "why.html")
    assert path == tmp_path / "why.html"
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    seen, asked = [], set()
    page.on("console", lambda message: seen.append(message.text))
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("request", lambda request: asked.add(request.url))
    page.goto(path.as_uri())
    assert page.title() == "Why <b>yes</b>?"
    assert page.locator(".bars tbody tr").count() == MOST_BARS
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.scripts.length") == 0
    assert seen == []
    assert {url for url in asked if not url.startswith("data:")} == {path.as_uri()}
    context.close()
    assert re.search(r"script-src .none.;", path.read_text(encoding="utf-8"))


def bars_of(page, path):
    """Return where each bar begins and ends, and where zero is, in pixels."""
    page.goto(path.as_uri())
    boxes = page.evaluate(
        "[...document.querySelectorAll('.bars i')].map((bar) => bar.getBoundingClientRect())"
        ".map((box) => [Math.round(box.left), Math.round(box.right)])"
    )
    line = "(cell) => cell.getBoundingClientRect().left + parseFloat(getComputedStyle(cell, '::before').left)"
    return boxes, round(page.locator(".bars .bar").first.evaluate(line)) if page.locator(".zero").count() else None


def test_bars_against_the_target_grow_to_the_left_of_zero(chromium, tmp_path):
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    boxes, zero = bars_of(page, made_up().save(tmp_path / "why.html"))  # scores 0.5, -1, 0.001, 0.25
    assert [abs(boxes[place][0] - zero) <= 1 for place in (0, 1, 3)] == [True, False, True]
    assert abs(boxes[1][1] - zero) <= 1
    assert boxes[1][1] - boxes[1][0] == pytest.approx(2 * (boxes[0][1] - boxes[0][0]), abs=2)
    assert page.locator(".sides").inner_text().split() == ["←", "against", "for", "→"]
    page.close()


def test_bars_without_a_sign_start_at_the_left_and_have_no_line(chromium, tmp_path):
    page = chromium.new_page()
    boxes, zero = bars_of(page, made_up(scores=(0.5, 1.0, 0.0, 0.2)).save(tmp_path / "why.html"))
    assert len({left for left, _ in boxes}) == 1
    assert (zero, page.locator(".sides").count()) == (None, 0)
    page.close()


@pytest.mark.parametrize(
    ("scores", "written"),
    [
        ((0.0417, -0.019, 0.00183, 0.0), ["+0.0417", "-0.0190", "+0.0018", "+0.0000"]),
        ((12.0, -345.6, 0.5, 7.0), ["+12", "-346", "+0", "+7"]),
        ((2e-9, -1e-9, 0.0, 0.0), ["+2.00e-09", "-1.00e-09", "+0.00e+00", "+0.00e+00"]),
    ],
)
def test_numbers_beside_bars_have_the_same_decimals_and_a_minus(scores, written):
    page = page_of(made_up(scores=scores))
    numbers = [number.replace("-", "\N{MINUS SIGN}") for number in written]
    assert re.findall(r'class="number">([^<]+)<', page) == numbers


def test_words_against_the_target_are_underlined_not_only_coloured():
    shown = Marks(made_up()._repr_html_())
    assert ["underline" in attributes["style"] for attributes, _ in shown.marks] == [False, True, False, False]
    assert "orange, underlined speaks against it" in shown.text


def test_a_score_has_a_page_of_its_own_words(tmp_path):
    text = made_up(predicted="score", target="score", is_regression=True).save(tmp_path / "a.html").read_text("utf-8")
    assert "<title>Why this score?</title>" in text
    assert "score 0.875" in text
    assert "the probability of" not in text
