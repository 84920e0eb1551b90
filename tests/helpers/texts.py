"""Texts of letters that mean something to YAML, to Hydra's grammar or to OmegaConf."""

from hypothesis import strategies as st

_SPECIAL = ["${", "}", "\\", "'", '"', "\n", "\r", "\t", " ", "null", "true", "???", "oc.env:HOME", "$", "{", ",", "["]
_SPECIAL += [
    "]",
    "=",
    "(",
    ")",
    "#",
    ":",
    "~",
    "+",
    "@",
    "%",
    "é",
    "😀",
    "\u2028",
    "\x85",
    "\x0b",
    "\x7f",
    "1",
    "e",
    ".",
]
texts = st.lists(st.sampled_from(_SPECIAL) | st.text(max_size=3), max_size=8).map("".join)
