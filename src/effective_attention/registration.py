"""Make our attention functions known to transformers by name, without loading it for those who do not use it.

``from_pretrained(..., attn_implementation="effective_attention")`` finds a function that is registered when it is
called. Loading transformers takes a second or more, so the registration waits until somebody imports it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

import wrapt

_HOME = "transformers.modeling_utils"  # of the interface with which attention functions are registered


def register_attention() -> None:
    """Register now if transformers is loaded, else as soon as it is."""
    if _HOME in sys.modules:
        _register()
    else:
        wrapt.register_post_import_hook(_register, _HOME)


def _register(_module: ModuleType | None = None) -> None:
    """Import the module that registers every variant a model can run with."""
    import_module("effective_attention.attention.variants")
