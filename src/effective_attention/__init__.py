"""Effective attention: what part of a transformer's attention can reach its output, measured on whole datasets.

The public names are loaded on first use, so that importing a light module (as ``train.py --help`` does) stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from effective_attention.attention.decomposition import Decomposition, decompose
    from effective_attention.attention.record import AttentionSwap
    from effective_attention.attention.swap import use_attention
    from effective_attention.explorer.explore import Explorer, explore

__all__ = ["AttentionSwap", "Decomposition", "Explorer", "decompose", "explore", "use_attention"]
__version__ = "0.1.0"

_HOMES = {
    "Decomposition": "effective_attention.attention.decomposition",
    "decompose": "effective_attention.attention.decomposition",
    "AttentionSwap": "effective_attention.attention.record",
    "use_attention": "effective_attention.attention.swap",
    "Explorer": "effective_attention.explorer.explore",
    "explore": "effective_attention.explorer.explore",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
