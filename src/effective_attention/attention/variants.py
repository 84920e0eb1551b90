"""The kinds of attention that can be looked at, in the order in which results show them."""

from __future__ import annotations

from effective_attention.attention.trace import Part

ATTENTIONS: tuple[Part, ...] = ("standard", "effective")
