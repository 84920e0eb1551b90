"""The league table against loops over single examples, gold subjects by hand, a regression task, choosing methods."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.faithfulness import (
    CHANGE,
    COST,
    DIFFERENCE,
    MEASURES,
    RANK,
    SCHEMA,
    Faithfulness,
    subject_first,
)
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions import registry
from effective_attention.attributions.attribute import runs
from effective_attention.errors import UserError
from helpers.cases import build_case
from helpers.own_methods import import_from, last_words_module
from helpers.paths import ROOT


@pytest.fixture(scope="module")
def table(subject: Any, context: Any) -> pd.DataFrame:
    return run_analyses(subject, {"faithfulness": Faithfulness(limit=None, steps=4).setup(context)})["faithfulness"]


def value(
    table: pd.DataFrame, method: str, measure: str, attention: str | None = None, layer: int | None = None
) -> pd.Series:
    rows = table[(table["method"] == method) & (table["measure"] == measure)]
    rows = rows[rows["attention"].isna() if attention is None else rows["attention"] == attention]
    rows = rows if layer is None else rows[rows["layer"] == layer]
    assert len(rows) == 1
    return rows.iloc[0]


def words_of(one: Any) -> Any:
    return ((one.tokens["kind"] == 0) | (one.tokens["kind"] == 1))[0].numpy()


def probability(subject: Any, inputs: Any, label: int) -> float:
    with torch.no_grad():
        given = {name: tensor for name, tensor in inputs.items() if name not in ("labels", "index")}
        return float(subject.model(**given).logits.softmax(dim=-1)[0, label])


def blanked(subject: Any, one: Any) -> Any:
    """Each word replaced by [UNK] in turn: the loss of probability of the predicted class."""
    label, unknown = int(one.logits[0].argmax()), subject.data.tokenizer.unk_token_id
    losses = []
    for place in np.flatnonzero(words_of(one)):
        ids = one.inputs["input_ids"].clone()
        ids[0, place] = unknown
        losses.append(
            probability(subject, one.inputs, label) - probability(subject, {**one.inputs, "input_ids": ids}, label)
        )
    return np.array(losses)


def test_every_method_and_measure_is_there(table: pd.DataFrame, context: Any) -> None:
    SCHEMA.check(table, "faithfulness")
    assert set(table["examples"]) == {context.examples}
    league = table[table["measure"] == "comprehensiveness"]
    shown = list(zip(league["attention"].fillna("none"), league["method"], strict=True))
    assert shown == [(attention or "none", method.name) for method, attention in runs(registry.registered())]
    reading = [method for method in registry.registered() if method.reads_attention]
    assert set(table["measure"]) <= {*(measure.name for measure in MEASURES), RANK, DIFFERENCE, CHANGE, COST}
    layered = table[(table["measure"] == "spearman_blank_out") & table["attention"].notna()]
    assert len(layered) == len(ATTENTIONS) * len(reading) * context.layers
    assert "subject_first" not in set(table["measure"])  # these texts have no gold subject
    costs = table[table["measure"] == "milliseconds"]
    assert len(costs) == len(league)
    assert (costs["value"] >= 0).all()
    assert (costs["value"] > 0).any()
    assert (table["low"].dropna() <= table["value"][table["low"].notna()] + 1e-12).all()
    assert (table["high"].dropna() >= table["value"][table["high"].notna()] - 1e-12).all()


def test_raw_attention_against_blank_out(table: pd.DataFrame, subject: Any, singles: list[Any]) -> None:
    for layer in range(2):
        rows = []
        for one in singles:
            weights = one.layers[layer].attention[0].mean(dim=0)[0].numpy()[words_of(one)]
            rows.append(stats.spearmanr(weights, np.abs(blanked(subject, one))).statistic)
        got = value(table, "raw", "spearman_blank_out", "standard", layer)
        assert got["value"] == pytest.approx(
            np.mean(rows), abs=1e-2
        )  # a random model has near ties, which rounding orders
        assert got["std"] == pytest.approx(np.std(rows, ddof=1), abs=1e-2)
        assert got["count"] == len(singles)


def test_comprehensiveness_of_blank_out(table: pd.DataFrame, subject: Any, singles: list[Any]) -> None:
    wanted = []
    for one in singles:
        label, places, losses = int(one.logits[0].argmax()), np.flatnonzero(words_of(one)), blanked(subject, one)
        drops = []
        for share in (0.01, 0.05, 0.1, 0.2, 0.5):
            top = places[np.argsort(-losses, kind="stable")[: max(1, int(np.ceil(share * len(places) - 1e-9)))]]
            keep = np.setdiff1d(np.arange(len(one.inputs["input_ids"][0])), top)
            rest = {name: tensor[:, keep] for name, tensor in one.inputs.items() if tensor.ndim == 2}
            drops.append(probability(subject, one.inputs, label) - probability(subject, rest, label))
        wanted.append(np.mean(drops))
    got = value(table, "blank_out", "comprehensiveness")
    assert got["value"] == pytest.approx(np.mean(wanted), abs=1e-4)


def test_a_sample_is_the_same_examples_however_they_are_batched(make_subject: Any) -> None:
    found = []
    for size in (1, 4):
        small = make_subject(batch_size=size, examples=6)
        context = small.context(seed=3, task=small.data.task)
        made = run_analyses(small, {"faithfulness": Faithfulness(limit=3, steps=2).setup(context)})["faithfulness"]
        found.append(numbers(made)[lambda rows: ~rows["measure"].str.startswith("normalised")])
        made = found[-1]
        assert set(made["count"]) == {3} == set(made["examples"])
    np.testing.assert_allclose(found[0]["value"], found[1]["value"], atol=1e-2)


def test_delimiters_may_be_ranked_too(subject: Any, context: Any, singles: list[Any]) -> None:
    made = run_analyses(
        subject, {"faithfulness": Faithfulness(limit=None, steps=1, shares=[0.2], delimiters=True).setup(context)}
    )["faithfulness"]
    rows = []
    for one in singles:
        gradient = value_gradient(subject, one)
        rows.append(stats.spearmanr(one.layers[0].attention[0].mean(dim=0)[0].numpy(), gradient).statistic)
    assert value(made, "raw", "spearman_gradients", "standard", 0)["value"] == pytest.approx(np.mean(rows), abs=1e-2)
    # only now is there a difference: the residual is [CLS]'s own weight
    assert value(made, "rollout", "spearman_gradients", "standard", 0)["value"] != pytest.approx(
        np.mean(rows), abs=1e-3
    )


def value_gradient(subject: Any, one: Any) -> Any:
    """Norm of the gradient of the answer's log-odds at each embedding."""
    embed = subject.model.get_input_embeddings()
    start = embed(one.inputs["input_ids"]).detach().requires_grad_()
    rest = {name: one.inputs[name] for name in ("attention_mask", "token_type_ids") if name in one.inputs}
    logits = subject.model(inputs_embeds=start, **rest).logits[0]
    label = int(one.logits[0].argmax())
    (logits[label] - logits[1 - label]).backward()
    subject.model.zero_grad()
    return start.grad[0].norm(dim=-1).numpy()


# --- the subject, other tasks, options ---


def test_the_subject_must_outrank_every_attractor() -> None:
    role = torch.tensor([[0, 1, 1, 2, 0, 2, -1], [0, 1, 0, 0, 0, 0, -1], [0, 1, 2, 0, 0, 0, -1]])
    scores = torch.tensor([[9, 0.1, 0.5, 0.4, 9, 0.3, 9], [0, 1, 2, 3, 4, 5, 6], [0, 0.5, 0.5, 0, 0, 0, 0.0]])[:, None]
    got = subject_first(scores.double(), role)[:, 0]
    assert got[0] == 1  # its best sub-token counts
    assert got[1].isnan()  # nothing to outrank
    assert got[2] == 0  # a tie is no victory


def test_regression(make_subject: Any) -> None:
    small = make_subject(task="stsb", examples=3)
    context = small.context(seed=0, task=small.data.task)
    made = run_analyses(small, {"faithfulness": Faithfulness(steps=2).setup(context)})["faithfulness"]
    assert made["value"].notna().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, r"analysis\.faithfulness\.limit must be at least 1, or null for all, got 0"),
        ({"row": 64}, r"analysis\.faithfulness\.row must be null or from 0 to 63, got 64"),
        (
            {"residual": 1.5},
            r"analysis\.faithfulness\.residual must be a number from 0 to 1, got 1\.5; the paper's is 0\.5",
        ),
        (
            {"protocol": "abnar"},
            r"^analysis\.faithfulness\.protocol must be ours or abnar2020, got 'abnar'$",
        ),
        (
            {"gradient": "mean"},
            r"^analysis\.faithfulness\.gradient must be norm or sum, or null \(as protocol=ours says\), got 'mean'$",
        ),
        ({"query": "cls"}, r"^analysis\.faithfulness\.query must be answer or max, or null .*, got 'cls'$"),
        ({"ties": 1}, r"^analysis\.faithfulness\.ties must be mean or dense, or null .*, got 1$"),
        ({"delimiters": 1}, r"^analysis\.faithfulness\.delimiters must be true or false, or null .*, got 1$"),
        (
            {"protocol": "abnar2020", "target": "gold"},
            r"^analysis\.faithfulness\.target must be predicted or correct or first, or null \(as protocol=abnar2020",
        ),
        ({"steps": 0}, r"analysis\.faithfulness\.steps must be at least 1, got 0"),
        ({"shares": []}, r"analysis\.faithfulness\.shares must be numbers above 0, up to 1"),
        (
            {"convention": "squared"},
            r"analysis\.faithfulness\.convention must be one of absolute, positive, got 'squared'",
        ),
        ({"erase": "burn"}, r"analysis\.faithfulness\.erase must be delete or blank or hide, or a list .* got 'burn'"),
        ({"erase": ["hide", "hide"]}, r"erase must be .* or a list of these, each once, got \['hide', 'hide'\]"),
        ({"erase": []}, r"analysis\.faithfulness\.erase must be .* got \[\]"),
        ({"unit": "letter"}, r"analysis\.faithfulness\.unit must be word or token, or a list .* got 'letter'"),
        ({"sanity": "yes"}, r"analysis\.faithfulness\.sanity must be true or false, got 'yes'"),
        ({"stability": 1}, r"analysis\.faithfulness\.stability must be true or false, got 1"),
        ({"compare": "speed"}, r"analysis\.faithfulness\.compare must be null or one of .* got 'speed'"),
        ({"compare": "randomised"}, r"compare must be measured: randomised needs sanity=true, got 'randomised'"),
        (
            {"methods": ["rolout"]},
            r"analysis\.faithfulness\.methods must be .* got 'rolout'; did you mean rollout\? known:",
        ),
        ({"methods": []}, r"analysis\.faithfulness\.methods must be all or a list of names, got \[\]; known: raw, "),
    ],
)
def test_wrong_options(context: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Faithfulness(**options).setup(context)


def test_a_tokenizer_without_a_blank(context: Any) -> None:
    from types import SimpleNamespace

    bare = replace(context, tokenizer=SimpleNamespace(unk_token_id=None, mask_token_id=None))
    with pytest.raises(UserError, match="no unknown, mask, end or start token"):
        Faithfulness().setup(bare)


# --- choosing methods ---


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))


def methods_of(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["method"]))


def numbers(table: pd.DataFrame) -> pd.DataFrame:
    """All but what the machine needed, and what depends on the other methods."""
    rows = table[~table["measure"].isin([COST, RANK, DIFFERENCE, CHANGE])].reset_index(drop=True)
    texts = rows.select_dtypes(["object", "string"]).columns
    return rows.astype(dict.fromkeys(texts, "string"))  # of objects where all are missing


@pytest.mark.parametrize(
    "chosen",
    [["integrated_gradients", "rollout"], ["blank_out"], ["input_gradient"], ["random", "norm", "blank_out"]],
)
def test_chosen_methods_have_the_numbers_they_have_among_all(
    table: pd.DataFrame, subject: Any, context: Any, chosen: list[str]
) -> None:
    own = Faithfulness(limit=None, steps=4, methods=chosen).setup(context)
    made = run_analyses(subject, {"faithfulness": own})["faithfulness"]
    assert methods_of(made) == chosen  # so references that were not chosen have no rows
    assert methods_of(made[made["measure"] == "milliseconds"]) == chosen
    among_all = pd.concat([table[table["method"] == name] for name in chosen], ignore_index=True)
    pd.testing.assert_frame_equal(numbers(made), numbers(among_all), rtol=0, atol=1e-9)
    compared = numbers(made).groupby("method")["measure"].agg(set)
    for name in chosen:
        assert ("spearman_blank_out" in compared[name]) == (name != "blank_out")
        assert ("spearman_gradients" in compared[name]) == (name != "input_gradient")


def test_only_what_is_chosen_is_computed(subject: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def noting(method: registry.Method) -> registry.Method:
        return replace(method, function=lambda *given: ran.append(method.name) or method.function(*given))

    noted = {method.name: noting(method) for method in registry.registered()}
    monkeypatch.setattr(registry, "_METHODS", noted)
    run_analyses(subject, {"faithfulness": Faithfulness(limit=1, methods=["raw"]).setup(context)})
    assert ran == ["raw", "raw", "input_gradient", "blank_out"]  # both attentions, and what it is compared with


def test_a_method_of_the_users_own_is_in_the_table(
    subject: Any, context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_registry: None
) -> None:
    module, name = last_words_module(tmp_path, monkeypatch)
    own = Faithfulness(limit=2, methods=[f"{module}:{name}", "raw"]).setup(context)
    made = run_analyses(subject, {"faithfulness": own})["faithfulness"]
    assert methods_of(made) == [name, "raw"]
    assert value(made, name, "comprehensiveness")["count"] == 2
    assert Faithfulness(limit=2, steps=1).setup(context).league[-1] == (None, name), "all means those of the user too"


def blocks(language: str) -> list[str]:
    """What docs/add-a-method.md shows in one language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / "add-a-method.md").read_text("utf-8"), re.DOTALL)


def test_the_documented_steps(
    subject: Any, context: Any, compose: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_registry: None
) -> None:
    module, oracle = blocks("python")
    import_from(tmp_path, monkeypatch, "my_methods", module)  # 1. write it

    (command,) = blocks("bash")  # 2. choose it
    _, script, *overrides = shlex.split(command)
    assert (ROOT / script).is_file()
    options = compose(Path(script).stem, *overrides).analysis.faithfulness
    made = run_analyses(subject, {"faithfulness": Faithfulness(limit=3, methods=options.methods).setup(context)})[
        "faithfulness"
    ]
    assert methods_of(made) == ["rollout", "strongest_head"]
    strongest = made[made["method"] == "strongest_head"]
    assert set(strongest["attention"]) == set(ATTENTIONS)
    assert set(strongest["layer"].dropna()) == set(range(context.layers))

    steps: dict[str, Any] = {}  # 3. test it
    exec(oracle, steps)
    (method,) = registry.choose(["strongest_head"], "methods")
    for attention in ATTENTIONS:
        work = build_case("bert").work()
        found = method.function(work, attention)
        steps["check"](work, attention, found)
        with pytest.raises(AssertionError):
            steps["check"](work, attention, found + 1e-3)
