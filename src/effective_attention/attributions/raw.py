"""Raw attention: how much does a layer's token attend to each token of the layer below, heads averaged?"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Part
from effective_attention.attributions.registry import register
from effective_attention.attributions.shared_work import SharedWork


@register("raw", title="raw attention", summary="attention averaged over heads", reads_attention=True, needs=["graph"])
def raw(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the attention graph as ``Settings.query`` says."""
    return work.read(work.graph(attention))
