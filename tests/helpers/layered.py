"""What figures that show one number a head, and the layers' averages beside them, promise; see ``drawing.heads``."""

from __future__ import annotations

import numpy as np
import pandas as pd

from helpers.figures import FIGURES, cells, meshes, plots


def square(rows: pd.DataFrame) -> np.ndarray:
    """Return the values, layer by head."""
    return rows.pivot_table(index="layer", columns="head", values="value").to_numpy()


def deep(table: pd.DataFrame, *, times: int) -> pd.DataFrame:
    """Set the table's layers several times on top of each other: of a model with so many times more."""
    layers = table["layer"].max() + 1
    return pd.concat([table.assign(layer=table["layer"] + layers * time) for time in range(times)], ignore_index=True)


def assert_heatmaps_and_averages(name: str, table: pd.DataFrame, rows: pd.DataFrame, top: float) -> None:
    """Assert that both show the ``rows`` of the table, on one colour scale that ends at ``top``."""
    figure = FIGURES[name](table)
    drawn = meshes(figure)
    assert len(drawn) == 2
    for mesh, kind in zip(drawn, ("standard", "effective"), strict=True):
        np.testing.assert_allclose(cells(mesh), square(rows[rows["attention"] == kind]))
    assert {mesh.get_clim() for mesh in drawn} == {(0.0, top)}
    assert {mesh.get_cmap().name for mesh in drawn} == {"BuPu"}
    averages = plots(figure)[2]
    for line, kind in zip(averages.lines, ("standard", "effective"), strict=False):
        expected = rows[rows["attention"] == kind].groupby("layer")["value"].mean()
        np.testing.assert_allclose(line.get_xdata(), expected)
        np.testing.assert_allclose(line.get_ydata(), np.arange(rows["layer"].nunique()) + 0.5)


def assert_averages_stand_at_their_layers(name: str, table: pd.DataFrame) -> None:
    """Assert that averages stand beside their layers, for a pretrained and a finetuned model with six layers."""
    lines = np.array(plots(FIGURES[name](table))).reshape(2, 3)
    for line in lines:
        heights = {(round(axes.get_position().y0, 3), round(axes.get_position().y1, 3)) for axes in line}
        assert len(heights) == 1
        assert {axes.get_ylim() for axes in line} == {(6.0, 0.0)}
    assert [line[0].get_ylabel() for line in lines] == ["MRPC\npretrained\nlayer", "MRPC\nfinetuned\nlayer"]
    assert len({line[2].get_xlim() for line in lines}) == 1  # averages of two runs can be compared


def assert_every_point_lies_within_the_averages_panel(name: str, table: pd.DataFrame) -> None:
    for axes in plots(FIGURES[name](table))[2::3]:
        low, high = axes.get_xlim()
        assert all(low <= np.min(line.get_xdata()) <= np.max(line.get_xdata()) <= high for line in axes.lines)


def assert_many_layers_can_be_told_apart(name: str, table: pd.DataFrame) -> None:
    """Assert that a layer is no lower than a twentieth of an inch, whatever stands around the heatmaps."""
    figure = FIGURES[name](table)
    tall = [mesh.axes.get_position().height * figure.get_figheight() for mesh in meshes(figure)]
    assert min(tall) / table["layer"].nunique() >= 0.05


def assert_one_attention_alone_is_enough(name: str, table: pd.DataFrame) -> None:
    figure = FIGURES[name](table[table["attention"] == "effective"])
    assert [axes.get_title() for axes in plots(figure)] == ["effective attention", "mean over heads"]
