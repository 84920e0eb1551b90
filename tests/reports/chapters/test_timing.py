"""Evaluation time: ours beside the paper's."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.figures import FIGURES, Make, plots, stacked


def test_timing_stands_beside_the_papers_ratio(make_tables: Make) -> None:
    figure = FIGURES["timing"](stacked(make_tables, "timing", "rte", "cola"))
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in plots(figure)[0].containers}
    assert heights["effective"] == [1.31, 1.31]
    assert heights["effective in the paper"] == pytest.approx([2.0, np.nan], nan_ok=True)
