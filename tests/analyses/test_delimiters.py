"""Fig. 5 and 6: attention to delimiters from all other tokens."""

import pytest
import torch

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.delimiters import SCHEMA, Delimiters, attention_to
from effective_attention.data.annotation.tagging import KINDS


def test_by_hand():
    attention = torch.tensor([[[[0.6, 0.4, 0.0], [0.1, 0.9, 0.0], [0.3, 0.7, 0.0]]]])
    delimiters = torch.tensor([[[True, False, False]]])
    real = torch.tensor([[True, True, False]])  # the first query is the delimiter itself, the last is padding
    assert attention_to(attention, delimiters, real).item() == pytest.approx(0.1)


def test_several_delimiters_add_up():
    attention = torch.full((1, 1, 4, 4), 0.25)
    delimiters = torch.tensor([[[True, False, False, False], [False, True, False, True]]])
    assert attention_to(attention, delimiters, torch.ones(1, 4, dtype=torch.bool))[0, 0].tolist() == [0.25, 0.5]


def test_against_a_naive_loop(subject, context, singles):
    table = run_analyses(subject, {"a": Delimiters().setup(context)})["a"].set_index(
        ["attention", "layer", "head", "delimiter"]
    )
    for attention in ("standard", "effective"):
        for layer in range(2):
            for head in range(4):
                for delimiter in ("cls", "sep"):
                    means = []
                    for index, seen in enumerate(singles):
                        kinds = [KINDS[kind] for kind in subject.annotated.kind[subject.annotated.span(index)]]
                        matrix = seen.layers[layer].part(attention)[0, head].tolist()
                        rows = [row for row, kind in zip(matrix, kinds, strict=True) if kind != delimiter]
                        sums = [sum(w for w, kind in zip(row, kinds, strict=True) if kind == delimiter) for row in rows]
                        means.append(sum(sums) / len(sums))
                    got = table.loc[(attention, layer, head, delimiter), "value"]
                    assert got == pytest.approx(sum(means) / len(means), abs=1e-6)


def test_the_scale_is_over_all_weights(subject, context, singles):
    table = run_analyses(subject, {"a": Delimiters().setup(context)})["a"]
    SCHEMA.check(table, "delimiters")
    assert set(table["count"]) == {len(subject.split)}
    weights = [layer.part("effective") for seen in singles for layer in seen.layers]
    effective = table[table["attention"] == "effective"]
    assert effective["scale_min"].unique().tolist() == pytest.approx([float(min(w.min() for w in weights))], abs=1e-6)
    assert effective["scale_max"].unique().tolist() == pytest.approx([float(max(w.max() for w in weights))], abs=1e-6)
    standard = table[table["attention"] == "standard"]
    assert (standard["scale_min"].unique().tolist(), standard["scale_max"].unique().tolist()) == ([0.0], [1.0])
