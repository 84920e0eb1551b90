"""Say in words by which protocol explanations were compared."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.attributions.ranking import few_examples
from effective_attention.reports.findings import said_of
from effective_attention.reports.reductions import panels

_PRESETS = {"ours": "Our protocol", "abnar2020": "The protocol of Abnar & Zuidema's published code"}
_GRADIENT = {"norm": "the L2 norm of its log-odds' gradient", "sum": "the absolute sum of its logit's gradient"}
_QUERY = {
    "answer": "attention is that of the token the model answers from",
    "max": "raw attention, rollout and flow are the largest of all queries', other methods read the answering token's",
}
_TIES = {"mean": "equal scores share the mean of their ranks", "dense": "ranks are dense (no gap after equal scores)"}
_DELIMITERS = {True: "[CLS] and [SEP] are ranked too", False: "[CLS] and [SEP] are not ranked"}
_TARGET = {
    "predicted": "the predicted class",
    "correct": "the correct class",
    "first": "class 0, whatever was answered",
}


def by_which_protocol(table: DataFrame) -> list[str]:
    """Describe the protocol of each panel, once where it is the same for all."""
    said = dict.fromkeys(_sentence(panel.table) for panel in panels(table))
    if len(said) == 1:
        return list(said)
    return [said_of(panel, table, _sentence(panel.table)) for panel in panels(table)]


def _sentence(table: DataFrame) -> str:
    row = table.iloc[0]
    parts = (
        f"explained is {_TARGET[row['target']]}",
        f"a token's worth by gradients is {_GRADIENT[row['gradient']]}",
        _QUERY[row["query"]],
        _TIES[row["ties"]],
        _DELIMITERS[bool(row["delimiters"])],
    )
    return f"{_PRESETS[row['protocol']]}: {'; '.join(parts)}."


def how_many_examples(table: DataFrame) -> list[str]:
    """Say of panels with few examples that their intervals are too short."""
    said = []
    for panel in panels(table):
        too_few = few_examples(int(panel.table["examples"].max()))
        said += [] if too_few is None else [said_of(panel, table, f"{too_few}.")]
    return said
