"""The analysis ``explain`` says what the function says, of an example of the split or of the user's text."""

import dataclasses

import pytest

from effective_attention import analyse, explain
from effective_attention.analyses.common.base import UserText
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.explain import Explain
from effective_attention.attention.trace import trace
from effective_attention.errors import UserError

TEXTS = ("A cat didn't sit.", "It purred.")


def table_of(subject, context, **options):
    return run_analyses(subject, {"a": Explain(**options).setup(context)})["a"]


def same(table, found):
    trust = found.trust
    assert table["word"].tolist() == [word.text for word in found.words]
    assert table["score"].tolist() == pytest.approx(list(found.scores), abs=1e-6)
    first = table.iloc[0]
    assert (first["predicted"], first["target"], first["method"]) == (found.predicted, found.target, found.method)
    assert first["probability"] == pytest.approx(found.probability)
    assert first["comprehensiveness"] == pytest.approx(trust.comprehensiveness.value, abs=1e-6)
    assert first["sufficiency_random"] == pytest.approx(trust.sufficiency.random, abs=1e-6)
    assert set(table["rankings"]) == {20}


def test_an_example_of_the_split(subject, context):
    table = table_of(subject, context, example=1)
    texts = subject.split.examples.texts[1]
    same(table, explain(subject.model, context.tokenizer, *texts, labels=context.task.labels))
    assert set(table["gold"]) == {context.task.labels[subject.split.examples.labels[1]]}
    assert table["attention"].isna().all()
    assert "".join(table["before"] + table["word"])[: len(texts[0])] == texts[0]


def test_a_text_of_the_users_and_another_method(subject, context):
    inputs = context.tokenizer(*TEXTS, return_tensors="pt")
    own = dataclasses.replace(context, text=UserText(TEXTS, trace(subject.model, inputs)))
    options = {"method": "rollout", "attention": "standard", "layer": 0, "target": 1}
    table = table_of(subject, own, **options, unit="token")
    same(table, explain(subject.model, context.tokenizer, *TEXTS, labels=context.task.labels, unit="token", **options))
    assert (set(table["attention"]), set(table["layer"])) == ({"standard"}, {0})
    assert table["gold"].isna().all()
    assert table["special"].sum() == 3


def test_from_python_without_labels(subject, tokenizer):
    table = analyse(subject.model, tokenizer, [TEXTS], [Explain(method="gradient_x_input")], progress=False)["explain"]
    same(table, explain(subject.model, tokenizer, *TEXTS, method="gradient_x_input"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"method": "magic"},
            r"analysis\.explain\.method must be the name of an attribution method, got 'magic'; known",
        ),
        ({"unit": "letter"}, r"analysis\.explain\.unit must be word or token, got 'letter'"),
        ({"target": 9}, r"analysis\.explain\.target must be from 0 to 1, or one of not_equivalent, equivalent, got 9"),
        ({"method": "raw", "layer": 9}, r"analysis\.explain\.layer must be from 0 to \d+, got 9"),
        ({"example": 99}, r"analysis\.explain\.example must be from 0 to 8, got 99"),
    ],
)
def test_bad_options(context, options, message):
    with pytest.raises(UserError, match=message):
        Explain(**options).setup(context)


def test_a_model_that_is_no_classifier_is_left_out(subject, context):
    bare = dataclasses.replace(context, probe=trace(subject.model.base_model, dict(context.probe.inputs)))
    assert Explain().obstacle(context) is None
    assert Explain().obstacle(bare) == "BertModel is no classifier"
