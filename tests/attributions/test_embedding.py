"""XLNet embeds (key, batch): scores of tokens are those of a model whose embeddings are handed in, batch first."""

import pytest
import torch

from effective_attention.attributions.embedding import token_embedding
from effective_attention.attributions.integrated_gradients import integrated_gradients

UNK = 3
SHAPES = [(6, 6, 6), (3, 3, 3), (5,)]  # the second is square: no shape tells which axis is the batch


def gradient_at(case, vectors):
    """Differentiate the evidence at given embeddings, through ``inputs_embeds``: another way into the model."""
    here = vectors.detach().requires_grad_()
    mask = case.trace.inputs["attention_mask"]
    evidence = case.request.evidence(case.model(inputs_embeds=here, attention_mask=mask).logits)
    return torch.autograd.grad(evidence.sum(), here)[0]


@pytest.mark.parametrize("lengths", SHAPES)
def test_gradients_have_the_batch_first(make_case, lengths):
    case = make_case("xlnet", lengths, double=True)
    vectors = case.model.get_input_embeddings()(case.trace.inputs["input_ids"]).detach()
    found = case.request.gradients
    torch.testing.assert_close(found.embeddings, vectors)
    torch.testing.assert_close(found.embedding, gradient_at(case, vectors), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("lengths", SHAPES)
def test_integrated_gradients_have_the_batch_first(make_case, lengths):
    case = make_case("xlnet", lengths, double=True)
    embed = case.model.get_input_embeddings()
    end = embed(case.trace.inputs["input_ids"]).detach()
    start = embed.weight[UNK].detach().expand_as(end)
    (middle,) = (gradient_at(case, (start + end) / 2),)  # one step of Gauss-Legendre is the middle
    found = integrated_gradients(case.request, case.special, UNK, steps=1)
    torch.testing.assert_close(found, ((end - start) * middle).sum(dim=-1), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("family", ["xlnet", "bert"])
def test_the_embedding_is_put_back(make_case, family):
    case = make_case(family, (4, 4))
    embedding = case.model.get_input_embeddings()
    with pytest.raises(RuntimeError, match="halfway"):
        _stop_halfway(case, embedding, turned=family == "xlnet")
    assert case.model.get_input_embeddings() is embedding


def _stop_halfway(case, embedding, *, turned):
    with token_embedding(case.trace) as inside:
        assert inside is embedding
        assert (case.model.get_input_embeddings() is not embedding) == turned
        raise RuntimeError("halfway")
