"""What a page of ours may do: run its own script, and nothing that a text, a name or a file brought along."""

from __future__ import annotations

import base64
import hashlib


def content_policy(script: str | None, *, images: str = "'none'") -> str:
    """Return a Content-Security-Policy under which one script runs, known by its hash, and nothing is fetched.

    Args:
        script: Exactly what stands between ``<script>`` and ``</script>``; None: the page has none, and none runs.
        images: Where pictures may come from, such as ``data:``.
    """
    allowed = "'none'" if script is None else f"'sha256-{_digest(script)}'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src {images}; "
        f"base-uri 'none'; form-action 'none'"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
