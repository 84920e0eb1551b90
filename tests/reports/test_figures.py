"""Figures: what they show is what the tables hold, and nothing is cut off or left unnamed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.drawing.files import figure_bytes, save_figure, write_figures
from effective_attention.reports.drawing.style import SCALES, style
from effective_attention.reports.reductions import panels
from helpers.figures import FIGURES, Make, cells, figures_of, meshes, plots, stacked

ANALYSES = [chapter.analysis for chapter in CHAPTERS if chapter.figures]


def analysis_of(figure: str) -> str:
    return next(name for name in ANALYSES if figure in figures_of(name))


def words(figure: Figure) -> list[Text]:
    """All text that is drawn. Ticks beyond the axis limits exist but are not."""
    found = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_visible() and text.get_text().strip():
            found.append(text)
    hidden = {
        id(label)
        for axes in figure.axes
        for axis, (low, high) in ((axes.xaxis, sorted(axes.get_xlim())), (axes.yaxis, sorted(axes.get_ylim())))
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        for label in (tick.label1, tick.label2)
        if not low <= tick.get_loc() <= high or not tick.get_visible()
    }
    return [text for text in found if id(text) not in hidden]


def badly_set(figure: Figure) -> list[tuple[str, str]]:
    """List words that are cut off, and pairs that lie on each other."""
    with style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in words(figure)]
    width, height = figure.bbox.width, figure.bbox.height
    outside = [word for word, box in boxes if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1]
    clashes = [
        (word, other)
        for index, (word, box) in enumerate(boxes)
        for other, second in boxes[index + 1 :]
        if min(box.x1, second.x1) - max(box.x0, second.x0) > 1 and min(box.y1, second.y1) - max(box.y0, second.y0) > 1
    ]
    return [(word, "cut off") for word in outside] + clashes


# --- all figures ---


def test_every_analysis_has_a_figure_of_its_name() -> None:
    assert set(ANALYSES) <= set(FIGURES)
    assert sorted(name for analysis in ANALYSES for name in figures_of(analysis)) == sorted(FIGURES)


SIZES = [(("mrpc",), 2, 3), (("rte", "mrpc", "qnli", "sst2", "stsb"), 12, 12)]


@pytest.mark.parametrize(("tasks", "layers", "heads"), SIZES, ids=["one-small", "five-large"])
@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_cut_off_and_no_words_overlap(
    name: str, tasks: tuple[str, ...], layers: int, heads: int, make_tables: Make
) -> None:
    table = stacked(make_tables, analysis_of(name), *tasks, layers=layers, heads=heads)
    before = table.copy()
    figure = FIGURES[name](table)
    pd.testing.assert_frame_equal(table, before)
    assert badly_set(figure) == []


def of_small_scores(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(word="Tuesday", score=[0.024 - 0.04 * place / (len(table) - 1) for place in range(len(table))])


def of_five_decades(table: pd.DataFrame) -> pd.DataFrame:
    times = table["measure"] == "milliseconds"
    spread = [2.0 * 9000 ** (place / (times.sum() - 1)) for place in range(times.sum())]
    return table.assign(value=table["value"].mask(times, pd.Series(spread, index=table.index[times])))


def of_one_relation(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["relation"].isin(["all", table.loc[table["relation"] != "all", "relation"].iloc[0]])]


def crowded(figure: Figure) -> list[str]:
    """List numbers of an axis that run into the one before them, and names of axes that are longer than these."""
    found = []
    with style():  # how many ticks there are depends on the size of letters
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        shown = {id(text) for text in words(figure)}
        for axes in figure.axes:
            labels = [label for label in axes.get_xticklabels() if id(label) in shown]
            boxes = [(label.get_text(), label.get_window_extent(renderer)) for label in labels]
            found += [word for (_, box), (word, after) in pairwise(boxes) if after.x0 - box.x1 < 4]
            name = axes.yaxis.label
            found += [name.get_text()] if name.get_window_extent(renderer).height > axes.bbox.height else []
    return found


HARD = {"explain": of_small_scores, "faithfulness": of_five_decades, "dependency_alignment_relations": of_one_relation}


@pytest.mark.parametrize("name", HARD)
def test_words_have_room_where_real_runs_left_little(name: str, make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)[analysis_of(name)]
    figure = FIGURES[name](HARD[name](table))
    assert badly_set(figure) == []
    assert crowded(figure) == []


@pytest.mark.parametrize("name", FIGURES)
def test_axes_are_named_and_widths_are_a_papers(name: str, make_tables: Make) -> None:
    table = make_tables()[analysis_of(name)]
    figure = FIGURES[name](table)
    said = {text.get_text() for text in words(figure)}
    about = "minilm: The author" if "text" in table else "MRPC"  # what reads one text says that, not the task
    assert any(about in text for text in said)
    assert figure.get_figwidth() in (3.3, 6.8)
    first = plots(figure)[0]
    assert first.get_ylabel() != "" or not first.axison  # text has no axes


@pytest.mark.parametrize("name", ["token_types", "delimiters_sep", "finetuning_shift"])
def test_standard_is_green_and_above_effective_in_blue_with_a_column_per_task(name: str, make_tables: Make) -> None:
    figure = FIGURES[name](stacked(make_tables, analysis_of(name), "mrpc", "rte", "stsb"))
    assert [mesh.get_cmap().name for mesh in meshes(figure)] == ["Greens"] * 3 + ["Blues"] * 3
    above, below = (mesh.axes.get_position() for mesh in (meshes(figure)[0], meshes(figure)[3]))  # type: ignore[union-attr]
    assert above.y0 > below.y1
    assert abs(above.x0 - below.x0) < 0.01
    assert [axes.get_title() for axes in plots(figure)][:3] == ["RTE", "MRPC", "STS-B"]


def test_files_are_written_whole_sharp_and_the_same_every_time(make_tables: Make, tmp_path: Path) -> None:
    from PIL import Image

    for folder in ("first", "second"):
        save_figure(FIGURES["timing"](make_tables()["timing"]), tmp_path / folder / "timing")
    assert sorted(path.name for path in (tmp_path / "first").iterdir()) == ["timing.png", "timing.svg"]
    for kind in ("png", "svg"):
        first, second = ((tmp_path / folder / f"timing.{kind}").read_bytes() for folder in ("first", "second"))
        assert first == second
    with Image.open(tmp_path / "first" / "timing.png") as picture:
        assert picture.width >= 3.3 * 200
    assert b"<dc:date>" not in (tmp_path / "first" / "timing.svg").read_bytes()


def test_a_figure_is_drawn_once_for_each_file(make_tables: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matplotlib draws it a second time, in secret, as long as somebody might still lay it out."""
    figure = FIGURES["timing"](make_tables()["timing"])
    drawn = []
    draw = Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda *given: (drawn.append(given), draw(*given)))
    for kind in ("png", "svg"):
        figure_bytes(figure, kind, salt="")
    assert len(drawn) == 2


def test_two_figures_on_one_page_share_no_ids(make_tables: Make) -> None:
    import re

    figure = FIGURES["timing"](make_tables()["timing"])
    ids = [set(re.findall(rb'<clipPath id="([^"]+)"', figure_bytes(figure, "svg", salt=salt))) for salt in ("a", "b")]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_write_figures_draws_all_of_an_analysis_and_skips_empty_tables(make_tables: Make, tmp_path: Path) -> None:
    tables = make_tables()
    written = write_figures(
        tmp_path, {"token_types": tables["token_types"], "timing": tables["timing"].iloc[:0]}, CHAPTERS
    )
    assert [path.name for path in written] == ["token_types.png", "token_types_lift.png"]
    assert all(path.exists() and path.with_suffix(".svg").exists() for path in written)
    assert len(list(tmp_path.iterdir())) == 4


def test_the_users_settings_neither_count_nor_change(make_tables: Make) -> None:
    table = make_tables()["timing"]
    plain = figure_bytes(FIGURES["timing"](table), "png", salt="")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        assert figure_bytes(FIGURES["timing"](table), "png", salt="") == plain
        assert matplotlib.rcParams["font.size"] == 30


# --- panels ---


def test_panels_come_in_the_papers_order_and_unknown_tasks_last(make_tables: Make) -> None:
    table = stacked(make_tables, "timing", "own", "stsb", "cola", "rte")
    assert [panel.title for panel in panels(table)] == ["RTE", "STS-B", "CoLA", "own"]


def test_settings_that_differ_get_panels_of_their_own_and_seeds_do_not(make_tables: Make) -> None:
    seeds = [make_tables(seed=seed, checkpoint=f"run{seed}")["timing"] for seed in (1, 2)]
    assert [panel.title for panel in panels(pd.concat(seeds))] == ["MRPC"]
    other = make_tables(model="bert_base", checkpoint="")["timing"]
    assert [panel.title for panel in panels(pd.concat([*seeds, other]))] == [
        "MRPC\nminilm\nfinetuned",
        "MRPC\nbert_base\npretrained",
    ]


def test_seeds_are_averaged(make_tables: Make) -> None:
    first, second = (make_tables(seed=seed)["finetuning_shift"] for seed in (1, 2))
    mean = (first["value"] + second["value"]) / 2
    expected = mean[first["attention"] == "standard"].to_numpy().reshape(2, 3)
    figure = FIGURES["finetuning_shift"](pd.concat([first, second], ignore_index=True))
    np.testing.assert_allclose(cells(meshes(figure)[0]), expected)


# CSS's invert(.917) and hue-rotate(180deg), by which dark pages turn figures
HUE_ROTATED = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])


@pytest.mark.parametrize("scale", sorted({*SCALES.values(), "BuPu"}))
def test_strong_weights_can_be_told_apart_in_the_dark(scale: str) -> None:
    colours = matplotlib.colormaps[scale](np.linspace(0.6, 1, 9))[:, :3]
    turned = ((0.917 - 0.834 * colours) @ HUE_ROTATED.T).clip(0, 1)
    assert np.linalg.norm(np.diff(turned, axis=0), axis=1).min() > 0.04
