"""CoNLL-U is read as it was written, words lie on their characters, and a wrong line is named by its number."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.data.annotation.conllu import BrokenSentenceError, GoldSentence, read_conllu
from effective_attention.errors import UserError
from helpers.paths import TREEBANK


def row(number: Any, form: str, head: Any = 0, relation: str = "root", *, upos: str = "NOUN", misc: str = "_") -> str:
    return "\t".join((str(number), form, "_", upos, "NN", "_", str(head), relation, "_", misc))


def surface(number: str, form: str, misc: str = "_") -> str:
    return "\t".join((number, form, *"_______", misc))


def read(folder: Path, content: str | bytes) -> list[GoldSentence]:
    (folder / "some.conllu").write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_conllu(folder / "some.conllu"))


def read_one(folder: Path, *lines: str) -> GoldSentence:
    (sentence,) = read(folder, "\n".join(lines) + "\n\n")
    return sentence


def covered(sentence: GoldSentence) -> list[str]:
    return [sentence.text[start:end] for start, end in zip(sentence.words.start, sentence.words.end, strict=True)]


CATS = [
    row(1, "The", 2, "det", upos="DET"),
    row(2, "cats", 3, "nsubj:pass"),
    row(3, "Sat", 0, "ROOT", upos="_", misc="SpaceAfter=No"),
    row(4, ".", 3, "punct", upos="PUNCT"),
]


def test_a_sentence_by_hand(tmp_path: Path) -> None:
    sentence = read_one(tmp_path, "# newdoc id = x", "# sent_id = 1", "# text = The  cats Sat.", *CATS)
    words = sentence.words
    assert (sentence.text, sentence.forms) == ("The  cats Sat.", ("The", "cats", "Sat", "."))
    assert (words.start, words.end) == ((0, 5, 10, 13), (3, 9, 13, 14))
    assert words.upos == ("DET", "NOUN", "X", "PUNCT"), "no part of speech is X"
    assert words.xpos == ("NN",) * 4
    assert words.head == (1, 2, 2, 2), "a root is its own head"
    assert words.relation == ("det", "nsubj:pass", "root", "punct"), "lower case, subtypes kept"
    assert sentence.opens_document


def test_without_a_text_the_forms_make_it(tmp_path: Path) -> None:
    for comments in ([], ["# text ="], ["# text_en = Le chat", "# sent_id = 3"]):
        sentence = read_one(tmp_path, *comments, *CATS)
        assert sentence.text == "The cats Sat."
        assert covered(sentence) == list(sentence.forms)
        assert not sentence.opens_document


def test_a_multi_word_token_is_divided_among_its_words(tmp_path: Path) -> None:
    lines = [
        row(1, "I", 2, "nsubj"),
        surface("2-3", "Don't", "SpaceAfter=No"),
        row(2, "do"),
        row(3, "n't", 2, "advmod"),
    ]
    for comments in ([], ["# text = I Don't."]):
        sentence = read_one(tmp_path, *comments, *lines, row(4, ".", 2, "punct"))
        assert sentence.text == "I Don't."
        assert (sentence.forms, covered(sentence)) == (("I", "do", "n't", "."), ["I", "Do", "n't", "."])
        assert sentence.words.head == (1, 1, 1, 1)


def test_words_that_are_not_written_share_the_token(tmp_path: Path) -> None:
    lines = [surface("1-2", "du"), row(1, "de", 3, "case"), row(2, "le", 3, "det"), row(3, "pain")]
    assert covered(read_one(tmp_path, *lines)) == ["du", "du", "pain"]
    same_length = [surface("1-2", "aux"), row(1, "a", 0), row(2, "es", 1, "det")]
    assert covered(read_one(tmp_path, *same_length)) == ["aux", "aux"]


def test_empty_nodes_are_left_out(tmp_path: Path) -> None:
    lines = [
        surface("0.1", "Well"),
        row(1, "tea"),
        surface("1.1", "likes"),
        surface("1.2", "x"),
        row(2, "too", 1, "advmod"),
    ]
    assert read_one(tmp_path, *lines).forms == ("tea", "too")


def test_line_ends_byte_order_mark_and_a_missing_last_line(tmp_path: Path) -> None:
    plain = "\n".join(
        ["# newdoc", "# text = The cats Sat.", *CATS, "", "", row(1, "Né\u2028e"), "# a comment", row(2, "b", 1)]
    )
    expected = read(tmp_path, plain)
    assert [sentence.text for sentence in expected] == ["The cats Sat.", "Né\u2028e b"]
    assert [sentence.opens_document for sentence in expected] == [True, False]
    for variant in (plain + "\n\n\n", plain.replace("\n", "\r\n"), "\ufeff" + plain):
        assert read(tmp_path, variant) == expected


def test_comments_without_a_sentence(tmp_path: Path) -> None:
    (sentence,) = read(
        tmp_path, "# newdoc id = 1\n# text = Gone.\n\n\n# sent_id = 2\n" + "\n".join(CATS) + "\n# the end\n"
    )
    assert (sentence.text, sentence.opens_document) == ("The cats Sat.", True)


BAD = [
    ([CATS[0], "2\tcats\t_"], 2, "3 columns, expected 10 with tabs between them; give a CoNLL-U file"),
    (["nonsense"], 1, "1 column, expected 10"),
    ([row(1, " ")], 1, "the form is empty; write the word"),
    (
        [CATS[0], row(3, "cats")],
        2,
        "id '3' where 2 should follow; count up from 1, and end a sentence with a blank line",
    ),
    ([row(1, "a"), row(2, "b", 1), row(1, "c")], 3, "id '1' where 3 should follow"),
    ([row("x", "a")], 1, "id 'x' where 1 should follow"),
    ([row(1, "a"), surface("3.1", "b")], 2, r"id '3\.1' where 2 should follow"),
    ([row("9" * 5000, "a")], 1, r"id '9+\.\.\.' where 1 should follow"),
    ([surface("2-3", "ab"), row(1, "a")], 1, "id '2-3' where 1 should follow"),
    (
        [surface("1-2", "ab"), surface("1-3", "ab"), row(1, "a")],
        2,
        "multi-word token '1-3' is empty or begins in another",
    ),
    ([row(1, "a"), surface("2-1", "ab")], 2, "multi-word token '2-1' is empty or begins in another; correct its id"),
    (
        [surface("1-3", "ab"), row(1, "a"), row(2, "b", 1)],
        1,
        "multi-word token '1-3' goes on after the sentence; correct its id",
    ),
    ([surface("0.1", "ab")], 1, "no word in the sentence; delete it"),
    (
        [row(1, "a"), row(2, "b", "two")],
        2,
        "head must be the number of another word, up to 2, or 0 for the root, got 'two'",
    ),
    ([row(1, "a"), row(2, "b", 3)], 2, "head must be .* up to 2, .* got '3'; correct it"),
    ([row(1, "a"), row(2, "b", 2)], 2, "head must be the number of another word, .* got '2'"),
    ([row(1, "a"), row(2, "b", -1)], 2, "head must be .* got '-1'"),
    ([row(1, "a"), row(2, "b", "_")], 2, "head must be .* got '_'"),
    ([row(1, "a"), row(2, "b", "7" * 5000)], 2, r"head must be .* got '7+\.\.\.'"),
    (
        [row(1, "a"), row(2, "b", 1, upos="CONJ")],
        2,
        "part of speech 'CONJ' is not universal; expected _ or one of ADJ, ADP",
    ),
    (
        ["# text = a c", row(1, "a"), row(2, "b", 1)],
        3,
        r"form 'b' is not what comes next in the text \('c'\); correct the comment",
    ),
    (
        ["# text = a b c", row(1, "a"), row(2, "b", 1)],
        3,
        r"the text goes on after the last form \('c'\); .* or delete it",
    ),
]


@pytest.mark.parametrize(("lines", "number", "message"), BAD, ids=[message[:40] for _, _, message in BAD])
def test_a_bad_line_is_named(lines: list[str], number: int, message: str, tmp_path: Path) -> None:
    content = "\n".join(["# sent_id = 0", row(1, "Fine"), "", *lines]) + "\n\n"
    with pytest.raises(BrokenSentenceError, match=rf"some\.conllu, line {number + 3}: .*{message}") as caught:
        read(tmp_path, content)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value), "what to do"


def test_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"some\.conllu, line 3: not valid UTF-8 \(byte 0xe9 .*\); save the file as UTF-8"
    ):
        read(tmp_path, f"{row(1, 'a')}\n\n".encode() + row(1, "é").encode("latin-1"))


def test_no_file_and_no_sentences(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^treebank .*nowhere\.conllu cannot be read \(No such file or directory\)"):
        list(read_conllu(tmp_path / "nowhere.conllu"))
    for content in ("", "\n\n", "# text = only\n"):
        with pytest.raises(UserError, match=r"some\.conllu: no sentences; expected a CoNLL-U file"):
            read(tmp_path, content)


def test_broken_sentences_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "some.conllu").write_text("\n".join([row(1, "a"), "", "nonsense", "", row(1, "b", 5), "", *CATS]))
    broken: list[BrokenSentenceError] = []
    assert [sentence.text for sentence in read_conllu(tmp_path / "some.conllu", broken=broken)] == [
        "a",
        "The cats Sat.",
    ]
    assert [str(error).split(": ")[0].split(", ")[-1] for error in broken] == ["line 3", "line 5"]
    (tmp_path / "some.conllu").write_text("nonsense")
    with pytest.raises(UserError, match=r"no sentences \(1 broken ones left out\)"):
        list(read_conllu(tmp_path / "some.conllu", broken=[]))


forms = st.text("aé'.-👍", min_size=1, max_size=5)


@settings(max_examples=80, deadline=None)
@given(
    words=st.lists(st.tuples(forms, st.booleans(), st.integers(0, 99)), min_size=1, max_size=8), with_text=st.booleans()
)
def test_words_lie_where_they_were_written(
    words: Any, with_text: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Check random forms, blanks and heads, written out and read back."""
    heads = [number % (len(words) + 1) for _, _, number in words]
    heads = [0 if head == index else head for index, head in enumerate(heads, start=1)]
    rows = [
        row(index, form, head, "dep", misc="_" if blank else "A=b|SpaceAfter=No")
        for index, ((form, blank, _), head) in enumerate(zip(words, heads, strict=True), start=1)
    ]
    text = "".join(form + " " * blank for form, blank, _ in words).rstrip()
    sentence = read_one(tmp_path_factory.mktemp("written"), *([f"# text = {text}"] if with_text else []), *rows)
    assert (sentence.text, covered(sentence)) == (text, [form for form, _, _ in words])
    assert sentence.words.head == tuple(head - 1 if head else index for index, head in enumerate(heads))


# --- the real thing ---


@pytest.mark.skipif(not TREEBANK.is_dir(), reason="needs UD English EWT in ../shared/data/treebank")
@pytest.mark.parametrize(("name", "sentences", "words"), [("dev", 2001, 25147), ("test", 2077, 25094)])
def test_every_word_of_english_ewt_lies_on_its_form(name: str, sentences: int, words: int) -> None:
    path = TREEBANK / f"en_ewt-ud-{name}.conllu"
    found = list(read_conllu(path))
    assert (len(found), sum(len(sentence.words) for sentence in found)) == (sentences, words)
    texts = [line.removeprefix("# text = ") for line in path.read_text().split("\n") if line.startswith("# text = ")]
    assert [sentence.text for sentence in found] == texts
    assert all(covered(sentence) == list(sentence.forms) for sentence in found), (
        "multi-word tokens divide without a rest too"
    )
    assert all(sentence.words.relation.count("root") == 1 for sentence in found)
