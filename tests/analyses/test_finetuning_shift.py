"""Fig. 3: cosine of attention before and after finetuning."""

import dataclasses

import pytest
import torch
from torch.nn.functional import cosine_similarity

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.finetuning_shift import SCHEMA, FinetuningShift, matrix_cosine


def test_by_hand():
    one, other = torch.tensor([[[[1.0, 0.0], [9.0, 9.0]]]]), torch.tensor([[[[1.0, 1.0], [0.0, 5.0]]]])
    assert matrix_cosine(one, other, torch.tensor([[True, False]])).item() == pytest.approx(2**-0.5)


def test_against_a_naive_loop(subject, context, singles):
    table = run_analyses(subject, {"a": FinetuningShift().setup(context)})["a"].set_index(
        ["attention", "layer", "head"]
    )
    for attention in ("standard", "effective"):
        for layer in range(2):
            for head in range(4):
                cosines = [
                    cosine_similarity(
                        seen.layers[layer].part(attention)[0, head].flatten(),
                        seen.reference.layers[layer].part(attention)[0, head].flatten(),
                        dim=0,
                    ).item()
                    for seen in singles
                ]
                got = table.loc[(attention, layer, head), "value"]
                assert got == pytest.approx(sum(cosines) / len(cosines), abs=1e-6)
                assert got < 0.99


def test_an_unchanged_model_has_cosine_one(subject, context):
    same = dataclasses.replace(subject, reference=subject.model)
    table = run_analyses(same, {"a": FinetuningShift().setup(context)})["a"]
    SCHEMA.check(table, "finetuning_shift")
    assert table["value"].to_numpy() == pytest.approx(1)
    assert set(table["count"]) == {len(subject.split)}


def test_without_a_reference(subject, context):
    alone = dataclasses.replace(subject, reference=None)
    with pytest.raises(ValueError, match="needs the trace of the pretrained model"):
        run_analyses(alone, {"a": FinetuningShift().setup(context)})
