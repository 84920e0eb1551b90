"""Changed texts run without padding, each distinct one once."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from effective_attention.attention.trace import trace
from effective_attention.attributions import perturbations
from effective_attention.attributions.blank_out import blank_out
from effective_attention.attributions.perturbations import PerturbedTexts, blank_id, candidates, probabilities
from effective_attention.attributions.request import AttributionRequest
from effective_attention.errors import UserError
from helpers.cases import DECODERS, PAD, UNK, build_case


def whole(case, examples):
    keep = case.trace.mask[examples]
    return PerturbedTexts(torch.tensor(examples), keep, torch.zeros_like(keep))


def test_untouched_texts_answer_as_they_did(make_case):
    case = make_case("roberta")
    found = probabilities(case.request, whole(case, [2, 0, 1, 1]))
    torch.testing.assert_close(found, case.request.probability(case.trace.logits)[[2, 0, 1, 1]], rtol=1e-4, atol=1e-6)


def test_padding_on_the_left_is_left_out_too(make_case):
    """Check texts with their padding on the other side, untouched and with their first token blanked."""
    case = make_case("gpt2")
    mask = case.trace.inputs["attention_mask"].flip(1)
    ids = torch.zeros_like(mask).masked_scatter(mask.bool(), case.trace.inputs["input_ids"][case.trace.mask])
    flipped = AttributionRequest(trace(case.model, {"input_ids": ids, "attention_mask": mask}), case.request.target)
    found = []
    for request in (case.request, flipped):
        keep = request.trace.mask
        first = torch.nn.functional.one_hot(keep.int().argmax(dim=-1), 9).bool()
        pairs = PerturbedTexts(
            torch.arange(3).repeat(2), keep.repeat(2, 1), torch.cat([torch.zeros_like(first), first])
        )
        found.append(probabilities(request, pairs, unk_id=3))
    torch.testing.assert_close(found[1], found[0])
    assert float((found[0][:3] - found[0][3:]).abs().max()) > 1e-3


def test_equal_variants_run_once_and_nothing_is_padded(make_case):
    case = make_case("bert")
    case.trace.inputs["input_ids"][0, 1:4] = 7  # three equal words of one token type: any of them may go
    keep = case.trace.mask[[0, 0, 0, 0, 1]].clone()
    for variant, place in enumerate((1, 2, 3, 5)):
        keep[variant, place] = False
    with case.runs() as runs:
        found = probabilities(case.request, PerturbedTexts(torch.tensor([0, 0, 0, 0, 1]), keep, torch.zeros_like(keep)))
    assert [tuple(run["input_ids"].shape) for run in runs] == [(1, 6), (2, 8)]
    assert all(bool(run["attention_mask"].all()) for run in runs)
    assert found[0] == found[1] == found[2] != found[3]


def test_what_runs_together_is_bounded_by_tokens(make_case, monkeypatch):
    case = make_case("bert")
    keep = case.trace.mask[0].repeat(6, 1)
    for variant in range(6):
        keep[variant, 1 + variant] = False
    texts = PerturbedTexts(torch.zeros(6, dtype=torch.long), keep, torch.zeros_like(keep))
    with case.runs() as together:
        expected = probabilities(case.request, texts)
    assert [tuple(run["input_ids"].shape) for run in together] == [(6, 8)]
    monkeypatch.setattr(perturbations, "_TOKENS_ON_CPU", 16)
    with case.runs() as runs:
        found = probabilities(case.request, texts)
    assert [tuple(run["input_ids"].shape) for run in runs] == [(2, 8)] * 3
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
    assert perturbations.rows_together(512, torch.device("cuda")) == 64, "the memory of a GPU is another matter"


def test_the_same_words_of_other_examples_keep_their_own_question(make_case):
    case = make_case("bert", (5, 5))
    case.trace.inputs["input_ids"][1] = case.trace.inputs["input_ids"][0]
    with case.runs() as runs:
        found = probabilities(case.request, whole(case, [0, 1]))
    assert [len(run["input_ids"]) for run in runs] == [1]
    assert float(found.sum()) == pytest.approx(1)  # probabilities of both classes of one text


def test_bad_calls_are_refused(make_case):
    case = make_case("bert")
    texts = whole(case, [0])
    with pytest.raises(ValueError, match="rows must be at least 1, got 0"):
        probabilities(case.request, texts, rows=0)
    with pytest.raises(ValueError, match="unk_id must be the id"):
        probabilities(case.request, PerturbedTexts(texts.example, texts.keep, texts.keep))
    with pytest.raises(ValueError, match="special must be of shape \\(3, 9\\) as the tokens, got \\(1, 9\\)"):
        candidates(case.trace, case.special[:1])


def test_blank_token(tokenizer):
    assert blank_id(tokenizer) == tokenizer.unk_token_id
    assert blank_id(tokenizer, "pad") == tokenizer.pad_token_id
    assert blank_id(SimpleNamespace(unk_token_id=None, mask_token_id=0)) == 0
    with pytest.raises(
        UserError, match=r"tokenizer of 'odd/model' has no unknown, mask, end or start token .* choose a model"
    ):
        blank_id(SimpleNamespace(unk_token_id=None, mask_token_id=None, name_or_path="odd/model"))
    with pytest.raises(UserError, match="has no padding token"):
        blank_id(SimpleNamespace(pad_token_id=None), "pad")
    with pytest.raises(UserError, match="must be one of unk, pad, got 'mask'"):
        blank_id(tokenizer, "mask")


@pytest.mark.parametrize("family", DECODERS)
def test_a_blanked_last_token_is_not_taken_for_padding(family):
    """Decoders are often padded with the token that words are blanked with; their heads pass over it."""
    case = build_case(family, (5, 3))
    model = case.model
    model.config.pad_token_id = UNK
    try:
        ids = case.trace.inputs["input_ids"].masked_fill(~case.trace.mask, UNK)
        padded = replace(case.request, trace=trace(model, {**case.trace.inputs, "input_ids": ids}))
        found = blank_out(padded, case.special, UNK)
        assert model.config.pad_token_id == UNK
        for row, length in enumerate((5, 3)):
            text = ids[row : row + 1, :length].clone()
            text[0, -1] = UNK
            with torch.no_grad():
                answer = model.score(model.base_model(text).last_hidden_state)[:, -1]
            without = padded.probability(answer, torch.tensor([row]))
            whole = padded.probability(padded.trace.logits[row : row + 1], torch.tensor([row]))
            assert float(found[row, length - 1]) == pytest.approx(float(whole - without), abs=1e-6)
    finally:
        model.config.pad_token_id = PAD


@pytest.mark.parametrize(
    ("special", "expected"), [({"eos_token_id": 5, "bos_token_id": 4}, 5), ({"bos_token_id": 4}, 4)]
)
def test_decoders_have_no_token_for_unknown_words(special, expected):
    assert blank_id(SimpleNamespace(unk_token_id=None, mask_token_id=None, **special)) == expected
