"""Questions asked of a model, one file each; what a new one is made of is public here (``docs/add-an-analysis.md``).

An analysis called ``name`` is the class of that name in the module, or package, ``analyses.name``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from effective_attention.lazy import lazy_names

if TYPE_CHECKING:
    from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis, Study, TextAnalysis
    from effective_attention.analyses.common.registry import analysis_names, find_analysis
    from effective_attention.analyses.common.schema import Block, Column, Schema
    from effective_attention.analyses.common.tables import mean_over, tidy
    from effective_attention.attention.trace import Trace
    from effective_attention.attention.variants import ATTENTIONS

__all__ = [
    "ATTENTIONS",
    "Analysis",
    "Block",
    "Column",
    "Context",
    "Schema",
    "SplitAnalysis",
    "Study",
    "TextAnalysis",
    "Trace",
    "analysis_names",
    "find_analysis",
    "mean_over",
    "tidy",
]

_COMMON = "effective_attention.analyses.common"
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ATTENTIONS": "effective_attention.attention.variants",
        "Analysis": f"{_COMMON}.base",
        "Block": f"{_COMMON}.schema",
        "Column": f"{_COMMON}.schema",
        "Context": f"{_COMMON}.base",
        "Schema": f"{_COMMON}.schema",
        "SplitAnalysis": f"{_COMMON}.base",
        "Study": f"{_COMMON}.base",
        "TextAnalysis": f"{_COMMON}.base",
        "Trace": "effective_attention.attention.trace",
        "analysis_names": f"{_COMMON}.registry",
        "find_analysis": f"{_COMMON}.registry",
        "mean_over": f"{_COMMON}.tables",
        "tidy": f"{_COMMON}.tables",
    },
)
