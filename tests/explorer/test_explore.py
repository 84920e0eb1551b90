"""``explore``: any model of the interface, as a page whose numbers are those of the trace."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from effective_attention import explore
from effective_attention.attention.trace import trace
from effective_attention.attention.variants import PARTS
from effective_attention.explorer.modules import load
from effective_attention.explorer.page import TEMPLATES, build_page, decimals_for
from effective_attention.explorer.sides import prediction_of, readable, side_of
from helpers.explorer_page import header_of, numbers_of

TEXT, PAIR = "A <b>cat</b> & a dog sat on the mat, didn't they?", "They did: all day long."
SMALL = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_size": 16,
    "intermediate_size": 16,
    "vocab_size": 30522,
}
MAKERS: dict[str, Callable[[], Any]] = {
    "bert": lambda: transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL)),
    "roberta": lambda: transformers.RobertaModel(transformers.RobertaConfig(**SMALL, type_vocab_size=2)),
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_layer=2, n_head=4, n_embd=16, vocab_size=30522, bos_token_id=0, eos_token_id=0)
    ),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, num_key_value_heads=2)),
}


@pytest.fixture(scope="module", params=list(MAKERS))
def model(request: Any) -> Any:
    torch.manual_seed(0)
    return MAKERS[request.param]()


@pytest.fixture(scope="module")
def bert() -> Any:
    torch.manual_seed(0)
    return MAKERS["bert"]()


def test_the_page_holds_what_the_trace_holds(model: Any, tokenizer: Any) -> None:
    page = explore(model, tokenizer, TEXT, PAIR).html
    inputs = tokenizer(TEXT, PAIR, return_tensors="pt")
    seen = trace(model, inputs)
    (side,) = header_of(page)["sides"]
    assert side["tokens"] == inputs.tokens()
    assert side["segments"] == inputs["token_type_ids"][0].tolist()
    assert [token for token, special in zip(side["tokens"], side["special"], strict=True) if special] == [
        "[CLS]",
        *["[SEP]"] * 2,
    ]
    assert (side["layers"], side["heads"], side["size"], side["d_key"]) == (2, 4, len(inputs.tokens()), 4)
    assert side["causal"] is (type(model).__name__ in ("GPT2LMHeadModel", "LlamaForCausalLM"))
    for number, layer in enumerate(seen.layers):
        assert side["ranks"][number] == layer.exact.rank[0].tolist() == [4] * 4
        assert side["scaling"][number] == pytest.approx(0.5)
        expected = {name: layer.part(name) for name in ("standard", "effective")} | {
            "query": layer.query,
            "key": layer.key,
        }
        for part, tensor in expected.items():
            decimals = 2 if part in ("query", "key") else 5
            found = numbers_of(page, 0, part, number) / 10**decimals
            np.testing.assert_allclose(found, tensor[0].double().numpy(), atol=0.5 / 10**decimals + 1e-6, err_msg=part)


def test_the_model_is_left_as_it_was(model: Any, tokenizer: Any) -> None:
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    before = model.config._attn_implementation
    state = torch.get_rng_state()
    model.train()
    try:
        explore(model, tokenizer, TEXT)
        assert model.training
    finally:
        model.eval()
    assert model.config._attn_implementation == before
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_a_short_text_has_no_null_space_and_needs_no_second_copy(bert: Any, tokenizer: Any) -> None:
    page = explore(bert, tokenizer, "cat").html  # three tokens, heads of width 4
    (side,) = header_of(page)["sides"]
    assert side["blocks"]["effective"] == [None, None]
    assert side["ranks"] == [[3] * 4] * 2


def test_neurons_can_be_left_out(bert: Any, tokenizer: Any) -> None:
    (side,) = header_of(explore(bert, tokenizer, TEXT, neurons=False).html)["sides"]
    assert (side["blocks"]["query"], side["blocks"]["key"], side["d_key"]) == ([None] * 2, [None] * 2, 0)


# --- two sides ---


def test_two_models(bert: Any, tokenizer: Any) -> None:
    torch.manual_seed(1)
    page = explore(bert, tokenizer, TEXT, beside=MAKERS["bert"](), name=("one", "two")).html
    header = header_of(page)
    assert header["same_tokens"] is True
    assert [(side["name"], side["model"]) for side in header["sides"]] == [("one", "one"), ("two", "two")]
    assert not np.array_equal(numbers_of(page, 0, "standard", 0), numbers_of(page, 1, "standard", 0))
    same = header_of(explore(bert, tokenizer, TEXT, beside=MAKERS["bert"]()).html)
    assert [side["name"] for side in same["sides"]] == ["first model", "second model"]


@pytest.mark.parametrize(
    ("beside", "texts"), [("A bird.", ["A bird."]), (("A bird.", "It sang."), ["A bird.", "It sang."])]
)
def test_two_texts(bert: Any, tokenizer: Any, beside: Any, texts: list[str]) -> None:
    page = explore(bert, tokenizer, TEXT, beside=beside).html
    header = header_of(page)
    assert header["same_tokens"] is False
    assert [side["name"] for side in header["sides"]] == ["first text", "second text"]
    assert header["sides"][1]["texts"] == texts
    seen = trace(bert, tokenizer(*texts, return_tensors="pt"))
    np.testing.assert_allclose(numbers_of(page, 1, "standard", 1) / 1e5, seen.layers[1].attention[0].numpy(), atol=6e-6)


# --- predictions ---


def test_predictions_are_named(bert: Any, tokenizer: Any) -> None:
    logits = trace(bert, tokenizer(TEXT, return_tensors="pt")).logits[0]
    expected = torch.softmax(logits, 0).tolist()
    (side,) = header_of(explore(bert, tokenizer, TEXT, labels=["no", "yes"]).html)["sides"]
    found = side["prediction"]
    assert (found["kind"], [label for label, _ in found["probabilities"]]) == ("class", ["no", "yes"])
    assert [chance for _, chance in found["probabilities"]] == pytest.approx(expected, abs=1e-6)
    (side,) = header_of(explore(bert, tokenizer, TEXT).html)["sides"]
    assert [label for label, _ in side["prediction"]["probabilities"]] == ["LABEL_0", "LABEL_1"]


@pytest.mark.parametrize("kind", ["roberta", "gpt2"])
def test_who_predicts_nothing_about_a_text_has_no_prediction(kind: str, tokenizer: Any) -> None:
    (side,) = header_of(explore(MAKERS[kind](), tokenizer, TEXT).html)["sides"]
    assert side["prediction"] is None


def test_scores_and_labels_that_do_not_exclude_each_other() -> None:
    assert prediction_of(torch.tensor([3.25]), ()) == {"kind": "score", "score": 3.25}
    found = prediction_of(torch.tensor([0.0, 100.0]), ["a", "b"], several=True)
    assert found == {"kind": "class", "probabilities": [["a", 0.5], ["b", 1.0]]}


# --- the file ---


def test_the_page_is_one_file_that_may_fetch_nothing(bert: Any, tokenizer: Any) -> None:
    page = explore(bert, tokenizer, "A </script><script>alert(1)</script> <!-- cat", name="<b>x</b>").html
    assert "alert(1)<" not in page
    assert "<b>" not in page
    assert header_of(page)["sides"][0]["texts"] == ["A </script><script>alert(1)</script> <!-- cat"]
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])  # type: ignore[index]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r"<(?:img|link|script|iframe|a) [^>]*(?:src|href)=\"(?!data:|#)", page)


def test_every_script_is_in_the_page_and_the_last_one_starts_it(bert: Any, tokenizer: Any) -> None:
    page = explore(bert, tokenizer, TEXT).html
    modules = load(TEMPLATES, "start.js")
    assert len(modules) == len(list(TEMPLATES.rglob("*.js"))) - 1 > 10  # without that of the list of pages
    assert [page.count(module.body) for module in modules] == [1] * len(modules)
    places = {module.path: page.index(module.body) for module in modules}
    assert max(places, key=lambda path: places[path]) == "start.js"


def test_the_page_offers_the_attentions_that_python_knows(bert: Any, tokenizer: Any) -> None:
    assert header_of(explore(bert, tokenizer, TEXT).html)["attentions"] == [*PARTS, "difference"]


def test_save_and_show(bert: Any, tokenizer: Any, tmp_path: Path) -> None:
    explorer = explore(bert, tokenizer, TEXT)
    path = explorer.save(tmp_path / "folder" / "page.html")
    assert path.read_text(encoding="utf-8") == explorer.html
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]
    shown = explorer._repr_html_()
    source = re.fullmatch(
        r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts allow-downloads" [^<>]*>[^<>]*</iframe>', shown
    )
    assert source is not None
    assert html.unescape(source[1]) == explorer.html
    assert re.fullmatch(r"Explorer\(0\.\d MB of HTML; \.save\(path\) writes it\)", repr(explorer))


def test_long_texts_have_a_decimal_less(bert: Any, tokenizer: Any) -> None:
    assert [decimals_for(size) for size in (2, 256, 257)] == [5, 5, 4]
    page = explore(bert, tokenizer, "cat " * 300, neurons=False).html
    assert header_of(page)["decimals"] == 4
    assert abs(numbers_of(page, 0, "standard", 0).sum(axis=-1) - 10**4).max() < 160  # rows of 302 numbers, each rounded


def test_a_text_that_is_too_long_is_cut_with_a_word(tokenizer: Any, caplog: Any) -> None:
    small = {**SMALL, "max_position_embeddings": 12}
    for model, longest in ((transformers.BertModel, 12), (transformers.RobertaModel, 10)):
        config = model.config_class(**small, type_vocab_size=2)
        with caplog.at_level(logging.WARNING):
            (side,) = header_of(explore(model(config), tokenizer, "cat " * 20).html)["sides"]
        assert side["size"] == longest
        assert caplog.messages[-1] == f"the text has 22 tokens and is cut at {longest}"


# --- tokens ---


def test_byte_level_tokens_are_spelt_out() -> None:
    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = Tokenizer(models.BPE(vocab={**letters, "Ġa": len(letters)}, merges=[("Ġ", "a")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")
    ids = tokenizer("b a\té")["input_ids"]
    assert readable(ids, tokenizer) == ["b", "▁a", "⇥", "Ã", "©"]  # half a letter cannot be spelt out
    assert readable([tokenizer.eos_token_id], tokenizer) == ["<end>"]


def test_a_padded_row_of_a_batch(bert: Any, tokenizer: Any) -> None:
    alone = side_of(trace(bert, tokenizer("A cat sat.", "So?", return_tensors="pt")), tokenizer, ["A cat sat.", "So?"])
    batch = tokenizer([TEXT, "A cat sat."], [PAIR, "So?"], padding=True, return_tensors="pt")
    side = side_of(trace(bert, batch), tokenizer, ["A cat sat.", "So?"], row=1)
    assert (side.tokens, side.segments, side.special) == (alone.tokens, alone.segments, alone.special)
    for part in ("standard", "effective", "query"):
        np.testing.assert_allclose(getattr(side, part), getattr(alone, part), atol=1e-6)


def test_texts_are_told_apart_by_separators_where_there_are_no_segment_ids(bert: Any, tokenizer: Any) -> None:
    inputs = dict(tokenizer("A cat.", "So?", return_tensors="pt"))
    types = inputs.pop("token_type_ids")[0].tolist()
    assert side_of(trace(bert, inputs), tokenizer, ["A cat.", "So?"]).segments == types == [0, 0, 0, 0, 0, 1, 1, 1]


# --- mistakes ---


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["  "], {}, "text is empty"),
        (["a \ud800"], {}, "half a surrogate pair"),
        ([7], {}, r"a text must be a string, or two for a pair, got \(7,\)"),
        ([TEXT], {"beside": ("a", "b", "c")}, "a text must be a string, or two for a pair"),
        ([TEXT], {"beside": ""}, "text is empty"),
        ([TEXT], {"labels": ["one"]}, "labels must be as many as the model's outputs, 2, got 1"),
        ([TEXT], {"name": ("a", "b")}, "name must be one, or one of each model, got 2 for 1"),
    ],
)
def test_mistakes(bert: Any, tokenizer: Any, texts: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explore(bert, tokenizer, *texts, **options)


def test_models_that_cannot_be_shown(bert: Any, tokenizer: Any) -> None:
    sizes = {
        f"{part}_{name}": 2 for part in ("encoder", "decoder") for name in ("layers", "attention_heads", "ffn_dim")
    }
    bart = transformers.BartModel(transformers.BartConfig(d_model=8, vocab_size=30522, **sizes))
    with pytest.raises(
        ValueError, match="BartModel reads one text and writes another; give the two as text and target"
    ):
        explore(bart, tokenizer, TEXT)
    seen = trace(bert, tokenizer("A cat sat.", return_tensors="pt"))
    layer = seen.layers[0]
    object.__setattr__(layer, "weights", layer.attention[:, :, :2])
    with pytest.raises(ValueError, match="attention of 2 queries to 6 keys"):
        side_of(seen, tokenizer, ["A cat sat."])


def test_sides_of_different_shape_are_not_compared(bert: Any, tokenizer: Any) -> None:
    sides = [
        side_of(trace(model, tokenizer("A cat.", return_tensors="pt")), tokenizer, ["A cat."]) for model in (bert, bert)
    ]
    object.__setattr__(sides[1], "standard", sides[1].standard[:1])
    object.__setattr__(sides[1], "effective", sides[1].effective[:1])
    object.__setattr__(sides[1], "maps", {})
    assert header_of(build_page(sides, title="x"))["same_tokens"] is False
