"""A language model asked for a verb: against a plain loop, whatever the padding; explained; what cannot be asked."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, BertConfig

from effective_attention.attention.swap import use_attention
from effective_attention.attention.trace import trace
from effective_attention.attributions.answer import answer_position
from effective_attention.attributions.attribute import attribute
from effective_attention.attributions.registry import registered
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import Settings
from effective_attention.data.agreement.verbs import first_tokens
from effective_attention.errors import UserError
from effective_attention.models.encoders import PretrainedEncoder, RandomEncoder
from effective_attention.models.next_verb import NextVerb, load_next_verb
from helpers.decoders import FAMILIES, build_config, build_tokenizer, write_decoder

TEXTS = ("the old cat that the men drove", "why", "the dogs on the mat", "a car , the company said on friday , still")
VERBS = (("is", "are"), ("sits", "are"), ("was", "were"), ("has", "have"))
ENCODERS_ONLY = ("globenc", "decompx")
EOS = 0


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("decoders")
    return {family: write_decoder(folder, family, with_head=True) for family in FAMILIES}


@pytest.fixture(scope="module")
def llama(folders: dict[str, Path]) -> tuple[NextVerb, Any]:
    encoder = PretrainedEncoder(str(folders["llama"]))
    return load_next_verb(encoder, "model"), encoder.tokenizer()


def batch_of(texts: Any, tokenizer: Any, side: str = "right") -> dict[str, torch.Tensor]:
    rows = [tokenizer(text)["input_ids"] for text in texts]
    width = max(map(len, rows))
    fill = [width - len(row) for row in rows]
    ids = [[EOS] * n + row if side == "left" else row + [EOS] * n for row, n in zip(rows, fill, strict=True)]
    ones = [[1] * len(row) for row in rows]
    mask = [[0] * n + row if side == "left" else row + [0] * n for row, n in zip(ones, fill, strict=True)]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def with_verbs(inputs: dict[str, torch.Tensor], tokenizer: Any) -> dict[str, torch.Tensor]:
    return {**inputs, "verb_ids": torch.from_numpy(first_tokens(VERBS, tokenizer))[:, None]}


@torch.no_grad()
def by_hand(folder: Path, tokenizer: Any) -> torch.Tensor:
    """Take the log-probabilities of each form's first token, text by text."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    found = []
    for text, forms in zip(TEXTS, VERBS, strict=True):
        ids = tokenizer(text)["input_ids"]
        chances = model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(dim=-1)
        longer = [tokenizer(f"{text} {form}")["input_ids"] for form in forms]
        assert all(whole[: len(ids)] == ids for whole in longer)
        found.append(chances[[whole[len(ids)] for whole in longer]])
    return torch.stack(found)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_logits_are_the_language_models_whatever_the_padding(
    family: str, side: str, folders: dict[str, Path]
) -> None:
    encoder = PretrainedEncoder(str(folders[family]))
    model, tokenizer = load_next_verb(encoder, "model"), encoder.tokenizer()
    inputs = with_verbs(batch_of(TEXTS, tokenizer, side), tokenizer)
    with torch.no_grad():
        found = model(**inputs).logits
    expected = by_hand(folders[family], tokenizer)
    assert expected.std() > 0.04, "texts and forms differ"
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_without_a_verb_is_and_are_are_asked_for(llama: tuple[NextVerb, Any]) -> None:
    model, tokenizer = llama
    inputs = batch_of(TEXTS[:1], tokenizer)
    asked = torch.from_numpy(first_tokens([("is", "are")], tokenizer))[:, None]
    with torch.no_grad():
        torch.testing.assert_close(model(**inputs).logits, model(**inputs, verb_ids=asked).logits)


def test_a_text_that_ends_in_the_padding_token_is_answered_from_it(llama: tuple[NextVerb, Any]) -> None:
    model, tokenizer = llama
    ids = [*tokenizer("the dogs")["input_ids"], EOS]
    inputs = {"input_ids": torch.tensor([[*ids, EOS]]), "attention_mask": torch.tensor([[1] * len(ids) + [0]])}
    model.config.pad_token_id = EOS
    seen = trace(model, inputs)
    assert answer_position(seen).tolist() == [len(ids) - 1]
    with torch.no_grad():
        torch.testing.assert_close(seen.logits, model(input_ids=torch.tensor([ids])).logits)


def test_effective_attention_answers_the_same(llama: tuple[NextVerb, Any]) -> None:
    model, tokenizer = llama
    inputs = with_verbs(batch_of(TEXTS, tokenizer), tokenizer)
    with torch.no_grad():
        standard = model(**inputs).logits
        with use_attention(model, "effective"):
            effective = model(**inputs).logits
    torch.testing.assert_close(standard, effective, atol=1e-5, rtol=1e-4)
    seen = trace(model, inputs)
    assert seen.causal
    torch.testing.assert_close(seen.logits, standard)
    assert len(seen.layers) == len(seen.hidden) - 1 == 2


def scores_of(model: NextVerb, inputs: dict[str, torch.Tensor], method: Any, index: torch.Tensor) -> list[Any]:
    seen = trace(model, {**inputs, "index": index})
    words = seen.mask & (seen.inputs["input_ids"] > 1)
    settings = Settings(EOS, steps=4, receptive_field=True)
    return list(attribute(AttributionRequest(seen, index % 2), words, settings, [method]))


@pytest.mark.parametrize("method", registered(), ids=lambda method: method.name)
def test_every_method_explains_each_texts_own_verb(method: Any, llama: tuple[NextVerb, Any]) -> None:
    """In a batch, as a model does that is asked for this verb alone, about this text alone."""
    if method.name in ENCODERS_ONLY:
        pytest.skip("defined for encoders; its own tests check that decoders are refused")
    model, tokenizer = llama
    texts = [text for text in TEXTS if " " in text]
    verbs = [verb for text, verb in zip(TEXTS, VERBS, strict=True) if " " in text]
    tokens = torch.from_numpy(first_tokens(verbs, tokenizer))
    index = torch.arange(len(texts))
    together = scores_of(model, {**batch_of(texts, tokenizer), "verb_ids": tokens[:, None]}, method, index)
    assert len(together) == (2 if method.reads_attention else 1)
    for row, text in enumerate(texts):
        one = NextVerb(model.language_model, tokens[row].tolist()).eval()
        inputs = batch_of([text], tokenizer)
        for all_rows, mine in zip(together, scores_of(one, inputs, method, index[[row]]), strict=True):
            found = all_rows.scores[row, :, : inputs["input_ids"].shape[1]]
            assert bool(found.isfinite().all())
            torch.testing.assert_close(found.double(), mine.scores[0].double(), atol=2e-4, rtol=2e-3)


# --- what cannot be asked ---


def test_a_decoder_without_its_head_is_refused(tmp_path: Path) -> None:
    place = write_decoder(tmp_path, "llama")
    with pytest.raises(
        UserError, match=r"has no language-model head for the next word \(its files lack lm_head\.weight"
    ):
        load_next_verb(PretrainedEncoder(str(place)), "model")


def test_a_model_that_reads_both_ways_is_refused(tmp_path: Path) -> None:
    tokenizer = build_tokenizer("gpt2")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    AutoModelForMaskedLM.from_config(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(
        UserError, match=r"head=verb: model it reads a text in both directions, and so predicts no next"
    ):
        load_next_verb(PretrainedEncoder(str(tmp_path)), "model it")


def test_other_kinds_of_models_are_refused(tiny_folder: Path, tmp_path: Path) -> None:
    from transformers import MPNetConfig, MPNetModel

    with pytest.raises(UserError, match=r"head=verb asks a language model, and model tiny has random weights; choose"):
        load_next_verb(RandomEncoder(), "model tiny")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    MPNetModel(MPNetConfig(vocab_size=50, **sizes)).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"has no language-model head .* \(mpnet models have none\); add model=smollm2"):
        load_next_verb(PretrainedEncoder(str(tmp_path)), "model")


def test_a_tokenizer_that_ends_texts_is_refused(tmp_path: Path) -> None:
    from tokenizers import processors

    tokenizer = build_tokenizer("llama")
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", tokenizer.eos_token_id)]
    )
    config = build_config("llama", len(tokenizer))
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"the tokenizer ends every text with '<\|endoftext\|>', and no verb follows"):
        load_next_verb(PretrainedEncoder(str(tmp_path)), "model")
