"""What every registered method promises, for standard and effective attention where it reads attention; erasure too."""

import contextlib
from dataclasses import replace
from functools import partial

import pytest
import torch

from effective_attention.attention.trace import trace
from effective_attention.attributions.attribute import runs
from effective_attention.attributions.erasure import erasure
from effective_attention.attributions.gradients import gradient_graph
from effective_attention.attributions.norms import norm_weights
from effective_attention.attributions.registry import registered
from helpers.cases import DECODERS

UNK = 3
ROW = 3  # of every text of the usual batch; a decoder's first tokens see little


def scores_of(case):
    """Make two attributions that depend on the tokens alone, so not on the batch."""
    ids = case.trace.inputs["input_ids"].double()
    return torch.stack([ids.sin(), -ids.cos()])


def scored(method, attention, case, row=ROW):
    work = case.work(row=row, steps=4)
    return method.function(work) if attention is None else method.function(work, attention)


def erased(how, case, row=ROW):
    found = erasure(case.request, scores_of(case), case.special, how=how, unk_id=UNK)
    return torch.stack(found, dim=1).transpose(0, 2).nan_to_num(0)  # nothing to measure against


TOKENS = {
    " ".join(filter(None, [method.name, attention])): partial(scored, method, attention)
    for method, attention in runs(registered())
}  # the last axis counts tokens
PAIRS = {
    "gradient_graph": lambda case, row=ROW: gradient_graph(case.work(), "standard"),
    "gradient_graph effective": lambda case, row=ROW: gradient_graph(case.work(), "effective"),
    "norm per head": lambda case, row=ROW: norm_weights(case.trace).per_head,
    "norm per layer effective": lambda case, row=ROW: norm_weights(case.trace, "effective").per_layer,
}  # the last two do: what some methods read a row of
TEXTS = {f"erasure {how}": partial(erased, how) for how in ("delete", "blank", "hide")}  # none does
METHODS = {**TOKENS, **PAIRS, **TEXTS}
FAMILIES = ("bert", "roberta", "distilbert", "electra", "gpt2", "llama")
ENCODERS_ONLY = ("globenc", "decompx")  # their own tests check that decoders are refused
DEFINED = [
    (family, name)
    for family in FAMILIES
    for name in METHODS
    if not (family in DECODERS and name.split()[0] in ENCODERS_ONLY)
]


def cut(name, found, size):
    """Cut the padding off the axes that count tokens."""
    if name in TEXTS:
        return found
    return found[..., :size, :size] if name in PAIRS else found[..., :size]


def hooks(model):
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {(name, kind): list(getattr(part, kind)) for name, part in model.named_modules() for kind in kinds}


@pytest.mark.parametrize(("family", "method"), DEFINED)
def test_the_model_is_left_as_it_was(make_case, family, method):
    case = make_case(family)
    model = case.model
    model.train()
    list(model.modules())[5].eval()
    next(model.parameters()).requires_grad_(False)
    modes = {name: module.training for name, module in model.named_modules()}
    wanted = [parameter.requires_grad for parameter in model.parameters()]
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    inputs = {name: tensor.clone() for name, tensor in case.trace.inputs.items()}
    before = hooks(model)
    implementation = model.config._attn_implementation
    state = torch.get_rng_state()

    found = METHODS[method](case)

    assert bool(found.isfinite().all())
    assert not found.requires_grad
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == wanted
    assert all(parameter.grad is None for parameter in model.parameters())
    assert hooks(model) == before
    assert model.config._attn_implementation == implementation
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    assert all(torch.equal(inputs[name], tensor) for name, tensor in case.trace.inputs.items())
    model.eval()
    torch.testing.assert_close(METHODS[method](case), found, rtol=1e-4, atol=1e-6)  # dropout was off


@pytest.mark.parametrize(("family", "method"), DEFINED)
def test_neither_companions_nor_padding_matter(make_case, family, method):
    case = make_case(family)
    together = METHODS[method](case)
    wider = METHODS[method](case.padded(3))
    torch.testing.assert_close(cut(method, wider, 9), together, rtol=2e-3, atol=2e-5)
    if method not in TEXTS:
        assert not wider[..., 9:].any()
    for row, length in enumerate((9, 6, 4)):
        alone = METHODS[method](case.alone(row))
        torch.testing.assert_close(alone[0], cut(method, together[row : row + 1], length)[0], rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("switch", [torch.no_grad, torch.inference_mode])
def test_whatever_the_caller_did_to_autograd(make_case, method, switch):
    usual = make_case("bert")
    expected = METHODS[method](usual)
    with switch():
        case = make_case("bert", model=usual.model)
        assert case.trace.logits.is_inference() == (switch is torch.inference_mode)
        found = METHODS[method](case)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_model_is_left_as_it_was_after_an_error(make_case, method):
    case = make_case("bert")
    case.model.train()
    before = hooks(case.model)
    implementation = case.model.config._attn_implementation
    inputs = {**case.trace.inputs, "input_ids": case.trace.inputs["input_ids"] + 900}  # no such tokens
    broken = replace(case, request=replace(case.request, trace=replace(case.trace, inputs=inputs)))
    with broken.runs() as runs_of_the_model, contextlib.suppress(IndexError):
        METHODS[method](broken)
        assert not runs_of_the_model, "an error in the model was lost"
    assert hooks(case.model) == before
    assert case.model.config._attn_implementation == implementation
    assert all(module.training for module in case.model.modules())


BLANKING = ("integrated_gradients", "blank_out", "erasure delete", "erasure blank")


@pytest.mark.parametrize(("family", "method"), [case for case in DEFINED if case[0] in ("bert", "gpt2")])
def test_short_texts_and_empty_rows_are_defined(make_case, family, method):
    """Check three words, one word, and padding only; BERT has [CLS] and [SEP] too, and a text of nothing else."""
    lengths = (5, 3, 2, 0) if family == "bert" else (3, 1, 0)
    found = METHODS[method](make_case(family, lengths), row=2 if family in DECODERS else 0)
    assert bool(found.isfinite().all())
    assert bool(found[0].any())
    assert not found[-1].any()
    if method in BLANKING and family == "bert":
        assert not found[2].any()  # no words
        assert bool(found[1].any())
    if method in ("erasure delete", "erasure hide") and family == "gpt2":
        assert not found[1].any()  # its only token cannot go


def test_a_single_text_that_is_all_special(make_case):
    case = make_case("bert", (2,))
    for method in BLANKING:
        assert not METHODS[method](case).any()


def test_a_model_traced_otherwise_is_refused(make_case):
    case = make_case("bert")
    short = replace(case.trace, layers=case.trace.layers[:1])
    with pytest.raises(ValueError, match="called its attention 2 times, but 1 times when it was traced"):
        norm_weights(short)
    with pytest.raises(ValueError, match="called its attention 2 times"):
        _ = replace(case.request, trace=short).gradients
    assert trace(case.model, case.trace.inputs).logits.shape == (3, 2)
