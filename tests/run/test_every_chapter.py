"""Every analysis on a tiny model, from its real table to each of its figures and its chapter in the report."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.measured import measured
from effective_attention.run.experiment import evaluate
from effective_attention.run.options.texts import quoted
from helpers.small_analyses import OPTIONS

ALONE = "pronouns"  # reads a sentence with a gap, in a masked language model
MARKED = "number_flip"  # reads texts whose subject is marked
GAP = quoted("text=The author talked to Sara about [MASK] book .")
NOT_HERE = {"faithfulness_subject", "faithfulness_truth", "alternative_attention_heads", "timing"}
"""Need sentences whose subject is known; the alternatives of all heads, which take a minute; five timed batches."""

CHECKED = ["analysis.faithfulness.sanity=true", "analysis.faithfulness.erase=[delete,hide]"]


@pytest.fixture(scope="module")
def folders(trained: Any, composer: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three evaluations: of everything a split and a text have, of the sentence with a gap, and of marked texts."""
    everything = ["analysis=[all,token_identity,token_mixing,explorer]", "attention=all", *OPTIONS, *CHECKED]
    cfg = composer("evaluate", tmp_path_factory.mktemp("all"), f"checkpoint={trained.folder}", *everything)
    evaluate(cfg)
    words = ["candidates=[his,her]", "referents=[author,Sara]"]
    alone = composer("evaluate", tmp_path_factory.mktemp("alone"), f"analysis={ALONE}", GAP, *words)
    evaluate(alone)
    marked = composer("evaluate", tmp_path_factory.mktemp("marked"), "task=agreement", f"analysis={MARKED}")
    marked.checkpoint = None
    evaluate(marked)
    special = {ALONE: alone, MARKED: marked}
    return {chapter.analysis: Path(special.get(chapter.analysis, cfg).run_dir) for chapter in CHAPTERS}


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.analysis)
def test_from_the_table_to_the_page(chapter: Any, folders: dict[str, Path]) -> None:
    folder = folders[chapter.analysis]
    table = pd.read_parquet(folder / "tables" / f"{chapter.analysis}.parquet")
    assert len(table) > 0
    drawn = {drawing.name for drawing in chapter.figures if drawing.can_draw(table)}
    assert {drawing.name for drawing in chapter.figures} - drawn <= NOT_HERE
    for name in drawn:
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for make in chapter.tables:
        assert make(table).rows or make.__name__ == "alternative_layers", make.__name__
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f'id="{chapter.analysis}"' in page
    assert chapter.title in page
    if chapter.scalars is not None:
        numbers = chapter.scalars.compute(table)
        assert numbers
        assert all(name.startswith(f"{chapter.scalars.prefix}/") for name in numbers)


@pytest.mark.parametrize(
    ("analysis", "examples"),
    [
        ("delimiters", "validation examples (MRPC 16)"),
        ("head_ablation", "validation examples (MRPC 16)"),
        ("faithfulness", "validation examples (MRPC 3)"),
        ("heatmap", "one validation example (MRPC)"),
        ("attention_graph", "one validation example (MRPC)"),
        ("explorer", "one validation example (MRPC)"),
    ],
)
def test_a_chapter_says_on_how_many_examples_it_was_measured(
    folders: dict[str, Path], analysis: str, examples: str
) -> None:
    table = pd.read_parquet(folders[analysis] / "tables" / f"{analysis}.parquet")
    assert measured(table).startswith(f"Measured on {examples}, tiny (finetuned)")


def test_csv_files_are_what_parquet_files_are_if_read_as_the_docs_say(folders: dict[str, Path]) -> None:
    """One of our names is ``null``, which CSV readers take for a missing value unless they are told."""
    folder = folders["heatmap"] / "tables"
    table = pd.read_csv(folder / "heatmap.csv", keep_default_na=False, na_values=[""])
    assert set(table["attention"]) >= {"standard", "effective", "null"}
