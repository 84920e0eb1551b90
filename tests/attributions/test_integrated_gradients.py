"""Integrated gradients are complete, and equal a quadrature written by hand."""

import numpy as np
import pytest
import torch

from effective_attention.attributions import perturbations
from effective_attention.attributions.integrated_gradients import integrated_gradients

PAD, UNK = 0, 3


def by_hand(case, blank, steps):
    """Integrate by Gauss-Legendre on [0, 1], through ``inputs_embeds``: another way into the model than a hook."""
    ids = case.trace.inputs["input_ids"]
    embed = case.model.get_input_embeddings()
    end, start = embed(ids).detach(), embed(ids.masked_fill(case.words, blank)).detach()
    others = {name: value for name, value in case.trace.inputs.items() if name != "input_ids"}
    points, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros_like(end)
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        here = (start + float(point) * (end - start)).requires_grad_()
        logits = case.model(inputs_embeds=here, **others).logits
        rows = torch.arange(len(ids))
        (gradient,) = torch.autograd.grad(
            (logits[rows, case.request.target] - logits[rows, 1 - case.request.target]).sum(), here
        )
        total += float(weight) * gradient
    return ((end - start) * total).sum(dim=-1)


@pytest.mark.parametrize("blank", [UNK, PAD])
@pytest.mark.parametrize("family", ["bert", "distilbert", "electra"])
def test_equal_to_a_quadrature_by_hand(make_case, family, blank):
    case = make_case(family, double=True)
    found = integrated_gradients(
        case.request, case.special, blank, steps=5, rows=7
    )  # 2 steps of 3 texts, then 2, then 1
    torch.testing.assert_close(found, by_hand(case, blank, 5), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "gpt2"])
def test_scores_add_up_to_the_evidence_gained(make_case, family):
    case = make_case(family, double=True)
    embed = case.model.get_input_embeddings()
    words = case.words

    def blanked(_module, _inputs, output):  # the ids stay: RoBERTa counts positions, GPT-2 finds its last token by them
        return torch.where(words[..., None], embed.weight[UNK], output)

    hook = embed.register_forward_hook(blanked)
    with torch.no_grad():
        start = case.request.evidence(case.model(**case.trace.inputs).logits)
    hook.remove()
    found = integrated_gradients(case.request, case.special, UNK, steps=64)
    gained = case.request.evidence(case.trace.logits) - start
    assert float(gained.abs().min()) > 1e-2
    tolerance = (
        5e-3 if family == "distilbert" else 1e-6
    )  # DistilBERT's head has a ReLU: no quadrature is exact across its kinks
    torch.testing.assert_close(found.sum(dim=-1), gained, rtol=0, atol=tolerance)
    assert not found[~words].any()


def test_a_text_of_unknown_words_scores_nothing(make_case):
    case = make_case("bert")
    case.trace.inputs["input_ids"][case.words] = UNK
    assert not integrated_gradients(case.request, case.special, UNK, steps=3).any()


def test_rows_and_tokens_bound_what_runs_together(make_case, monkeypatch):
    case = make_case("bert")
    with case.runs() as runs:
        integrated_gradients(case.request, case.special, UNK, steps=8, rows=6)
    assert max(len(run["input_ids"]) for run in runs) == 6
    length = case.trace.mask.shape[1]
    monkeypatch.setattr(perturbations, "_TOKENS_ON_CPU", 4 * length)
    with case.runs() as runs:
        integrated_gradients(case.request, case.special, UNK, steps=8)
    assert max(len(run["input_ids"]) for run in runs) <= 4, "so much memory autograd takes"
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        integrated_gradients(case.request, case.special, UNK, steps=0)
