"""Make our attention functions known to transformers by name, without loading it for those who do not use it.

``from_pretrained(..., attn_implementation="effective_attention")`` finds a function that is registered when it is
called. Loading transformers takes a second or more, so the registration waits until somebody imports it; and what is
registered then is a stand-in, which loads the real function when a model first calls it.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import wrapt

NAMES = ("standard_attention", "effective_attention", "affine_attention", "padded_attention")
_HOME = "transformers.modeling_utils"  # of the interface with which attention functions are registered


def register_attention() -> None:
    """Register now if transformers is loaded, else as soon as it is."""
    if _HOME not in sys.modules:
        wrapt.register_post_import_hook(_register, _HOME)
    elif hasattr(sys.modules[_HOME], "AttentionInterface"):  # else it is just being loaded, and is left alone
        _register(sys.modules[_HOME])


def _register(modeling: ModuleType) -> None:
    """Register a stand-in for every name, unless the real function is there already."""
    masking = import_module("transformers.masking_utils")
    for name in NAMES:
        if name not in modeling.AttentionInterface._global_mapping:
            modeling.AttentionInterface.register(name, partial(_first_call, name))
            masking.AttentionMaskInterface.register(name, masking.eager_mask)


def _first_call(name: str, *args: Any, **options: Any) -> Any:
    """Load the real functions, which take the place of the stand-ins, and hand the call on."""
    variants = import_module("effective_attention.attention.variants")
    return variants.registered_function(name)(*args, **options)
