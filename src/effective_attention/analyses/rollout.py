"""Attention rollout, at home in ``graphs.rollout``; this name stays."""

from effective_attention.graphs.rollout import attention_rollout, head_rollout

__all__ = ["attention_rollout", "head_rollout"]
