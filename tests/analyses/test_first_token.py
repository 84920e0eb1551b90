"""Attention to the first token: it counts in an encoder, does not in a causal model, and an option decides otherwise.

The oracle is a model whose weights on the first token were set to 0 by hand, for measures that are sums of weights.
"""

from dataclasses import replace
from typing import Any

import pytest

from effective_attention.analyses.common.registry import find_analysis
from effective_attention.analyses.common.run import run_analyses
from effective_attention.errors import UserError

NAMES = ("distance", "entropy", "variability", "pos_attention", "dependency_alignment", "exemplars")


def table_of(subject: Any, context: Any, name: str, **options: Any) -> Any:
    extra = {"least": 0} if name == "dependency_alignment" else {}
    extra = extra if name == "dependency_alignment" else {"special_tokens": True}
    made = find_analysis(name)(**extra, **options).setup(context)
    return run_analyses(subject, {name: made})[name]


def same(one: Any, other: Any) -> bool:
    return bool(one.drop(columns="first_token").equals(other.drop(columns="first_token")))


@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_and_a_causal_model(subject: Any, context: Any, name: str) -> None:
    kept, left_out = (table_of(subject, context, name, first_token=choice) for choice in (True, False))
    assert set(kept["first_token"]) == {True}
    assert set(left_out["first_token"]) == {False}
    if name != "dependency_alignment":  # whose first token is [CLS], which never counts
        assert not same(kept, left_out)
    by_default = table_of(subject, context, name)
    assert same(by_default, kept)
    assert set(by_default["first_token"]) == {True}
    causal = table_of(subject, replace(context, causal=True), name)
    assert same(causal, left_out)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_value(name: str) -> None:
    with pytest.raises(UserError, match=rf"analysis\.{name}\.first_token must be true, false or null .* got 'no'"):
        find_analysis(name)(first_token="no")


def test_against_weights_set_to_zero(subject: Any, context: Any) -> None:
    """Of all pairs but those with the first key, the mean distance; nothing is divided anew."""
    found = table_of(subject, context, "distance", first_token=False)
    total = apart = 0.0
    for index in range(len(subject.split)):
        weights = subject.trace([index]).layers[1].attention[0, 2].double()
        for query in range(len(weights)):
            for key in range(1, len(weights)):
                total += float(weights[query, key])
                apart += float(weights[query, key]) * abs(query - key)
    row = found[(found["attention"] == "standard") & (found["layer"] == 1) & (found["head"] == 2)]
    assert row["value"].item() == pytest.approx(apart / total, rel=1e-5)
