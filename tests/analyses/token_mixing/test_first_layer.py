"""The model run from its first layer is the model, whatever the family, and is left as it was."""

import pytest
import torch

from effective_attention.analyses.token_mixing.first_layer import from_first_layer
from effective_attention.attention.trace import one_text, trace


def test_what_the_first_layer_reads_leads_to_every_hidden_state(each_trace):
    for row in range(3):
        real = each_trace.mask[row]
        with torch.no_grad(), from_first_layer(each_trace.model, one_text(each_trace, row)) as (run, x):
            hidden = run(x)
        torch.testing.assert_close(x[0], each_trace.hidden[0][row][real])
        assert len(hidden) == len(each_trace.layers)
        for got, expected in zip(hidden, each_trace.hidden[1:], strict=True):
            torch.testing.assert_close(got[0], expected[row][real], rtol=1e-5, atol=1e-5)  # LLaMA's norm is in float32


SUMS = {
    "bert": "embeddings.LayerNorm",
    "roberta": "embeddings.LayerNorm",
    "distilbert": "embeddings.LayerNorm",
    "electra": "embeddings.LayerNorm",
}


def test_sums_are_what_the_embeddings_layer_norm_reads(each_trace):
    """By a hook on the module by its name; decoders do not normalise their embeddings."""
    base, inputs = each_trace.model.base_model, one_text(each_trace, 0)
    read = []
    name = SUMS.get(base.config.model_type)
    if name is not None:
        hook = base.get_submodule(name).register_forward_pre_hook(lambda _module, args: read.append(args[0]))
        base(**inputs)
        hook.remove()
    expected = read[0].detach() if read else each_trace.hidden[0][0][each_trace.mask[0]][None]
    with torch.no_grad(), from_first_layer(each_trace.model, inputs, embeddings="summed") as (run, x):
        hidden, other = run(x), run(x + torch.arange(x.shape[-1]))
    torch.testing.assert_close(x, expected)
    for got, changed, known in zip(hidden, other, each_trace.hidden[1:], strict=True):
        torch.testing.assert_close(got[0], known[0][each_trace.mask[0]], rtol=1e-5, atol=1e-5)
        assert (changed - got).abs().max() > 1e-3


def test_a_sum_is_that_of_token_segment_and_position(make_trace):
    seen = make_trace()
    parts, inputs = seen.model.base_model.embeddings, one_text(seen, 0)
    with torch.no_grad(), from_first_layer(seen.model, inputs, embeddings="summed") as (_, x):
        words = parts.word_embeddings(inputs["input_ids"]) + parts.token_type_embeddings(inputs["token_type_ids"])
        torch.testing.assert_close(x[0], words[0] + parts.position_embeddings.weight[: x.shape[1]])


def test_another_input_is_really_read(each_trace):
    with torch.no_grad(), from_first_layer(each_trace.model, one_text(each_trace, 0)) as (run, x):
        before, other, after = run(x), run(x.flip(-1)), run(x)
    assert all((a - b).abs().max() > 1e-3 for a, b in zip(before, other, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_model_is_left_as_it_was(each_trace):
    model = each_trace.model
    hooks = lambda: [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules()]  # noqa: E731
    before, implementation = hooks(), model.config._attn_implementation
    model.train()
    try:
        with pytest.raises(RuntimeError, match="halfway"):
            _stop_halfway(each_trace)
        assert model.training
    finally:
        model.eval()
    assert hooks() == before
    assert model.config._attn_implementation == implementation


def _stop_halfway(seen):
    with from_first_layer(seen.model, one_text(seen, 0)):
        assert not seen.model.training
        raise RuntimeError("halfway")


def test_a_layer_that_is_called_again_reads_what_the_model_made():
    """ALBERT has one layer, called as often as there are layers."""
    from transformers import AlbertConfig, AlbertModel

    torch.manual_seed(0)
    sizes = {
        "hidden_size": 16,
        "embedding_size": 8,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    model = AlbertModel(AlbertConfig(vocab_size=30, **sizes)).double().eval()
    seen = trace(model, {"input_ids": torch.arange(5, 10)[None]})
    with torch.no_grad(), from_first_layer(model, one_text(seen, 0)) as (run, x):
        for got, expected in zip(run(x), seen.hidden[1:], strict=True):
            torch.testing.assert_close(got, expected)


def test_a_model_that_hides_its_input_is_refused(make_trace, monkeypatch):
    from effective_attention.analyses.token_mixing import first_layer

    monkeypatch.setattr(first_layer, "_same", lambda one, other: False)
    seen = make_trace()
    with (
        pytest.raises(ValueError, match="BertModel's first layer reads"),
        from_first_layer(seen.model, one_text(seen, 0)),
    ):
        pass
