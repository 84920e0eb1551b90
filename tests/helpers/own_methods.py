"""A module with an attribution method, as a user would write one."""

from pathlib import Path
from textwrap import dedent
from typing import Any

SOURCE = """
    import torch

    from effective_attention.attributions.registry import register


    @register("last_words", title="last words", summary="the later, the more important")
    def last_words(work):
        places = torch.arange(work.trace.mask.shape[1], device=work.trace.mask.device)
        return places.expand(work.trace.mask.shape).masked_fill(~work.trace.mask, 0).double()
"""


def last_words_module(folder: Path, monkeypatch: Any, name: str = "users_methods") -> tuple[str, str]:
    """Write it; its name and the method's. Forgotten after the test; the registry is the caller's to restore."""
    import_from(folder, monkeypatch, name, dedent(SOURCE))
    return name, "last_words"


def import_from(folder: Path, monkeypatch: Any, name: str, source: str) -> None:
    """Make ``source`` a module that can be imported while the test runs; it is not imported yet."""
    import sys

    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(sys.modules, name, None)  # so that monkeypatch drops what the test imports
    del sys.modules[name]
