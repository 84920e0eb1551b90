"""A masked pronoun: its candidates' probabilities and its attention to the referents, on random models."""

import dataclasses
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, PreTrainedTokenizerFast

from effective_attention.analyses.attention_graph import AttentionGraph
from effective_attention.analyses.common.base import OtherModels, UserText
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.pronouns import SCHEMA, Pronouns, read_sentence
from effective_attention.attention.trace import trace
from effective_attention.errors import UserError
from effective_attention.models.encoders import PretrainedEncoder, TinyEncoder
from effective_attention.run.cli import explain
from effective_attention.run.options.texts import quoted

pytestmark = pytest.mark.filterwarnings("ignore:The ``compute`` method")  # there is nothing to update with

TEXT = "The author talked to Sara about [MASK] book ."
OPTIONS = {"text": TEXT, "candidates": ["his", "her"], "referents": ["author", "Sara"]}


@pytest.fixture(scope="module")
def masked_lm():
    torch.manual_seed(0)
    model = TinyEncoder().masked_lm().eval()
    with torch.no_grad():  # a random model's attention and answers are nearly even; make them worth looking at
        for name, weight in model.named_parameters():
            if "query" in name or "key" in name or "word_embeddings" in name:
                weight.mul_(8)
    return model


@pytest.fixture
def own(context, masked_lm):
    return dataclasses.replace(context, models=OtherModels(masked_lm=lambda: masked_lm))


def answer(own, **changes):
    return Pronouns(**OPTIONS | changes).setup(own).compute()


def value(table, **where):
    for column, wanted in where.items():
        table = table[table[column] == wanted]
    assert len(table) == 1
    return table["value"].item()


# --- what is found ---


def test_probabilities_are_the_models_at_the_gap(own, masked_lm):
    table = answer(own)
    inputs = own.tokenizer(TEXT, return_tensors="pt")
    place = inputs["input_ids"][0].tolist().index(own.tokenizer.mask_token_id)
    with torch.no_grad():
        expected = masked_lm(**inputs).logits[0, place].double().softmax(dim=-1)
    his, her = (expected[own.tokenizer.convert_tokens_to_ids(word)].item() for word in ("his", "her"))
    assert value(table, quantity="probability", name="his") == pytest.approx(his, rel=1e-5)
    assert value(table, quantity="relative_probability", name="her") == pytest.approx(her / (his + her), rel=1e-5)
    chances = table[table["quantity"] != "attention"]
    assert chances[["attention", "method", "layer"]].isna().all(axis=None)


def test_attention_is_that_of_the_gap_summed_over_a_referents_sub_tokens(own, masked_lm):
    text = "The antidisestablishmentarian talked to Sara about [MASK] book ."
    words = ["antidisestablishmentarian", "Sara"]
    inputs = own.tokenizer(text, return_tensors="pt")
    tokens = inputs.tokens()
    pieces = {
        words[0]: [place for place, word in enumerate(inputs.word_ids()) if word == 1],
        "Sara": [tokens.index("sara")],
    }
    assert len(pieces[words[0]]) > 2
    row = tokens.index("[MASK]")
    shown = dataclasses.replace(own, text=UserText(("a text",), trace(masked_lm, inputs)))
    for options in ({}, {"residual": 0.2, "convention": "positive"}):
        graph = AttentionGraph(row=row, **options).setup(shown).compute()
        graph = graph[graph["query"] == row]
        table = answer(own, text=text, referents=words, **options)
        rows = table[table["quantity"] == "attention"]
        assert len(rows) == 2 * 3 * 2 * 2
        for _, line in rows.iterrows():
            mine = graph[(graph["attention"] == line["attention"]) & (graph["method"] == line["method"])]
            mine = mine[(mine["layer"] == line["layer"]) & mine["key"].isin(pieces[line["name"]])]
            assert line["value"] == pytest.approx(mine["value"].sum(), rel=1e-5)


def test_the_split_is_not_read_and_the_table_says_what_it_is_about(subject, own, monkeypatch):
    analysis = Pronouns(**OPTIONS).setup(own)
    assert not analysis.wants([0])
    monkeypatch.setattr(type(subject), "trace", lambda *_: pytest.fail("read the split"))
    table = run_analyses(subject, {"a": analysis})["a"]
    SCHEMA.check(table, "pronouns")
    assert set(table["text"]) == {TEXT}
    assert (set(table["checkpoint"]), set(table["reading"]), set(table["convention"])) == (
        {""},
        {"exact"},
        {"absolute"},
    )
    assert str(table["layer"].dtype) == "Int64"


def test_referents_are_found_whatever_their_case_and_may_be_several_words(tokenizer):
    puzzle = read_sentence(
        tokenizer,
        "The city councilmen met sara about [MASK] book.",
        ["his"],
        ["City Councilmen", "SARA"],
        max_length=64,
    )
    tokens = tokenizer.convert_ids_to_tokens(puzzle.inputs["input_ids"][0].tolist())
    assert [tokens[place] for place in puzzle.referents["SARA"]] == ["sara"]
    assert (
        "".join(tokens[place].removeprefix("##") for place in puzzle.referents["City Councilmen"]) == "citycouncilmen"
    )


def test_a_part_of_a_word_is_no_referent(tokenizer):
    puzzle = read_sentence(tokenizer, "Sarah met Sara and [MASK] dog.", ["his"], ["Sara"], max_length=64)
    tokens = tokenizer.convert_ids_to_tokens(puzzle.inputs["input_ids"][0].tolist())
    assert puzzle.referents["Sara"] == [tokens.index("sara")] == [3]


def test_a_referent_that_occurs_twice_is_taken_at_its_first_place_and_told(tokenizer, caplog):
    with caplog.at_level(logging.WARNING):
        puzzle = read_sentence(tokenizer, "Sara met Sara and [MASK] dog.", ["his"], ["Sara"], max_length=64)
    assert puzzle.referents["Sara"] == [1]
    assert "'Sara' occurs 2 times in the text; its first place is used" in caplog.text


@pytest.fixture
def spaced():
    """A tokenizer in RoBERTa's way: its mask is <mask>, and the space in front of a word belongs to the token."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    words = [
        "<s>",
        "<unk>",
        "<mask>",
        "Sara",
        "\u0120met",
        "\u0120Ann",
        "\u0120and",
        "\u0120his",
        "\u0120her",
        "\u0120dog",
        "his",
    ]
    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    mask = AddedToken("<mask>", lstrip=True, special=True)
    return PreTrainedTokenizerFast(tokenizer_object=made, mask_token=mask, unk_token="<unk>", bos_token="<s>")


@pytest.mark.parametrize("gap", ["[MASK]", "<mask>"])
def test_the_tokenizers_own_mask_and_the_space_in_front(spaced, gap):
    puzzle = read_sentence(spaced, f"Sara met Ann and {gap} dog", ["his", "her"], ["Sara", "Ann"], max_length=64)
    assert puzzle.inputs["input_ids"][0].tolist()[puzzle.mask] == spaced.mask_token_id
    assert puzzle.candidates == {"his": 7, "her": 8}
    assert puzzle.referents == {"Sara": [0], "Ann": [2]}


# --- what is refused ---


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": None}, r"analysis pronouns needs a text; for example: text="),
        ({"text": "  "}, r"analysis pronouns needs a text"),
        ({"text": "She met Sara and the author."}, r"text must have one \[MASK\], found 0; for example"),
        ({"text": "[MASK] met Sara , author of [MASK] book"}, r"text must have one \[MASK\], found 2"),
        ({"text_pair": "It rained."}, r"text_pair is given too; put both sentences into text"),
        ({"candidates": None}, r"candidates must be a list of at least one word, got None; for example"),
        ({"candidates": []}, r"candidates must be a list of at least one word, got \[\]"),
        ({"candidates": "his"}, r"candidates must be a list of at least one word, got 'his'"),
        ({"candidates": ["his", " "]}, r"candidates must be different words, none of them empty"),
        ({"candidates": ["his", "his"]}, r"candidates must be different words"),
        ({"candidates": ["his", "His"]}, r"candidates: 'His' is the same vocabulary entry as one before it"),
        (
            {"candidates": ["his", "antidisestablishmentarian"]},
            r"'antidisestablishmentarian' is not one entry of the tokenizer's",
        ),
        ({"candidates": ["his", "\u4e00\u4e01\u4e02"]}, r"is not one entry of the tokenizer's vocabulary"),
        ({"candidates": ["\U0001f9ff"]}, r"is not one entry of the tokenizer's vocabulary"),
        ({"candidates": ["[MASK]"]}, r"'\[MASK\]' is not one entry of the tokenizer's vocabulary"),
        ({"referents": None}, r"referents must be a list of at least one word, got None"),
        (
            {"referents": ["author", "Mary"]},
            r"'Mary' is not in the text; its words are The, author, talked, to, Sara, about, book",
        ),
        ({"referents": ["[MASK]"]}, r"'\[MASK\]' is not in the text"),
        ({"residual": "half"}, r"analysis\.pronouns\.residual must be a number from 0 to 1, got 'half'"),
        ({"convention": None}, r"analysis\.pronouns\.convention must be one of absolute, positive, got None"),
        ({"text": "Sara , author : [MASK]" + " word" * 80}, r"text has 87 tokens, more than data\.max_length=64"),
    ],
)
def test_bad_input(own, changes, message):
    with pytest.raises(UserError, match=message) as caught:
        Pronouns(**OPTIONS | changes).setup(own)
    assert "\n" not in str(caught.value)


def test_no_masked_language_model_at_all(context):
    with pytest.raises(UserError, match=r"needs a masked language model; run it with evaluate\.py"):
        Pronouns(**OPTIONS).setup(context)


def test_a_tokenizer_without_a_mask(own, tokenizer):
    from copy import deepcopy

    plain = deepcopy(tokenizer)
    plain.mask_token = None
    with pytest.raises(UserError, match="needs a fast tokenizer with a mask token"):
        Pronouns(**OPTIONS).setup(dataclasses.replace(own, tokenizer=plain))


def test_the_embedded_model_has_no_such_head(context):
    encoder = PretrainedEncoder("minilm")
    with pytest.raises(
        UserError, match=r"model minilm has no masked-language-model head .*add model=bert_base or model\.name="
    ):
        Pronouns(**OPTIONS).setup(dataclasses.replace(context, models=OtherModels(masked_lm=encoder.masked_lm)))


# --- the hub's layout, and the command ---


@pytest.mark.parametrize("architecture", [BertForMaskedLM, BertForPreTraining])
def test_a_folder_as_the_hub_lays_it_out(architecture, tokenizer, context, tmp_path):
    """bert-base-uncased is saved as BertForPreTraining."""
    torch.manual_seed(3)
    config = BertConfig(num_hidden_layers=3, num_attention_heads=2, hidden_size=16, intermediate_size=16)
    saved = architecture(config).eval()
    saved.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = PretrainedEncoder(str(tmp_path))
    own = dataclasses.replace(context, models=OtherModels(masked_lm=encoder.masked_lm), tokenizer=encoder.tokenizer())
    table = answer(own)
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        output = saved(**inputs)
    logits = output.get("logits", output.get("prediction_logits"))
    place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    expected = logits[0, place].double().softmax(dim=-1)[tokenizer.convert_tokens_to_ids("his")].item()
    assert value(table, quantity="probability", name="his") == pytest.approx(expected, rel=1e-5)
    assert set(table["layer"].dropna()) == {0, 1, 2}


COMMAND = ["analysis=pronouns", quoted(f"text={TEXT}"), "candidates=[his,her]", "referents=[author,Sara]"]


def test_through_the_command(compose, tmp_path: Path):
    from effective_attention.run.experiment import evaluate

    found = []
    for name in ("one", "two"):
        evaluate(compose("evaluate", *COMMAND, f"run_dir={tmp_path / name}"))
        found.append(pd.read_parquet(tmp_path / name / "tables" / "pronouns.parquet"))
    np.testing.assert_array_equal(found[0]["value"], found[1]["value"])  # a random model, but drawn from the seed
    assert list(found[0].columns[:6]) == ["task", "model", "data", "split", "checkpoint", "examples"]
    assert not found[0].columns.duplicated().any()
    assert (tmp_path / "one" / "figures" / "pronouns.png").exists()
    assert "The author talked to Sara" in (tmp_path / "one" / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["analysis=pronouns"], "analysis pronouns needs a text"),
        ([*COMMAND[:2], "referents=[author]"], "candidates must be a list"),
        ([*COMMAND[:3], "referents=[Mary]"], "'Mary' is not in the text; its words are The, author"),
        ([*COMMAND, "model=minilm"], "model minilm has no masked-language-model head"),
    ],
)
def test_bad_options_are_one_line_and_leave_nothing(compose, tmp_path: Path, options, message):
    from effective_attention.run.experiment import evaluate

    with pytest.raises(UserError) as caught:
        evaluate(compose("evaluate", *options))
    assert message in str(explain(caught.value))
    assert not (tmp_path / "run").exists()
