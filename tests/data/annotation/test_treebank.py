"""A treebank is a source of texts with gold words, found by the split's name; a missing one is explained in a line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from effective_attention.data.annotation.tagging import CUT_AWAY, UPOS, annotate
from effective_attention.data.sources import HubSource, LocalSource, SampleSource
from effective_attention.errors import UserError
from helpers.paths import TREEBANK

DEV = """\
# text = I don't.
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tVERB\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
"""


@pytest.fixture(scope="module")
def task(make_task: Callable[[str], Any]) -> Any:
    return make_task("treebank")


def write(path: Path, content: str = DEV) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("place", ["en_ewt-ud-dev.conllu", "treebank/xx-UD-Dev.conllu", "validation.conllu"])
def test_where_a_split_is_found(place: str, task: Any, tmp_path: Path) -> None:
    path = write(tmp_path / place)
    write(tmp_path / "en_devious-ud-train.conllu", DEV.replace("Go", "Stay"))
    examples = LocalSource(tmp_path).load(task, "validation")
    assert (examples.texts, examples.labels, examples.source) == ([("I don't.",), ("Go",)], None, f"file {path}")
    assert [words.upos for (words,) in examples.words] == [("PRON", "VERB", "PART", "PUNCT"), ("VERB",)]
    assert LocalSource(tmp_path).load(task, "train").texts[1] == ("Stay",)


def test_the_task_folder_comes_first(task: Any, tmp_path: Path) -> None:
    write(tmp_path / "a-test.conllu")
    inner = write(tmp_path / "treebank" / "b-test.conllu")
    assert LocalSource(tmp_path).load(task, "test").source == f"file {inner}"


def refuses(folder: Path, task: Any, split: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        LocalSource(folder).load(task, split)
    assert "\n" not in str(caught.value)


def test_no_file_and_two_files(task: Any, tmp_path: Path) -> None:
    write(tmp_path / "a-dev.conllu")
    refuses(
        tmp_path,
        task,
        "test",
        r"no treebank for the test split; looked for \*test\*\.conllu in treebank/ and the folder itself",
    )
    write(tmp_path / "b-dev.conllu")
    refuses(
        tmp_path,
        task,
        "validation",
        r"two files for the validation split, \S+a-dev\.conllu and \S+b-dev\.conllu; keep one",
    )
    refuses(
        tmp_path / "no",
        task,
        "validation",
        r"data\.dir=\S+no: no such folder; give the one that holds \*dev\*\.conllu or \*val",
    )
    refuses(tmp_path / "a-dev.conllu", task, "validation", r"a-dev\.conllu: is not a folder")


def test_a_broken_sentence_is_refused_or_left_out_and_counted(task: Any, tmp_path: Path) -> None:
    write(tmp_path / "dev.conllu", "nonsense\n\n" + DEV)
    refuses(
        tmp_path,
        task,
        "validation",
        r"dev\.conllu, line 1: 1 column, .*, or leave such sentences out with data\.skip_broken_rows=true",
    )
    examples = LocalSource(tmp_path, skip_broken_rows=True).load(task, "validation")
    assert (len(examples), len(examples.words or ()), examples.skipped_rows) == (2, 2, 1)


@pytest.mark.parametrize("source", [SampleSource(), HubSource()])
def test_other_sources_say_where_to_look(source: Any, task: Any) -> None:
    with pytest.raises(
        UserError, match=f"^data={source.name}: task treebank is not available there; add data=local data.dir=<folder>$"
    ):
        source.load(task, "test")


@pytest.mark.skipif(not TREEBANK.is_dir(), reason="needs UD English EWT in ../shared/data/treebank")
def test_gold_words_of_english_ewt_on_sub_tokens(task: Any, tokenizer: Any) -> None:
    """Check that every word has a token or lies beyond the cut, save the few that share a token.

    Tokens have their words' tags and heads.
    """
    examples = LocalSource(TREEBANK.parent).load(task, "test").spread(400)
    found = annotate(examples.texts, tokenizer, 128, None, None, gold=examples.words)
    words = [words for (words,) in examples.words]
    total = sum(len(sentence) for sentence in words)
    seen = int(found.first.sum())
    assert 0.99 * total < seen <= total
    for index, sentence in enumerate(words):
        span = found.span(index)
        tags = [UPOS[tag] for tag in found.upos[span][found.first[span]]]
        if len(tags) == len(sentence):
            assert tags == list(sentence.upos)
            assert found.head[span][found.first[span]].tolist() == list(sentence.head)
    short = annotate(examples.texts, tokenizer, 8, None, None, gold=examples.words)
    assert np.count_nonzero(short.head[short.first] == CUT_AWAY) > 100, "cut sentences have heads that are cut away"
