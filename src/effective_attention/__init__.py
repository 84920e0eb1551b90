"""Effective attention: what part of a transformer's attention can reach its output, measured on whole datasets.

    >>> from effective_attention import analyse, explain, explore, use_attention
    >>> tables = analyse(model, tokenizer, ["A cat sat.", "It purred."], ["distance", "null_space"])  # doctest: +SKIP

The public names are those of ``__all__``; everything else may move. They are loaded on first use, so that importing the
package stays light. Importing it registers the attention functions with transformers, so that
``from_pretrained(..., attn_implementation="effective_attention")`` works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from effective_attention.lazy import lazy_names
from effective_attention.registration import register_attention

if TYPE_CHECKING:
    from effective_attention.analyses.common.analyse import analyse
    from effective_attention.attention.decomposition import Decomposition, decompose
    from effective_attention.attention.factorise import factorise
    from effective_attention.attention.factors import Factors
    from effective_attention.attention.record import AttentionSwap
    from effective_attention.attention.swap import use_attention
    from effective_attention.attention.trace import Trace, trace
    from effective_attention.attributions.explain import explain
    from effective_attention.attributions.explanation import Explanation
    from effective_attention.explorer.explore import explore
    from effective_attention.explorer.notebook import Explorer
    from effective_attention.models.trained import load_run

__all__ = [
    "AttentionSwap",
    "Decomposition",
    "Explanation",
    "Explorer",
    "Factors",
    "Trace",
    "analyse",
    "decompose",
    "explain",
    "explore",
    "factorise",
    "load_run",
    "trace",
    "use_attention",
]
__version__ = "0.1.0"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AttentionSwap": "effective_attention.attention.record",
        "Decomposition": "effective_attention.attention.decomposition",
        "Explanation": "effective_attention.attributions.explanation",
        "Explorer": "effective_attention.explorer.notebook",
        "Factors": "effective_attention.attention.factors",
        "Trace": "effective_attention.attention.trace",
        "analyse": "effective_attention.analyses.common.analyse",
        "decompose": "effective_attention.attention.decomposition",
        "explain": "effective_attention.attributions.explain",
        "explore": "effective_attention.explorer.explore",
        "factorise": "effective_attention.attention.factorise",
        "load_run": "effective_attention.models.trained",
        "trace": "effective_attention.attention.trace",
        "use_attention": "effective_attention.attention.swap",
    },
)

register_attention()
