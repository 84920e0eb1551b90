"""Vectors through residual and norms against a loop over pairs, and against what the layers really give."""

import pytest
import torch

from effective_attention.attributions import layer_vectors
from effective_attention.attributions.alti import alti, contributions
from effective_attention.attributions.blocks import find_blocks, handed
from effective_attention.attributions.layer_vectors import of_vectors, through_norm
from effective_attention.attributions.norms import head_blocks
from effective_attention.attributions.residual_norms import (
    encoder_lengths,
    globenc,
    lengths,
    mixing_ratio,
    norm_residual,
)
from helpers.cases import ENCODERS

FAMILIES = (*ENCODERS, "gpt2", "llama")
LENGTHS = (9, 6, 4)


def normalise(vector, norm, given):
    """Pass one vector through a layer norm, with the standard deviation of what the norm was handed."""
    return norm.weight * (vector - vector.mean()) / (given.var(unbiased=False) + norm.eps).sqrt()


def pairs(case, row, number, attention):
    """Return y_ij, the same behind the second norm, and y_i of one layer and text, one pair at a time."""
    trace = case.trace
    block = find_blocks(trace)[number]
    (given,), (second,) = (
        [part[number][row]] for part in handed(trace, [lambda b: b.norm, lambda b: b.last], find_blocks(trace))
    )
    layer = trace.layers[number]
    projection = head_blocks(case.model, block.projection, layer.value)
    size = LENGTHS[row]
    found = torch.zeros(size, size, projection.shape[-1])
    further = torch.zeros_like(found)
    for query in range(size):
        for key in range(size):
            vector = trace.hidden[number][row, query].clone() if query == key else torch.zeros(projection.shape[-1])
            for head in range(projection.shape[0]):
                vector += layer.part(attention)[row, head, query, key] * (
                    layer.value[row, head, key] @ projection[head]
                )
            if block.post:
                vector = normalise(vector, block.norm, given[query])
                further[query, key] = normalise(vector, block.last, second[query])
            found[query, key] = vector
    whole = block.norm(given[:size]) if block.post else given[:size]
    return found.detach(), further.detach(), whole.detach()


@pytest.mark.parametrize("attention", ["standard", "effective", "affine"])
@pytest.mark.parametrize("family", FAMILIES)
def test_equal_to_a_loop_over_pairs(make_case, family, attention, monkeypatch):
    monkeypatch.setattr(layer_vectors, "_NUMBERS", 16 * 9 * 2)  # two queries at a time
    case = make_case(family)
    graphs = [lengths(case.trace, attention), contributions(case.trace, attention)]
    graphs += [encoder_lengths(case.trace, attention)] if family in ENCODERS else []
    ratios = mixing_ratio(case.trace, attention)
    for row, size in enumerate(LENGTHS):
        for number in range(2):
            vectors, further, whole = pairs(case, row, number, attention)
            near = (whole.norm(p=1, dim=-1)[:, None] - (whole[:, None] - vectors).norm(p=1, dim=-1)).clamp_min(0)
            shares = near / near.sum(dim=-1, keepdim=True).clamp_min(1e-12)
            expected = [vectors.norm(dim=-1), shares, further.norm(dim=-1)]
            for graph, one in zip(graphs, expected, strict=False):
                torch.testing.assert_close(graph[row, number, :size, :size].float(), one, rtol=1e-3, atol=1e-4)
                assert not graph[row, number, size:].any()
                assert not graph[row, number, :, size:].any()
            for query in range(size):
                own = vectors[query, query]
                mixed = (vectors[query].sum(dim=0) - own).norm()
                ratio = mixed / (mixed + own.norm())
                assert float(ratios[row, number, query]) == pytest.approx(float(ratio), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("attention", ["standard", "effective"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_vectors_and_the_biases_are_what_the_layer_gives(make_case, family, attention):
    """Check that nothing is lost: vectors and the projection's bias add up to what the norm was handed, and gives."""
    case = make_case(family)

    def gap(part):
        bias = getattr(part.block.projection, "bias", None)
        bias = torch.zeros(part.given.shape[-1]) if bias is None else bias.double()
        missing = part.vectors.sum(dim=1) + bias - part.given
        if part.block.post:
            rest = through_norm(bias.expand_as(part.given)[:, None], part.block.norm, part.given)[:, 0]
            missing = torch.cat([missing, part.normed.sum(dim=1) + rest + part.block.norm.bias - part.whole], dim=-1)
        return missing.abs().amax(dim=-1, keepdim=True).expand(part.vectors.shape[:2])

    assert float(of_vectors(case.trace, attention, gap).max()) < 1e-4


def test_the_methods_read_a_row(make_case):
    case = make_case("bert")
    work = case.work(row=2, residual=0.3)
    for method, graph in ((norm_residual, lengths), (alti, contributions), (globenc, encoder_lengths)):
        for attention in ("standard", "effective"):
            layers = graph(case.trace, attention)
            above = layers[:, 1] if method is norm_residual else layers[:, 1] @ layers[:, 0]
            found = method(work, attention)
            torch.testing.assert_close(found[:, 0], layers[:, 0, 2])
            torch.testing.assert_close(found[:, 1], above[:, 2])


def test_globenc_refuses_decoders(make_case):
    with pytest.raises(ValueError, match="GPT2ForSequenceClassification normalises what a layer reads"):
        encoder_lengths(make_case("gpt2").trace)
