"""What a page of ours may do: run its own script, and nothing that a text, a name or a file brought along."""

from __future__ import annotations

import base64
import hashlib


def content_policy(script: str, *, images: str) -> str:
    """Return a Content-Security-Policy under which one script runs, known by its hash, and nothing is fetched.

    Args:
        script: Exactly what stands between ``<script>`` and ``</script>``.
        images: Where pictures may come from, such as ``data:``.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src {images}; "
        f"base-uri 'none'; form-action 'none'"
    )
