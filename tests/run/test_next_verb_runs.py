"""A language model asked for the verb through the command: its answers, its explanations, and what is refused."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from effective_attention.errors import UserError
from effective_attention.run.experiment import evaluate, train
from helpers.decoders import write_decoder

ROWS = (
    "the old cat with the dogs is on the mat\t2\t6\tVBZ\tis\tare",
    "the dogs are on the mat\t1\t2\tVBP\tare\tis",
    "a car that the men drove was red\t1\t6\tVBZ\twas\twere",
    "the dogs zigzag\t1\t2\tVBP\tzigzag\tzigzags",
    "why have profits\t0\t1\tVBP\thave\thas",
)
HEADER = "sentence\tsubj_idx\tverb_idx\tverb_pos\tverb\tinflected_verb\n"
QUICK = ("analysis.faithfulness.methods=[raw,rollout,gradient_x_input,value_zeroing]", "data.batch_size=3")
ASKED = ("head=verb", "task=agreement", "attention=both", "data.max_length=64")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("decoder"), "llama", with_head=True)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EFFECTIVE_ATTENTION_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "linzen_test.tsv").write_text(HEADER + "\n".join(ROWS) + "\n", encoding="utf-8")
    return folder


def named(place: Path) -> tuple[str, ...]:
    return ("model=bert_base", f"model.name={place}")


@torch.no_grad()
def answers_by_hand(place: Path) -> list[float]:
    """Return the probability of plural, of the two, text by text; the forms of *zigzag* begin alike."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(place).eval(), AutoTokenizer.from_pretrained(place)
    found = []
    for row in (row.split("\t") for row in ROWS if "zigzag" not in row):
        text = " ".join(row[0].split(" ")[: int(row[2])])
        forms = row[4:] if row[3] == "VBZ" else row[:3:-1]
        ids = tokenizer(text)["input_ids"]
        chances = model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(dim=-1)
        both = torch.stack([chances[tokenizer(f"{text} {form}")["input_ids"][len(ids)]] for form in forms])
        found.append(float(both.softmax(dim=0)[1]))
    return found


def test_from_the_folder_to_the_report(
    place: Path, files: Path, composer: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = ("data=local", f"data.dir={files}", "split=test")
    cfg = composer("evaluate", tmp_path, *named(place), *ASKED, *data, "analysis=[number_flip,faithfulness]", *QUICK)
    with caplog.at_level(logging.INFO, logger="effective_attention"):
        metrics = evaluate(cfg)
    assert "left out of 5 sentences: 1 whose verb begins with the same token in both numbers, 0 that are" in caplog.text
    assert "mean nothing" not in caplog.text
    assert (metrics["run/head"], metrics["data/test/left_out"], metrics["data/test/examples"]) == ("verb", 1, 4)
    expected = answers_by_hand(place)
    plural = [False, True, False, True]
    right = [(chance > 0.5) == one for chance, one in zip(expected, plural, strict=True)]
    for attention in ("standard", "effective"):
        assert metrics[f"test/{attention}/accuracy"] == pytest.approx(sum(right) / 4)
    tables = {path.stem: pd.read_parquet(path) for path in (Path(cfg.run_dir) / "tables").glob("*.parquet")}
    chances = [max(chance, 1 - chance) for chance in expected]
    assert tables["predictions"]["probability"].tolist() == pytest.approx(chances, abs=1e-5)
    flips = tables["number_flip"].query("quantity == 'flips' and group == 'all'").set_index("word")["count"]
    assert flips.to_dict() == {"subject": 3, "attractor": 2}  # *why* has no other number; *dogs* and *men* have
    (accuracy,) = tables["number_flip"].query("quantity == 'accuracy'")["value"]
    assert accuracy == pytest.approx(sum(right) / 4)
    found = tables["faithfulness"]
    assert set(found["method"]) == {"raw", "rollout", "gradient_x_input", "value_zeroing"}
    assert set(found.loc[found["measure"] == "subject_first", "count"]) == {2}
    assert json.loads((Path(cfg.run_dir) / "metrics.json").read_text())["run/head"] == "verb"


def test_exchanged_texts_are_asked_for_the_same_verb(
    place: Path, files: Path, composer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from effective_attention.models.next_verb import NextVerb

    seen: list[tuple[list[int], list[int]]] = []
    forward = NextVerb.forward

    def watch(self: Any, input_ids: Any, attention_mask: Any = None, verb_ids: Any = None, **more: Any) -> Any:
        if verb_ids is not None:
            real = attention_mask.bool()
            seen.extend(
                (ids[on].tolist(), verb.tolist()[0]) for ids, on, verb in zip(input_ids, real, verb_ids, strict=True)
            )
        return forward(self, input_ids, attention_mask, verb_ids, **more)

    watch.__signature__ = __import__("inspect").signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(NextVerb, "forward", watch)
    data = ("data=local", f"data.dir={files}", "split=test")
    evaluate(composer("evaluate", tmp_path, *named(place), *ASKED, *data, "analysis=number_flip"))
    tokenizer = AutoTokenizer.from_pretrained(place)
    asked = {tokenizer.decode(ids, skip_special_tokens=True): tokenizer.decode(verb) for ids, verb in seen}
    assert asked["the old cats with the dogs"] == asked["the old cat with the dogs"] == " is are"
    assert asked["the old cat with the dog"] == " is are"
    assert asked["a cars that the men drove"] == asked["a car that the man drove"] == " was were"


def test_the_grammar_and_a_text_of_the_users(place: Path, composer: Callable[..., Any], tmp_path: Path) -> None:
    options = (*named(place), *ASKED, "data.limit_eval=6")
    metrics = evaluate(composer("evaluate", tmp_path / "a", *options, "analysis=faithfulness", *QUICK))
    assert metrics["run/note"].endswith(
        f"evaluate.py model.name={place} head=verb task=agreement data=local data.dir=<folder>"
    )
    own = (*named(place), *ASKED, "text='the dogs that the old cat saw'", "analysis=explain")
    metrics = evaluate(composer("evaluate", tmp_path / "b", *own))
    assert metrics["text/predicted"] in ("singular", "plural")


def test_a_random_head_is_told_of_the_other_way(
    place: Path, composer: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="effective_attention"):
        evaluate(composer("evaluate", tmp_path, *named(place), "task=agreement", "data.limit_eval=2"))
    assert "scores mean nothing; a causal language model can be asked as it is: head=verb" in caplog.text


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("train", ["task=agreement"], r"head=verb has nothing to train: it asks a language model as it is; use"),
        ("evaluate", ["task=sst2"], r"head=verb answers with a verb's number; add task=agreement, got task=sst2"),
        ("evaluate", ["task=text"], r"head=verb answers with a verb's number; add task=agreement, got task=text"),
        ("evaluate", ["task=agreement", "checkpoint={place}"], r"head=verb .* not a classifier; leave checkpoint= out"),
        ("evaluate", ["task=agreement", "model=tiny"], r"head=verb asks a language model, and model tiny has random"),
        ("evaluate", ["task=agreement", "head=verbs"], r"head must be (one of )?classifier(,| or) verb, got '?verbs"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    command: str, options: list[str], message: str, place: Path, composer: Callable[..., Any], tmp_path: Path
) -> None:
    given = [option.format(place=place) for option in options]
    model = () if "model=tiny" in options else named(place)
    cfg = composer(command, tmp_path, *model, "head=verb", *given)
    run = train if command == "train" else evaluate
    with pytest.raises(UserError, match=message) as caught:
        run(cfg)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("metrics.json"))
