"""The parts of a layer, found by watching, against the same parts named by hand."""

import pytest
import torch
from torch import nn

from effective_attention.attributions.blocks import find_blocks, handed, post_norm_blocks
from helpers.cases import ENCODERS


def bert(layer):
    attention, output = layer.attention.output, layer.output
    return attention.dense, attention.LayerNorm, layer.intermediate.dense, output.dense, output.LayerNorm


def named(model):
    """Return of each layer the projection, the norm behind it, the ends of the feed-forward part, the last norm."""
    kind = model.config.model_type
    if kind == "distilbert":
        return [
            (one.attention.out_lin, one.sa_layer_norm, one.ffn.lin1, one.ffn.lin2, one.output_layer_norm)
            for one in model.distilbert.transformer.layer
        ]
    if kind == "gpt2":
        norms = [*(one.ln_1 for one in model.transformer.h), model.transformer.ln_f]
        layers = zip(model.transformer.h, norms[1:], strict=True)
        return [(one.attn.c_proj, one.ln_2, one.mlp.c_fc, one.mlp.c_proj, last) for one, last in layers]
    if kind == "llama":
        norms = [*(one.input_layernorm for one in model.model.layers), model.model.norm]
        layers = zip(model.model.layers, norms[1:], strict=True)
        return [
            (one.self_attn.o_proj, one.post_attention_layernorm, None, one.mlp.down_proj, last) for one, last in layers
        ]
    return [bert(layer) for layer in getattr(model, kind).encoder.layer]


@pytest.mark.parametrize("family", [*ENCODERS, "gpt2", "llama"])
def test_the_parts_are_found(make_case, family):
    case = make_case(family)
    blocks = find_blocks(case.trace)
    assert [(one.projection, one.norm, one.inner, one.outer, one.last) for one in blocks] == named(case.model)
    assert {one.post for one in blocks} == {family in ENCODERS}


@pytest.mark.parametrize("family", ENCODERS)
def test_what_the_norms_are_handed_gives_the_layers_outputs(make_case, family):
    case = make_case(family)
    (given,) = handed(case.trace, [lambda block: block.last], find_blocks(case.trace))
    for number, block in enumerate(find_blocks(case.trace)):
        torch.testing.assert_close(block.last(given[number]).detach(), case.trace.hidden[number + 1])


def test_layers_that_share_their_modules_are_told_apart(make_case):
    case = make_case("bert")
    layers = case.model.bert.encoder.layer
    layers[1] = layers[0]
    blocks = find_blocks(case.part([0, 1, 2], torch.ones(9, dtype=torch.bool)).trace)
    assert blocks[0] == blocks[1] or vars(blocks[0]) == vars(blocks[1])
    shared = case.part([0, 1, 2], torch.ones(9, dtype=torch.bool)).trace
    (given,) = handed(shared, [lambda block: block.last], blocks)
    for number in (0, 1):
        torch.testing.assert_close(blocks[number].last(given[number]).detach(), shared.hidden[number + 1])


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_decoders_are_refused_where_a_norm_must_follow(make_case, family):
    with pytest.raises(ValueError, match="normalises what a layer reads, not what it has added"):
        post_norm_blocks(make_case(family).trace)


def test_a_layer_made_otherwise_is_refused(make_case):
    case = make_case("bert")
    case.model.bert.encoder.layer[1].attention.output.LayerNorm = nn.Identity()
    changed = case.part([0, 1, 2], torch.ones(9, dtype=torch.bool)).trace
    with pytest.raises(ValueError, match=r"BertForSequenceClassification does not add what .* \(layer 1\)"):
        find_blocks(changed)
