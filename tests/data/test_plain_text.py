"""``task=text``: any text file, one text a line or a paragraph; ``evaluate`` looks at it, ``train`` refuses it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from effective_attention.data.sources import HubSource, LocalSource, SampleSource
from effective_attention.errors import UserError

Compose = Callable[..., Any]
WIKI = (
    " \n = A Heading = \n \n The first paragraph is here . \n It goes on , @-@ \n in a line .\n\n\n\nAn end\r\n   \t\n"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "wiki.txt"
    path.write_bytes(WIKI.encode())
    return path


@pytest.fixture
def task(make_task: Callable[[str], Any]) -> Any:
    return make_task("text")


def texts(task: Any, file: Path, **options: Any) -> list[str]:
    return [text for (text,) in LocalSource(file=file, **options).load(task, "validation").texts]


def test_lines_and_paragraphs(task: Any, file: Path) -> None:
    first = ["= A Heading =", "The first paragraph is here ."]
    assert texts(task, file) == [*first, "It goes on , @-@", "in a line .", "An end"]
    assert texts(task, file, unit="paragraph") == [first[0], f"{first[1]} It goes on , @-@ in a line .", "An end"]


def test_what_is_left_out_is_counted(task: Any, file: Path) -> None:
    lines = LocalSource(file=file).load(task, "text")
    assert (len(lines), lines.skipped_rows) == (5, 6)
    assert (lines.labels, lines.words) == (None, None)
    assert lines.source == f"file {file}, one text a line"
    long = LocalSource(file=file, min_words=5).load(task, "text")
    assert [text for (text,) in long.texts] == ["The first paragraph is here .", "It goes on , @-@"]
    assert long.skipped_rows == 9
    assert texts(task, file, unit="paragraph", min_words=5) == [
        "The first paragraph is here . It goes on , @-@ in a line ."
    ]


def test_a_byte_order_mark_and_other_line_ends(task: Any, tmp_path: Path) -> None:
    path = tmp_path / "2024"
    path.write_bytes("\ufeffÉin Text\r\nzwei\u2028drei\x0bvier\r\n".encode())
    assert texts(task, path) == ["Éin Text", "zwei\u2028drei\x0bvier"], "only a newline ends a line"


@pytest.mark.parametrize(
    ("content", "options", "line"),
    [
        (
            b"good\nbad \xff here\n",
            {},
            r"file\.txt, line 2: not valid UTF-8 \(byte 0xff at position 5\); save the file",
        ),
        (b"\n \n", {}, r"file\.txt: there is no text in it$"),
        (b"", {"unit": "paragraph"}, r"file\.txt: there is no text in it$"),
        (b"a b\n", {"min_words": 3}, r"no text in it of 3 words or more; add a smaller data\.min_words"),
        (None, {}, r"^data\.file=.*file\.txt: no such file; give a text file in UTF-8$"),
    ],
)
def test_bad_files(content: bytes | None, options: dict[str, Any], line: str, task: Any, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=line):
        texts(task, path, **options)


def test_neither_a_folder_nor_another_split_nor_another_task(
    task: Any, file: Path, make_task: Callable[[str], Any]
) -> None:
    with pytest.raises(UserError, match=r"is not a file"):
        texts(task, file.parent)
    with pytest.raises(UserError, match=r"^split=test: task text has no splits; leave it out$"):
        LocalSource(file=file).load(task, "test")
    with pytest.raises(UserError, match=r"^task text needs data=local data\.file=<file>$"):
        LocalSource(dir=file.parent).load(task, "text")
    with pytest.raises(UserError, match=r"^task mrpc needs data=local data\.dir=<folder>$"):
        LocalSource(file=file).load(make_task("mrpc"), "validation")
    with pytest.raises(UserError, match=r"^data=hub: task text .*; add data=sample or data=local data\.file=<file>$"):
        HubSource().load(task, "text")


def test_the_sample_has_passages(task: Any) -> None:
    found = SampleSource().load(task, "text")
    assert len(found) == len({text for (text,) in found.texts}) == 80
    assert found.labels is None
    assert all(len(text.split()) > 15 for (text,) in found.texts)


# --- the commands ---


def test_evaluate(compose: Compose, file: Path, tmp_path: Path, capsys: Any) -> None:
    from effective_attention.run.experiment import evaluate

    options = ["task=text", "data=local", f"data.file={file}", "analysis=[distance,token_types,head_ablation]"]
    metrics = evaluate(compose("evaluate", *options, "data.limit_eval=${limit}", "limit=3"))
    assert (metrics["run/task"], metrics["data/text/examples"], metrics["data/text/skipped_rows"]) == ("text", 3, 6)
    assert metrics["test/effective/max_logit_difference"] < 1e-5
    assert not any("accuracy" in name for name in metrics)
    assert metrics["run/note"].startswith("random model: for dry runs")
    tables = {path.stem for path in (tmp_path / "run" / "tables").glob("*.parquet")}
    assert tables == {"distance", "token_types"}, "there are no labels for the third"
    table = pd.read_parquet(tmp_path / "run" / "tables" / "distance.parquet")
    assert (set(table["split"]), set(table["examples"])) == ({"text"}, {3})
    assert (tmp_path / "run" / "report.html").is_file()


def test_nothing_to_learn(compose: Compose, file: Path) -> None:
    from effective_attention.run.experiment import train

    with pytest.raises(UserError, match=r"^task=text has no labels, so there is nothing to learn; "):
        train(compose("train", "task=text", "data=local", f"data.file={file}"))


def test_a_checkpoint_of_any_task(compose: Compose, trained: Any) -> None:
    from effective_attention.run.experiment import evaluate

    metrics = evaluate(compose("evaluate", "task=text", "data=sample", f"checkpoint={trained.folder}"))
    assert metrics["run/checkpoint"] == str(trained.folder)
    assert metrics["data/text/examples"] == 16
