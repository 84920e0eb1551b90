"""Analyses of a model that reads one text and writes another: its encoder, its decoder, its cross-attention."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from effective_attention import analyse
from effective_attention.analyses.common.registry import analysis_names, find_analysis
from effective_attention.analyses.distance import Distance
from effective_attention.analyses.entropy import Entropy
from effective_attention.analyses.heatmap import Heatmap
from effective_attention.analyses.null_space import NullSpace
from effective_attention.analyses.variability import Variability
from effective_attention.attention.trace import trace
from effective_attention.data.targets import decoder_ids, encode_targets
from helpers.writers import build_writer, reading_tokenizer

TEXTS = ["A cat sat on the mat, and nobody minded at all.", "It purred.", "Then the dog came in and barked loudly."]
TARGETS = ["Eine Katze sat.", "It purred and purred, over and over again!", "A dog barked."]


@pytest.fixture(scope="module")
def words(tokenizer: Any) -> Any:
    return reading_tokenizer(tokenizer)


@pytest.fixture(scope="module", params=["t5", "bart"])
def model(request: pytest.FixtureRequest, words: Any) -> Any:
    return build_writer(request.param, len(words))


def alone(model: Any, words: Any, stack: Any) -> list[Any]:
    """Trace each text by itself, without padding."""
    ids = decoder_ids(model, words, TARGETS, None)
    pairs = zip(TEXTS, ids, strict=True)
    return [
        trace(
            model,
            {"input_ids": torch.tensor([words(text).input_ids]), "decoder_input_ids": torch.tensor([row])},
            stack=stack,
        )
        for text, row in pairs
    ]


def run(model: Any, words: Any, analysis: Any, stack: Any, **options: Any) -> pd.DataFrame:
    tables = analyse(model, words, TEXTS, [analysis], stack=stack, targets=TARGETS, progress=False, **options)
    return next(iter(tables.values()))


def test_a_target_starts_as_the_model_says(model: Any, words: Any) -> None:
    rows = decoder_ids(model, words, TARGETS, None)
    whole = words(TARGETS).input_ids
    for row, ids in zip(rows, whole, strict=True):
        assert row == [model.config.decoder_start_token_id, *ids[:-1]]
    encoded, annotated = encode_targets(model, words, TARGETS, 6)
    assert encoded.lengths.max() == 6
    assert encoded.truncated.tolist() == [len(row) > 6 for row in rows]
    assert annotated.offsets.tolist() == encoded.offsets.tolist()


def test_marks_and_special_tokens_of_a_target_are_told_apart(words: Any) -> None:
    model = build_writer("t5", len(words))
    _, annotated = encode_targets(model, words, ["A cat , sat ."], 50)
    names = words.convert_ids_to_tokens(decoder_ids(model, words, ["A cat , sat ."], None)[0])
    kinds = [("word", "punctuation", "cls", "sep", "other special")[kind] for kind in annotated.kind]
    assert kinds[:2] == ["other special", "cls"]  # T5 starts with its padding token
    assert [name for name, kind in zip(names, kinds, strict=True) if kind == "punctuation"] == [",", "."]


@pytest.mark.parametrize("stack", ["decoder", "cross"])
def test_entropy_is_that_of_texts_run_one_by_one(model: Any, words: Any, stack: Any) -> None:
    table = run(model, words, Entropy(first_token=True), stack, batch_size=3)
    expected = []
    for seen in alone(model, words, stack):
        weights = seen.layers[1].attention[0, 1].double()
        expected += (-(weights * weights.clamp_min(1e-300).log()).sum(dim=-1)).tolist()
    row = table.query("attention == 'standard' and layer == 1 and head == 1 and statistic == 'entropy'")
    assert row["count"].item() == len(expected)
    assert row["value"].item() == pytest.approx(np.mean(expected), abs=1e-5)


def test_distance_of_the_decoder(model: Any, words: Any) -> None:
    table = run(model, words, Distance(special_tokens=True, first_token=True), "decoder")
    total = weight = 0.0
    for seen in alone(model, words, "decoder"):
        attention = seen.layers[0].part("effective")[0, 0].double().abs()
        places = torch.arange(len(attention))
        total += float((attention * (places[:, None] - places).abs()).sum())
        weight += float(attention.sum())
    row = table.query("attention == 'effective' and layer == 0 and head == 0")
    assert row["value"].item() == pytest.approx(total / weight, abs=1e-4)


def test_null_space_of_cross_attention_counts_the_keys(model: Any, words: Any) -> None:
    table = run(model, words, NullSpace(), "cross")
    assert set(table["reading"]) == {"exact"}
    keys = [len(ids) for ids in words(TEXTS).input_ids]
    assert set(table["length"].dropna()) == set(keys)
    by_head = table.query("layer == 0 and head == 1").set_index("quantity")["value"]
    assert by_head["rank"] == 4  # as wide as a head
    assert by_head["nullity"] == pytest.approx(np.mean(keys) - 4)
    correlations = []
    for seen in alone(model, words, "cross"):
        layer = seen.layers[0]
        pair = np.stack([layer.part(part)[0, 1].double().flatten() for part in ("standard", "effective")])
        correlations.append(np.corrcoef(pair)[0, 1])
    assert by_head["pearson"] == pytest.approx(np.mean(correlations), abs=1e-4)


def test_heatmap_of_cross_attention_has_both_texts(model: Any, words: Any) -> None:
    table = run(model, words, Heatmap(example=1), "cross")
    queries = table.drop_duplicates("query").sort_values("query")["query_token"].tolist()
    keys = table.drop_duplicates("key").sort_values("key")["key_token"].tolist()
    assert queries == words.convert_ids_to_tokens(decoder_ids(model, words, TARGETS, None)[1])
    assert keys == words.convert_ids_to_tokens(words(TEXTS[1]).input_ids)


def test_the_encoder_is_analysed_as_any_encoder(model: Any, words: Any) -> None:
    names = ["distance", "variability", "null_space", "delimiters"]
    one = analyse(model, words, TEXTS, names, stack="encoder", progress=False)
    other = analyse(model.get_encoder(), words, TEXTS, names, progress=False)
    for name in names:
        pd.testing.assert_frame_equal(one[name], other[name])


@pytest.mark.parametrize("stack", ["decoder", "cross"])
def test_every_analysis_that_says_so_reads_the_stack(words: Any, stack: Any) -> None:
    model = build_writer("bart", len(words))
    able = [name for name in analysis_names() if stack in find_analysis(name).stacks]
    assert {"entropy", "heatmap", "null_space"} <= set(able)
    tables = analyse(model, words, TEXTS, able, stack=stack, targets=TARGETS, progress=False)
    assert all(len(table) > 0 for table in tables.values())


def test_batches_do_not_matter(words: Any) -> None:
    model = build_writer("t5", len(words))
    one, three = (run(model, words, Variability(special_tokens=True), "decoder", batch_size=size) for size in (1, 3))
    pd.testing.assert_frame_equal(one, three, atol=1e-5, rtol=1e-4)


def test_what_cannot_be_is_said_in_one_line(words: Any, tokenizer: Any) -> None:
    model = build_writer("bart", len(words))

    def refused(what: str, names: Any = ("entropy",), **options: Any) -> None:
        with pytest.raises(ValueError, match=what) as caught:
            analyse(model, words, TEXTS, list(names), progress=False, **options)
        assert "\n" not in str(caught.value)

    refused(r'BartForConditionalGeneration reads one text .* choose stack="encoder", "decoder" or "cross"')
    refused("needs targets=.*, what is written for each of 3 texts", stack="cross")
    refused("needs targets=.*, what is written for each of 3 texts", stack="cross", targets=TARGETS[:2])
    refused("needs targets=", stack="decoder", targets=[(text, text) for text in TARGETS])
    refused("targets must be a list of texts", stack="decoder", targets="A cat.")
    refused("target number 1 is empty", stack="decoder", targets=["A", " ", "B"])
    refused('choose stack="decoder" or "cross"', stack="encoder", targets=TARGETS)
    refused("analysis distance cannot read stack='cross', only 'encoder', 'decoder'", ["distance"], stack="cross",
            targets=TARGETS)  # fmt: skip
    refused("analysis attention_graph cannot read stack='decoder', only 'encoder'", ["attention_graph"],
            stack="decoder", targets=TARGETS)  # fmt: skip
    refused("reading must be exact", stack="decoder", targets=TARGETS, reading="padded")
    with pytest.raises(ValueError, match="leave it out for BartEncoder"):
        analyse(model, words, TEXTS, ["finetuning_shift"], stack="encoder", reference=model.get_encoder())
    bare = model.model
    with pytest.raises(ValueError, match="BartModel does not say how the text it writes starts"):
        analyse(bare, words, TEXTS, ["entropy"], stack="cross", targets=TARGETS, progress=False)
