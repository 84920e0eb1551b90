"""A model whose layers have learnt nothing: which weights are drawn, which stay, and what is left as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from effective_attention.attributions.layer_modules import layer_modules
from effective_attention.attributions.randomised import randomised, trace_again
from helpers.cases import build_case

FAMILIES = ("bert", "roberta", "distilbert", "electra", "gpt2", "llama")


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("top", [None, 1])
def test_only_layers_are_drawn(make_case: Any, family: str, top: int | None) -> None:
    case = make_case(family)
    layers = layer_modules(case.trace)
    drawn = {id(value) for part in (layers if top is None else layers[-top:]) for value in part.parameters()}
    fresh = dict(randomised(case.trace, top=top, seed=1).named_parameters())
    for name, value in case.model.named_parameters():
        if id(value) not in drawn:
            assert torch.equal(fresh[name], value), name
        elif value.ndim > 1:
            assert not torch.equal(fresh[name], value), name
    assert len(drawn) > 0


def test_the_model_and_random_numbers_are_left_as_they_were(make_case: Any) -> None:
    case = make_case("bert")
    case.model.train()
    try:
        before = weights(case.model), torch.get_rng_state(), np.random.get_state()[1].tolist()
        fresh = randomised(case.trace, seed=3)
        assert all(torch.equal(value, before[0][name]) for name, value in weights(case.model).items())
        assert torch.equal(torch.get_rng_state(), before[1])
        assert np.random.get_state()[1].tolist() == before[2]  # Python's own are drawn by what checks types in tests
        assert case.model.training
        assert not fresh.training
        shared = {value.data_ptr() for value in fresh.parameters()} & {v.data_ptr() for v in case.model.parameters()}
        assert not shared, "it has weights of its own"
    finally:
        case.model.eval()


def test_the_same_seed_gives_the_same_weights(make_case: Any) -> None:
    case = make_case("bert")
    one, other, third = (weights(randomised(case.trace, seed=seed)) for seed in (1, 1, 2))
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert any(not torch.equal(value, third[name]) for name, value in one.items())


def test_it_is_drawn_as_before_a_training(make_case: Any) -> None:
    """Check the spread of a matrix, and layer norms; the model's own weights are 12 times as large."""
    case = make_case("bert")
    layer = randomised(case.trace).bert.encoder.layer[0]
    spread = case.model.config.initializer_range
    assert layer.intermediate.dense.weight.std().item() == pytest.approx(spread, rel=0.2)
    assert torch.equal(layer.output.LayerNorm.weight, torch.ones(16))
    assert not layer.output.dense.bias.any()


def test_precision_and_kind_are_the_models() -> None:
    case = build_case("bert", double=True)
    fresh = randomised(case.trace)
    assert fresh.dtype == torch.float64
    assert type(fresh) is type(case.model)
    seen = trace_again(case.trace, fresh)
    assert seen.inputs is case.trace.inputs or seen.inputs == case.trace.inputs
    assert len(seen.layers) == len(case.trace.layers)
    torch.testing.assert_close(seen.hidden[0], case.trace.hidden[0])  # embeddings are the same
    assert not torch.allclose(seen.hidden[-1], case.trace.hidden[-1])


def test_gradients_are_to_be_had_where_a_trainer_has_switched_them_off(make_case: Any) -> None:
    case = make_case("bert")
    with torch.inference_mode():
        fresh = randomised(case.trace)
    assert not any(value.is_inference() for value in fresh.parameters())


def test_bad_calls_are_refused(make_case: Any) -> None:
    case = make_case("bert")
    for top in (0, 3):
        with pytest.raises(ValueError, match=f"top must be from 1 to 2, the layers of the model, .* got {top}"):
            randomised(case.trace, top=top)
    with pytest.raises(ValueError, match="XLNetForSequenceClassification has no module that is one layer"):
        randomised(make_case("xlnet").trace)
    with pytest.raises(ValueError, match="needs a transformers model"):
        randomised(replace(case.trace, model=torch.nn.Linear(2, 2)))


def test_a_model_that_needs_more_than_its_config_is_refused(make_case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case("bert")

    def fail(*_: Any) -> None:
        raise TypeError("missing 'words'\nand more")

    monkeypatch.setattr(type(case.model), "__init__", fail)
    with pytest.raises(ValueError, match=r"cannot be built from its config, to have .*missing 'words'$"):
        randomised(case.trace)
