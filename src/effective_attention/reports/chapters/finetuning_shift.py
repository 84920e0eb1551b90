"""What finetuning changes: what the report says and shows of ``finetuning_shift``."""

from __future__ import annotations

from functools import partial

from effective_attention.reports import report_tables
from effective_attention.reports.chapter import Chapter, Drawing, Scalars
from effective_attention.reports.figures.finetuning_shift import finetuning_shift
from effective_attention.reports.scalars import layer_means

CHAPTER = Chapter(
    analysis="finetuning_shift",
    title="What finetuning changes",
    source="Fig. 3",
    text=(
        "Cosine similarity of a head's attention before and after finetuning: 1 means that nothing changed. Padding "
        "is left out."
    ),
    paper_says="The paper finds that the last two layers change most, with either attention.",
    figures=(
        Drawing(
            "finetuning_shift",
            ("Cosine of attention, pretrained against finetuned, by layer and head, and the mean of each layer."),
            finetuning_shift,
        ),
    ),
    scalars=Scalars("similarity to the pretrained start", "cosine", "cosine", partial(layer_means, "cosine")),
    tables=(report_tables.finetuning_shift,),
)
