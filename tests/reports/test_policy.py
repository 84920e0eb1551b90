"""The report runs one script, known by its hash, as the explorer does."""

import base64
import hashlib
import html
import re
from pathlib import Path


def test_the_report_names_its_own_script_and_no_other(report: Path) -> None:
    page = report.read_text(encoding="utf-8")
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])  # type: ignore[index]
    assert re.search(r"script-src ([^;]*);", policy)[1] == f"'sha256-{digest}'"  # type: ignore[index]
