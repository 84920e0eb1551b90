"""Why this prediction: bars in the order of the text, the highlighted text, how far to trust it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from effective_attention.reports.chapters.explain import CHAPTER, found_in, highlights, strongest, trust_table
from effective_attention.reports.measured import measured
from helpers.figures import FIGURES, Make, plots, stacked


def test_bars_are_the_words_in_the_order_of_the_text(make_tables: Make) -> None:
    table = make_tables()["explain"]
    (axes,) = plots(FIGURES["explain"](table))
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[:4] == ["the", "new", "anti", "##biotics"]
    assert "<script>alert(1)</s…" in names
    assert [bar.get_width() for bar in axes.patches] == table["score"].tolist()
    colours = [bar.get_facecolor()[:3] for bar in axes.patches]
    assert len({colour for colour, score in zip(colours, table["score"], strict=True) if score < 0}) == 1
    assert axes.get_title(loc="left") == "MRPC: yes, probability 0.875"
    assert axes.get_xlabel() == "score for yes\nintegrated gradients"


def test_of_many_words_the_strongest_are_drawn_and_never_special_ones(make_tables: Make) -> None:
    table = make_tables()["explain"]
    many = pd.concat([table] * 3, ignore_index=True)
    many = many.assign(position=range(len(many)), score=[(-1) ** place * place for place in range(len(many))])
    many.loc[many.index[-1], "special"] = True
    assert strongest(many)["score"].abs().tolist() == list(range(15, 35))


def test_the_text_is_put_together_again_with_its_backgrounds(make_tables: Make) -> None:
    table = make_tables()["explain"].assign(before=["", *["  "] * 11], score=[1.0, -1.0, 0.5, *[0.01] * 9])
    (part,) = highlights(table)
    assert part.is_open
    ((_, (passage,)),) = part.layers
    assert "".join(piece.text for piece in passage.pieces) == "  ".join(table["word"])
    levels = {piece.text: piece.level for piece in passage.pieces if piece.text.strip()}
    assert [levels[word] for word in ("the", "new", "anti", "cost")] == [5, -5, 2, 0]
    assert passage.title == "MRPC, integrated gradients"


def test_the_second_text_begins_a_line(make_tables: Make) -> None:
    table = make_tables()["explain"].assign(segment=[0] * 6 + [1] * 6, before=["", *[" "] * 5, "", *[" "] * 5])
    ((_, (passage,)),) = highlights(table)[0].layers
    first, second = "".join(piece.text for piece in passage.pieces).split("\n")
    assert (first, second) == (" ".join(table["word"][:6]), " ".join(table["word"][6:]))


def test_how_far_to_trust_it_in_numbers_and_in_words(make_tables: Make) -> None:
    grid = trust_table(make_tables()["explain"])
    assert grid.columns == ["what is lost", "these words", "random words", "better than"]
    assert grid.rows == [
        ["without the top words (more is better)", "+0.500", "+0.100", "20 of 20"],
        ["with the top words alone (less is better)", "+0.010", "+0.300", "20 of 20"],
    ]
    (remark,) = found_in(make_tables()["explain"])
    assert remark.startswith("MRPC: predicted yes, probability 0.875 (the right answer is yes). Both checks beat")


def test_two_tasks_have_two_of_everything(make_tables: Make) -> None:
    table = stacked(make_tables, "explain", "mrpc", "sst2")
    assert len(plots(FIGURES["explain"](table))) == len(highlights(table)) == len(found_in(table)) == 2
    assert [row[0] for row in trust_table(table).rows] == ["MRPC"] * 2 + ["SST-2"] * 2


def test_a_score_another_target_and_a_layer(make_tables: Make) -> None:
    table = make_tables()["explain"].assign(attention="effective", layer=3, method="rollout", target="no", gold=None)
    assert highlights(table)[0].layers[0][1][0].title == "MRPC, rollout (effective attention, layer 3)"
    assert "Explained is no." in found_in(table)[0]
    assert "right answer" not in found_in(table)[0]
    score = table.assign(predicted="score", target="score", probability=2.5)
    assert "predicted score 2.500." in found_in(score)[0]


def test_a_text_of_the_users_is_what_it_was_measured_on(make_tables: Make) -> None:
    table = make_tables(data="text", split="text", examples=1)["explain"]
    assert measured(table) == "Measured on the text given with text= (MRPC), minilm (finetuned)."


def test_the_report_shows_the_text_at_the_beginning_and_escaped(report: Path) -> None:
    chapter = report.read_text(encoding="utf-8").partition('id="explain"')[2].partition("</section>")[0]
    assert chapter.index('class="texts signed"') < chapter.index("<figure>")
    assert "<script>alert" not in chapter
    assert CHAPTER.title in chapter
