"""A text on the command line means itself: neither Hydra's grammar nor OmegaConf's interpolations read it."""

from __future__ import annotations

import os
import re

TEXTS = ("text", "text_pair", "analysis.explorer.beside_text", "analysis.explorer.beside_text_pair")
"""The options whose value is a text of the user's."""
PLACES = ("resume", "checkpoint", "data.dir", "data.file", "data.token_cache", "hydra.run.dir", "hydra.sweep.dir")
"""The options whose value is a place on the disk."""
_ONE_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_QUOTED = re.compile(rf"(?s:{_ONE_QUOTED})")
_SWEEP = re.compile(rf"(?s:({_ONE_QUOTED})(\s*,\s*({_ONE_QUOTED}))+)")
_MISSING = "???"  # what OmegaConf takes for a value that is not set


def quoted(argument: str, *, sweep: bool = False) -> str:
    r"""Quote a text on the command line, so that it means itself.

    A text in quotes stands for what is inside them; with ``sweep``, several of them joined by commas for several texts.

    >>> quoted("text=Well, <done>."), quoted("task=mrpc"), quoted("text='a'"), quoted("text=${x}")
    ("text='Well, <done>.'", 'task=mrpc', "text='a'", "text='\\${x}'")
    """
    option, equals, value = argument.partition("=")
    if option in PLACES and value.startswith("~"):  # which no shell expands there, and Hydra cannot read
        value = os.path.expanduser(value)  # noqa: PTH111 (a user who does not exist is no error)
        argument = f"{option}={value}"
    if option in PLACES and _is_odd_place(value):
        return f"{option}={quote(value)}"
    if option.lstrip("+") not in TEXTS or not equals or value == "null":
        return argument
    if sweep and _SWEEP.fullmatch(value):
        texts = [unquoted(found[0]) for found in _QUOTED.finditer(value)]
    else:
        texts = [unquoted(value)]
    return f"{option}={','.join(map(quote, texts))}"


def _is_odd_place(value: str) -> bool:
    """Tell whether a path is there that Hydra's grammar would not read: a sweep's folders are called ``0_seed=1``."""
    if "${" in value or not re.search(r"[=,:()\[\]{}\s]", value):
        return False
    return os.path.exists(value)  # noqa: PTH110 (False, not an error, for a name that is too long)


def escaped(text: str) -> str:
    r"""Write a text so that OmegaConf reads it as it is, and not as an interpolation.

    >>> escaped("${a}"), escaped("a\\"), escaped("\\${a}")
    ('\\${a}', 'a\\', '\\\\\\${a}')
    """
    if text == _MISSING:
        return f"""${{oc.decode:"'{_MISSING}'"}}"""
    return re.sub(r"(\\*)\$\{", lambda found: found[1] * 2 + r"\${", text)


def unquoted(value: str) -> str:
    """Return what a text in the quotes of Hydra's grammar stands for; another is returned as it is."""
    if not _QUOTED.fullmatch(value):
        return value
    mark = value[0]
    inner = re.sub(rf"(\\+){mark}", lambda found: "\\" * (len(found[1]) // 2) + mark, value[1:-1])
    return _unescaped(re.sub(r"(\\+)\Z", lambda found: "\\" * (len(found[1]) // 2), inner))


def _unescaped(text: str) -> str:
    """Undo ``escaped``: Lightning starts its other processes with the arguments of this one, which are quoted."""
    if text == escaped(_MISSING):
        return _MISSING
    return re.sub(r"(?<!\\)((?:\\\\)*)\\\$\{", lambda found: found[1][::2] + "${", text)


def quote(text: str) -> str:
    """Write a text so that Hydra's grammar and OmegaConf read it as it is."""
    inner = re.sub(r"(\\*)'", lambda found: found[1] * 2 + r"\'", escaped(text))
    inner = re.sub(r"(\\+)\Z", lambda found: found[1] * 2, inner)
    return f"'{inner}'"
