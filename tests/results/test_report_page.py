"""The report in headless Chromium: nothing fails, nothing is fetched, everything can be seen, reached and read."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium with a fresh profile, logging its console and every request."""
    selenium = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install -e '.[dev]'")
    from selenium.webdriver.chrome.service import Service

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    quiet = ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking")
    for flag in (*quiet, "disable-component-update", "disable-sync", "disable-dev-shm-usage"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = selenium.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


def show(browser: Any, path: Path, *, width: int, scheme: str = "light") -> None:
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())


FIGURES_SEEN = """
return [...document.querySelectorAll("main img")].map((image) => {
  const box = image.getBoundingClientRect();
  return image.complete && image.naturalWidth > 0 && box.width >= 250 && box.height >= 100 && image.checkVisibility();
});"""


@pytest.mark.parametrize("width", [1280, 390])
def test_every_figure_is_visible_and_only_boxes_scroll_sideways(width: int, browser: Any, report: Path) -> None:
    show(browser, report, width=width)
    assert browser.execute_script(FIGURES_SEEN) == [True] * 32
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    outside = "return [...document.querySelectorAll('main table, main img')].every((part) => part.closest('.box'))"
    assert browser.execute_script(outside)


def test_no_errors_and_no_requests(browser: Any, report: Path) -> None:
    browser.get_log("browser"), browser.get_log("performance")  # what came before
    show(browser, report, width=1280)
    browser.execute_script("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith("data:")} == {report.as_uri()}
    assert browser.get_log("browser") == []


def test_colours_follow_the_system_and_the_button(browser: Any, report: Path) -> None:
    colour = "return getComputedStyle(document.body).backgroundColor"
    show(browser, report, width=1280, scheme="light")
    light = browser.execute_script(colour)
    show(browser, report, width=1280, scheme="dark")
    dark = browser.execute_script(colour)
    assert light != dark
    button = browser.find_element("id", "theme")
    assert button.text == "Light"
    button.click()
    assert browser.execute_script(colour) == light
    browser.execute_script("localStorage.clear()")


def test_the_navigation_stays_in_view_and_works_by_keyboard(browser: Any, report: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, report, width=1280)
    browser.find_element("css selector", "nav a[href='#null_space']").send_keys(Keys.ENTER)
    top = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
    assert browser.execute_script(top, "nav") == 0
    assert 0 <= browser.execute_script(top, "#null_space h2") < 200
    boxes = "return [...document.querySelectorAll('.box')].every((box) => box.tabIndex === 0 && box.ariaLabel)"
    assert browser.execute_script(boxes)


def test_text_has_enough_contrast(browser: Any, report: Path) -> None:
    """WCAG AA: 4.5 for text of this size, in both schemes."""
    colours = """
    const style = getComputedStyle(document.querySelector(arguments[0]));
    return [style.color, getComputedStyle(document.body).backgroundColor];"""

    def luminance(text: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", text)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for scheme in ("light", "dark"):
        show(browser, report, width=1280, scheme=scheme)
        for part in ("main p", ".measured", "td.paper", "nav a", "summary", ".remark"):
            low, high = sorted(luminance(colour) for colour in browser.execute_script(colours, part))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, part)


def test_it_prints_in_black_on_white_without_navigation(browser: Any, report: Path) -> None:
    show(browser, report, width=1280, scheme="dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    style = "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
    assert browser.execute_script(style) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
    assert browser.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
