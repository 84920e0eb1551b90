"""What [CLS] attends to: what the report says and shows of ``token_types``."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports import report_tables
from effective_attention.reports.chapter import Chapter, Drawing, Scalars
from effective_attention.reports.figures.token_types import token_types, token_types_lift


def type_scalars(table: DataFrame) -> dict[str, float]:
    """Follow what [CLS] gives at most to a token of each type in the last layer, mean over heads."""
    table = table[(table["statistic"] == "largest") & (table["layer"] == table["layer"].max())]
    means = table.groupby(["attention", "token_type"], sort=False)["value"].mean()
    return {f"token_attention/{attention}/{kind}": float(value) for (attention, kind), value in means.items()}


CHAPTER = Chapter(
    analysis="token_types",
    title="What [CLS] attends to",
    source="Fig. 1",
    text=(
        "The weight [CLS] gives to each type of token in the last layer, by head: of several tokens of a type the "
        "largest counts, of a word of several pieces the first. A largest weight favours frequent types, so a second "
        "figure divides the weight on a type by its share of the tokens: 1 is what even attention would give."
    ),
    paper_says=(
        "The paper finds [SEP] and punctuation less prominent in effective attention, except on SST-2, and [CLS] much "
        "the same."
    ),
    figures=(
        Drawing(
            "token_types",
            "Largest weight from [CLS] to a token of each type, mean over examples (the paper's Fig. 1).",
            token_types,
        ),
        Drawing(
            "token_types_lift",
            "Weight on a type divided by the type's share of tokens; 1 is even attention.",
            token_types_lift,
        ),
    ),
    scalars=Scalars("attention of [CLS]", "weight", "token_attention", type_scalars),
    tables=(report_tables.token_types,),
)
