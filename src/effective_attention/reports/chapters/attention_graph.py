"""One example as a graph: what the report says and shows of ``attention_graph``."""

from __future__ import annotations

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.attention_graph import attention_graph, attention_graph_maps

CHAPTER = Chapter(
    analysis="attention_graph",
    title="One example as a graph",
    source="Abnar & Zuidema 2020, Fig. 1 to 3",
    text=(
        "Each token in each layer is a node, heads averaged. Raw attention looks at the layer below, where tokens are "
        "already mixed; rollout multiplies the layers and flow takes the largest flow through them, both with the "
        "residual connection, down to the input. Flow is normalised to sum 1 in each layer, as in the paper."
    ),
    paper_says="Abnar & Zuidema find raw attention nearly even in the upper layers, rollout more focused than flow.",
    figures=(
        Drawing(
            "attention_graph",
            (
                "The graph without the residual connection: the darker and wider, the more attention. Light edges are "
                "left out (the limit stands above each panel); the chosen token's node in the last layer is orange."
            ),
            attention_graph,
        ),
        Drawing(
            "attention_graph_maps",
            "What the chosen token (orange) sees, by layer; colours follow the square root of the value.",
            attention_graph_maps,
        ),
    ),
)
