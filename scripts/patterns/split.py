"""Hold out whole groups of texts of the second lot, at random, until two fifths of its maps are held out.

    python scripts/patterns/split.py

Writes the column ``split`` of labels_real.csv. No text is on both sides, whatever the model: a group is all texts that
share a sentence. The draw knows neither labels nor lengths. Maps of the lot for training alone stay there.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SHARE = 0.4
SEED = 0
FOR_TRAINING = 839  # from this map on


def held_out(groups: dict[str, int]) -> set[int]:
    """Return the groups that are held out; ``groups``: map → group."""
    order = np.random.default_rng(SEED).permutation(sorted(set(groups.values())))
    chosen: set[int] = set()
    for group in order.tolist():
        if sum(one in chosen for one in groups.values()) >= SHARE * len(groups):
            break
        chosen.add(group)
    return chosen


def main() -> None:
    with (HERE / "maps_real.csv").open() as file:
        groups = {row["id"]: int(row["group"]) for row in csv.DictReader(file)}
    drawn = dict(list(groups.items())[:FOR_TRAINING])
    with (HERE / "labels_real.csv").open() as file:
        labels = {row["id"]: row["label"] for row in csv.DictReader(file)}
    out = held_out(drawn)
    lines = [f"{name},{label},{'held-out' if groups[name] in out else 'train'}\n" for name, label in labels.items()]
    (HERE / "labels_real.csv").write_text("id,label,split\n" + "".join(lines))


if __name__ == "__main__":
    main()
