"""The embedded tagger knows its words, another spaCy pipeline can replace it, and mistakes are explained in a line."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from effective_attention.data.annotation import pipelines
from effective_attention.data.annotation.__main__ import main
from effective_attention.data.annotation.scoring import Sentence, join, read_treebank, scores
from effective_attention.data.annotation.tagging import UPOS, EmbeddedTagger, SpacyTagger, TaggedText
from effective_attention.errors import UserError
from helpers.paths import TREEBANK

TEST_SPLIT = TREEBANK / "en_ewt-ud-test.conllu"
CONLLU = """\
# newdoc id = one
# text = I don't.
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tVERB\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_

# newdoc id = two
1\tNo\tno\tINTJ\tUH\t_\t0\troot\t_\t_
"""


@pytest.fixture(scope="module")
def embedded() -> EmbeddedTagger:
    return EmbeddedTagger()


def words(text: str, tagged: TaggedText) -> list[str]:
    return [text[start:end] for start, end in zip(tagged.start, tagged.end, strict=True)]


# --- the embedded tagger ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The boy sat on the table.", "DET NOUN VERB ADP DET NOUN PUNCT"),
        ("She gave him two old books yesterday.", "PRON VERB PRON NUM ADJ NOUN NOUN PUNCT"),
        ("I don't know why they left London.", "PRON AUX PART VERB ADV PRON VERB PROPN PUNCT"),
        ("the company sold its shares and paid the workers", "DET NOUN VERB PRON NOUN CCONJ VERB DET NOUN"),
    ],
)
def test_plain_sentences(text: str, expected: str, embedded: EmbeddedTagger) -> None:
    (tagged,) = embedded.tag([text])
    assert " ".join(tagged.upos) == expected


def test_tree_and_tags(embedded: EmbeddedTagger) -> None:
    text = "The dog chased a small cat."
    (tagged,) = embedded.tag([text])
    assert words(text, tagged) == ["The", "dog", "chased", "a", "small", "cat", "."]
    assert tagged.head == (1, 2, 2, 5, 5, 2, 2)
    assert tagged.relation == ("det", "nsubj", "root", "det", "amod", "obj", "punct")
    assert tagged.xpos == ("DT", "NN", "VBD", "DT", "JJ", "NN", ".")


def test_several_sentences_have_a_root_each(embedded: EmbeddedTagger) -> None:
    (tagged,) = embedded.tag(["The dog barked. The cat ran away. We were not amused."])
    assert tagged.relation.count("root") == 3
    assert sum(head == index for index, head in enumerate(tagged.head)) == 3


@pytest.mark.parametrize("text", ["", "  \n ", " Two  blanks\nand\ta tab ", "naïve café 👍🏽!", "I cannot", "a" * 3000])
def test_words_are_where_they_say_and_no_blanks(text: str, embedded: EmbeddedTagger) -> None:
    (tagged,) = embedded.tag([text])
    assert "".join(words(text, tagged)) == "".join(text.split())
    assert not any(word.isspace() for word in words(text, tagged))
    assert set(tagged.upos) <= set(UPOS)
    assert all(0 <= head < len(tagged) for head in tagged.head)


def test_blanks_inside_contractions(embedded: EmbeddedTagger) -> None:
    text = "They didn 't know that I 'm John 's friend."
    (loose,), (tight,) = embedded.tag([text]), embedded.tag([text.replace(" '", "'")])
    assert words(text, loose) == ["They", "did", "n 't", "know", "that", "I", "'m", "John", "'s", "friend", "."]
    assert loose.upos == tight.upos
    assert (loose.upos[1], loose.upos[2], loose.upos[6]) == ("AUX", "PART", "AUX")


def test_a_text_is_tagged_the_same_among_others(embedded: EmbeddedTagger) -> None:
    texts = ["The dog barked.", "", "It is raining, and nobody seems to care.", "The dog barked."]
    assert embedded.tag(texts) == [embedded.tag([text])[0] for text in texts]
    assert embedded.tag([]) == []


def test_version_changes_with_the_weights(
    embedded: EmbeddedTagger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "weights"
    shutil.copytree(pipelines.EMBEDDED_FOLDER, folder)
    monkeypatch.setattr(pipelines, "EMBEDDED_FOLDER", folder)
    assert EmbeddedTagger().version == embedded.version
    with (folder / "tagger" / "model").open("ab") as file:
        file.write(b"x")
    assert EmbeddedTagger().version != embedded.version


def test_the_embedded_pipeline_is_loaded_once(embedded: EmbeddedTagger) -> None:
    assert EmbeddedTagger().nlp is embedded.nlp


@pytest.mark.parametrize("part", ["config.cfg", "tok2vec/model", "parser/moves"])
def test_damaged_weights_are_one_line(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "weights"
    shutil.copytree(pipelines.EMBEDDED_FOLDER, folder)
    (folder / part).write_bytes(b"nonsense")
    monkeypatch.setattr(pipelines, "EMBEDDED_FOLDER", folder)
    with pytest.raises(
        UserError, match=r"^embedded tagger \S+ is damaged \(.*\); reinstall effective-attention$"
    ) as caught:
        EmbeddedTagger().tag(["a"])
    assert "\n" not in str(caught.value)


def test_weights_are_small_and_come_with_their_licence() -> None:
    assert sum(path.stat().st_size for path in pipelines.EMBEDDED_FOLDER.rglob("*")) < 9e6
    sheet = (pipelines.EMBEDDED_FOLDER.parent / "DATASHEET.md").read_text()
    assert "CC BY-SA 4.0" in sheet
    assert "Universal Dependencies" in sheet


# --- other pipelines ---


def test_any_pipeline_in_a_folder(embedded: EmbeddedTagger) -> None:
    other = SpacyTagger(str(pipelines.EMBEDDED_FOLDER))
    text = "The dog chased a cat."
    assert other.tag([text]) == embedded.tag([text])
    assert other.version.endswith("1.0.0")


def test_a_missing_pipeline_says_how_to_install_it() -> None:
    with pytest.raises(
        UserError, match=r"^tagger\.name=en_core_web_none is neither .* `python -m spacy download en_core_web_none`"
    ):
        SpacyTagger("en_core_web_none").tag(["a"])


def test_a_pipeline_that_does_not_tag_is_refused(tmp_path: Path) -> None:
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "blank")
    with pytest.raises(
        UserError,
        match=r"sets no parts of speech and no dependencies \(it has: sentencizer\); choose one with a tagger",
    ):
        SpacyTagger(str(tmp_path / "blank")).tag(["a"])


def test_a_folder_that_is_no_pipeline(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^tagger\.name=\S+ cannot be loaded \(.*\); reinstall it"):
        SpacyTagger(str(tmp_path)).tag(["a"])


def test_foreign_tags_become_x() -> None:
    import spacy
    from spacy.tokens import Doc

    doc = Doc(spacy.blank("en").vocab, words=["a", "b"], pos=["CONJ", "NOUN"], heads=[1, 1], deps=["DEP", "ROOT"])
    tagged = pipelines._tagged(doc, (0, 2), (1, 3))
    assert (tagged.upos, tagged.relation) == (("X", "NOUN"), ("dep", "root"))


# --- treebanks ---


def test_read_treebank(tmp_path: Path) -> None:
    (tmp_path / "some.conllu").write_text(CONLLU)
    (first, second), (third,) = read_treebank(tmp_path / "some.conllu")
    assert (first.words, first.heads) == (("I", "do", "n't", "."), (1, 1, 1, 1))
    assert (first.upos, first.xpos) == (("PRON", "VERB", "PART", "PUNCT"), ("PRP", "VBP", "RB", "."))
    assert first.relations == ("nsubj", "root", "advmod", "punct")
    assert (second.words, third.words) == (("Go",), ("No",))
    joined = join([first, second, third])
    assert joined.words == ("I", "do", "n't", ".", "Go", "No")
    assert joined.heads == (1, 1, 1, 1, 4, 5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\tI\tI\n", r"some\.conllu, line 1: 3 columns"),
        (CONLLU.replace("\t2\tnsubj", "\ttwo\tnsubj"), r"some\.conllu, line 3: the head must be"),
        ("", r"some\.conllu: no sentences; expected a CoNLL-U file"),
    ],
    ids=["columns", "no number", "empty"],
)
def test_what_is_no_treebank(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "some.conllu").write_text(content)
    with pytest.raises(UserError, match=message):
        read_treebank(tmp_path / "some.conllu")


def test_command(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "some.conllu").write_text(CONLLU)
    main(["--treebank", str(tmp_path / "some.conllu")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "embedded on some.conllu, gold words"
    assert lines[2].split() == ["UPOS", "XPOS", "UAS", "LAS"]
    assert [line[:28].strip() for line in lines[3:]] == [
        "one sentence a text", "… without punctuation", "… in lower case", "up to five sentences a text",
    ]  # fmt: skip
    with pytest.raises(SystemExit, match=r"^error: treebank nowhere cannot be read"):
        main(["--treebank", "nowhere"])


def test_scores_by_hand() -> None:
    import spacy
    from spacy.language import Language
    from spacy.tokens import Doc

    @Language.component("half_right")
    def half_right(doc: Doc) -> Doc:
        tags = {"pos": ["NOUN", "VERB", "PUNCT"], "tags": ["X", "V", "."]}
        return Doc(doc.vocab, words=["a", "b", "."], heads=[1, 1, 0], deps=["obj", "ROOT", "punct"], **tags)

    nlp = spacy.blank("en")
    nlp.add_pipe("half_right")
    gold = Sentence(("a", "b", "."), ("NOUN", "NOUN", "PUNCT"), ("N", "N", "."), (1, 1, 1), ("nsubj", "root", "punct"))
    assert scores(nlp, [gold]) == pytest.approx({"UPOS": 2 / 3, "XPOS": 1 / 3, "UAS": 2 / 3, "LAS": 1 / 3})
    assert scores(nlp, [gold], punctuation=False) == pytest.approx({"UPOS": 0.5, "XPOS": 0.0, "UAS": 1.0, "LAS": 0.5})


@pytest.mark.skipif(not TEST_SPLIT.is_file(), reason="needs UD English EWT in ../shared/data/treebank")
def test_the_embedded_tagger_on_the_treebanks_test_split(embedded: EmbeddedTagger) -> None:
    found = scores(embedded.nlp, [sentence for document in read_treebank(TEST_SPLIT) for sentence in document])
    assert found["UPOS"] >= 0.94
    assert found["UAS"] >= 0.84
