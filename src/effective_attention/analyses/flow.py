"""Attention flow, at home in ``graphs.flow``; this name stays."""

from effective_attention.graphs.flow import attention_flow, flows, head_flow

__all__ = ["attention_flow", "flows", "head_flow"]
