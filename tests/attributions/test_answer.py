"""From which token a model answers: [CLS], the first or the last real one."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from effective_attention.attention.trace import trace
from effective_attention.attributions.answer import answer_position
from effective_attention.attributions.attribute import attribute
from effective_attention.attributions.registry import impossible, registered
from effective_attention.data.annotation.tagging import KINDS
from helpers.cases import DECODERS, ENCODERS, PAD, WORDS, build_case


@pytest.mark.parametrize("family", ENCODERS)
def test_an_encoder_answers_from_its_first_token(family: str) -> None:
    seen = build_case(family).trace
    assert not seen.causal
    assert answer_position(seen).tolist() == [0, 0, 0]


@pytest.mark.parametrize("family", DECODERS)
def test_a_decoder_answers_from_its_last_token(family: str) -> None:
    case = build_case(family, (9, 6, 1))
    assert case.trace.causal
    assert answer_position(case.trace).tolist() == [8, 5, 0]
    alone = case.alone(1).trace
    assert answer_position(alone).tolist() == [5]
    assert answer_position(case.trace.example(1)).tolist() == [5]
    head = case.model.score(case.trace.hidden[-1])  # the logits of every token, of which the model takes one
    places = answer_position(case.trace)
    assert torch.allclose(head[torch.arange(3), places], case.trace.logits, atol=1e-5)


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("ids", [[5, 6, PAD], [PAD, 5, 6], [5, PAD, 6], [PAD, PAD]])
def test_a_text_with_the_padding_token_in_it(family: str, ids: list[int]) -> None:
    """The head passes over it, and so do we: what is explained is what was answered."""
    model = build_case(family).model
    filler = [WORDS, WORDS, WORDS, WORDS]
    inputs = {
        "input_ids": torch.tensor([filler, ids + [PAD] * (4 - len(ids))]),
        "attention_mask": torch.tensor([[1] * 4, [1] * len(ids) + [0] * (4 - len(ids))]),
    }
    seen = trace(model, inputs)
    place = int(answer_position(seen)[1])
    assert torch.allclose(model.score(seen.hidden[-1])[1, place], seen.logits[1], atol=1e-5)
    own = {name: value[1:, : len(ids)] for name, value in inputs.items()}
    assert torch.allclose(trace(model, own).logits[0], seen.logits[1], atol=1e-5)


def test_where_the_kinds_of_tokens_are_known() -> None:
    """XLNet sets [CLS] last."""
    seen = build_case("bert", (4, 3)).trace
    word, cls = KINDS.index("word"), KINDS.index("cls")
    kinds = torch.tensor([[word, word, word, cls], [word, word, word, -1]])
    assert answer_position(replace(seen, tokens={"kind": kinds})).tolist() == [3, 0]


def test_padding_on_the_left() -> None:
    model = build_case("llama").model
    ids = torch.tensor([[PAD, PAD, 5, 6], [7, 8, 9, 10]])
    seen = trace(model, {"input_ids": ids, "attention_mask": (ids != PAD).long()})
    assert seen.causal
    assert answer_position(seen).tolist() == [3, 3]


@pytest.mark.parametrize("family", DECODERS)
def test_methods_read_the_row_of_the_answer(family: str) -> None:
    """Each example's own row, in a batch; the same as that position by its number, and without the others."""
    case = build_case(family)
    work = case.work()
    refused = impossible(registered(), case.trace)
    reading = [method for method in registered() if method.reads_attention and method.name not in refused]
    assert len(reading) >= 8  # not those of encoders

    def scores(one: Any, settings: Any) -> list[torch.Tensor]:
        return [found.scores for found in attribute(one.work().request, one.words, settings, reading)]

    batch = scores(case, work.settings)
    for row, length in enumerate(case.trace.lengths.tolist()):
        for fixed in (replace(work.settings, row=length - 1), work.settings):
            for one, other in zip(batch, scores(case.alone(row), fixed), strict=True):
                assert torch.allclose(one[row, :, :length].double(), other[0].double(), atol=1e-5)


@pytest.mark.parametrize("family", DECODERS)
def test_rollouts_and_flow_by_the_receptive_field(family: str) -> None:
    """Attention that prefers nothing explains nothing: every token has the same score."""
    case = build_case(family, (5, 3))
    even = []
    for layer in case.trace.layers:
        seen = layer.visible[:, :1].expand(-1, layer.attention.shape[1], -1, -1)
        even.append(replace(layer, weights=seen.float() / seen.sum(dim=-1, keepdim=True)))
    flat = replace(case, request=replace(case.request, trace=replace(case.trace, layers=tuple(even))))
    for method in registered():
        if method.name in ("rollout", "flow"):
            plain = method.function(flat.work(), "standard")
            assert not torch.allclose(plain[0, 1], plain[0, 1].mean().expand(5), atol=1e-2)
            found = method.function(flat.work(receptive_field=True), "standard")
            assert torch.allclose(found[0], torch.full_like(found[0], 1 / 5))
            assert torch.allclose(found[1, :, :3], torch.full_like(found[1, :, :3], 1 / 3))
            assert bool((found[1, :, 3:] == 0).all())
