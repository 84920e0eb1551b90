"""Figures of token identity and of token mixing name the runs they show."""

from __future__ import annotations

import pytest

from helpers.figures import Make, assert_runs_are_named


@pytest.mark.parametrize("analysis", ["token_identity", "token_mixing"])
def test_two_runs_are_drawn_apart(analysis: str, make_tables: Make) -> None:
    assert_runs_are_named(analysis, make_tables)
