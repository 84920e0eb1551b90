"""From the table of ``token_identity`` to rates by layer, in pandas alone.

The rate is the share of tokens whose mapped embedding is nearest to their own input among those of the same text.
Layers are counted from 0, in the paper from 1.
"""

from __future__ import annotations

from pandas import DataFrame

MAP_TITLES = {"naive": "naive", "linear": "linear", "mlp": "MLP"}
DISTANCE_TITLES = {"cosine": "cosine", "l2": "L2"}


def experiment(table: DataFrame, name: str, part: str = "test") -> DataFrame:
    """Return the rows of one experiment, those on the test part unless asked otherwise."""
    return table[(table["experiment"] == name) & (table["part"] == part)]


def has_experiment(table: DataFrame, name: str) -> bool:
    """Tell whether the experiment was made."""
    return bool(len(experiment(table, name)))


def has_training_rates(table: DataFrame) -> bool:
    """Tell whether a trained map was also tested on what it was trained on."""
    return bool(len(trained(experiment(table, "input", "train"))))


def has_transfer(table: DataFrame) -> bool:
    """Tell whether a trained map was tested on other layers; the naive one belongs to none."""
    return bool(len(trained(experiment(table, "transfer"))))


def combinations(rows: DataFrame) -> list[tuple[str, str]]:
    """Return the pairs of map and distance the rows have, in the paper's order."""
    present = set(zip(rows["map"], rows["distance"], strict=True))
    return [(name, distance) for name in MAP_TITLES for distance in DISTANCE_TITLES if (name, distance) in present]


def of_pair(rows: DataFrame, name: str, distance: str) -> DataFrame:
    """Return the rows of one map and distance."""
    return rows[(rows["map"] == name) & (rows["distance"] == distance)]


def rates(rows: DataFrame) -> DataFrame:
    """Return mean, standard deviation over folds and rate of guessing, by layer; seeds are averaged first.

    The standard deviation is missing where there is one fold.
    """
    folds = rows[["value", "baseline"]].groupby([rows["layer"].astype(int), rows["fold"]]).mean()
    means = folds.groupby("layer").mean()
    return means.assign(std=folds["value"].groupby("layer").std())


def beside_ridge(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return what is drawn as a line, and the closed form where it stands beside gradient training."""
    others = set(rows["solver"]) - {"ridge"}
    closed = (rows["solver"] == "ridge") & bool(others)
    return rows[~closed], rows[closed]


def trained(rows: DataFrame) -> DataFrame:
    """Leave out the naive map, which is none."""
    return rows[rows["map"] != "naive"]


def by_size(rows: DataFrame) -> DataFrame:
    """Return tokens trained on and the rate on the test part, by share of the training texts; folds are averaged."""
    tested = rows[rows["part"] == "test"].groupby("share")["value"].mean()
    tokens = rows[rows["part"] == "train"].groupby("share")["tokens"].mean().astype(float)
    return tested.to_frame("value").assign(tokens=tokens)


def of_size(table: DataFrame) -> DataFrame:
    """Return the rows of maps that were trained on shares of the training texts."""
    return table[table["experiment"] == "size"]
