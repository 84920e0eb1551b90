"""From the table of ``protocols`` to what figure, table and sentences show: the last layer, a row for each protocol."""

from __future__ import annotations

from typing import NamedTuple

from pandas import DataFrame

from effective_attention.analyses.common.protocol import PRESETS
from effective_attention.analyses.protocols import DIFFERENCES, REFERENCES

CONCLUSIONS = {difference: difference.replace(" - ", " > ") for difference in DIFFERENCES}
SURE, SURE_NOT, OPEN = "surely", "surely not", "cannot be said"
PRESET_TITLES = {"ours": "ours", "abnar2020": "paper's code"}
REFERENCE_TITLES = {"gradients": "gradients", "blank_out": "blank-out"}
_TOKENS = {False: "words", True: "all"}


class Way(NamedTuple):
    """One way to compare with a reference; no gradient where the reference has none."""

    reference: str
    gradient: str | None
    query: str
    ties: str
    delimiters: bool

    @property
    def words(self) -> list[str]:
        """Say it in a few words, those of a table's columns."""
        return [*([self.gradient] if self.gradient else []), self.query, self.ties, _TOKENS[self.delimiters]]

    @property
    def preset(self) -> str | None:
        """Name the preset that compares so, but for its target."""
        for name, one in PRESETS.items():
            gradient = one.gradient if self.reference == "gradients" else None
            if (gradient, one.query, one.ties, one.delimiters) == self[1:]:
                return PRESET_TITLES[name]
        return None


def ways(table: DataFrame) -> dict[Way, DataFrame]:
    """Return the last layer's rows of each way: by reference, ours first and that of the paper's code last.

    Several runs of one setting are averaged; their intervals become the widest.
    """
    last = table[table["layer"] == table["layer"].max()]
    last = last.assign(gradient=last["gradient"].astype(object).where(last["gradient"].notna(), ""))
    how = {"value": "mean", "low": "min", "high": "max"}
    keys = [*Way._fields, "attention", "method"]
    means = last.groupby(keys, sort=False).agg(how).reset_index()
    found = {
        Way(str(key[0]), str(key[1]) or None, str(key[2]), str(key[3]), bool(key[4])): rows
        for key, rows in means.groupby(list(Way._fields), sort=False)
    }
    return dict(sorted(found.items(), key=lambda item: REFERENCES.index(item[0].reference)))


def verdict(rows: DataFrame, attention: str, difference: str) -> str | None:
    """Tell whether one method is above another, by the paired interval of their difference; None: not measured."""
    mine = rows[(rows["attention"] == attention) & (rows["method"] == difference)]
    if not len(mine) or not mine[["low", "high"]].notna().all(axis=None):
        return None
    low, high = mine["low"].iloc[0], mine["high"].iloc[0]
    return SURE if low > 0 else SURE_NOT if high < 0 else OPEN


def verdicts(found: dict[Way, DataFrame], attention: str, difference: str) -> dict[Way, str]:
    """Return the verdict of each way that was measured."""
    every = {way: verdict(rows, attention, difference) for way, rows in found.items()}
    return {way: said for way, said in every.items() if said is not None}
