"""Words, ways to erase, ground truth, sanity, stability and comparisons, against loops over single examples."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from effective_attention.analyses.common.protocol import PRESETS
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.faithfulness import CHANGE, DIFFERENCE, MEASURES, RANK, SCHEMA, Faithfulness
from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.analyses.faithfulness.pairs import changed
from effective_attention.analyses.faithfulness.readings import NOT_THE_START
from effective_attention.analyses.faithfulness.truth import pointing
from effective_attention.analyses.faithfulness.ways import choose_ways
from effective_attention.attention.trace import trace
from effective_attention.attributions.attribute import Attribution
from effective_attention.attributions.comparison import holm, paired_differences
from effective_attention.attributions.randomised import randomised
from effective_attention.attributions.words import tokens_of, words_of
from helpers.cases import build_case
from helpers.subjects import build_subject

METHODS = ["raw", "input_gradient", "blank_out", "random"]


def made_of(subject: Any, context: Any, **options: Any) -> pd.DataFrame:
    options = {"limit": None, "steps": 1, "shares": [0.2, 0.5], "methods": METHODS, **options}
    found: pd.DataFrame = run_analyses(subject, {"faithfulness": Faithfulness(**options).setup(context)})[
        "faithfulness"
    ]
    SCHEMA.check(found, "faithfulness")
    return found


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Make a model whose answers depend on its words: those of the usual one hardly do."""
    made = build_subject(tmp_path_factory.mktemp("measures"))
    with torch.no_grad():
        for name, weight in made.model.named_parameters():
            weight.mul_(6 if weight.ndim > 1 and "query" not in name and "key" not in name else 1)
    return made


@pytest.fixture(scope="module")
def table(subject: Any, context: Any) -> pd.DataFrame:
    ways = {"unit": ["token", "word"], "erase": ["delete", "hide"]}
    return made_of(subject, context, **ways, sanity=True, stability=True)


def row(table: pd.DataFrame, method: str, measure: str, **place: Any) -> pd.Series:
    rows = table[(table["method"] == method) & (table["measure"] == measure)]
    for name, wanted in place.items():
        rows = rows[rows[name] == wanted]
    assert len(rows) == 1
    return rows.iloc[0]


def words(subject: Any, texts: Any) -> tuple[Any, list[Any]]:
    """Tokenise texts; return the model's inputs and the words."""
    tokenizer = subject.data.tokenizer
    encoded = tokenizer(*texts, truncation=True, max_length=subject.data.max_length, return_tensors="pt")
    return encoded, words_of(tokens_of(encoded, texts, tokenizer), texts)


def answer(subject: Any, inputs: Any, label: int) -> float:
    with torch.no_grad():
        return float(subject.model(**inputs).logits.softmax(dim=-1)[0, label])


def without(subject: Any, encoded: Any, gone: list[int], erase: str, label: int) -> float:
    if erase == "hide":
        mask = encoded["attention_mask"].clone()
        mask[:, gone] = 0
        return answer(subject, {**encoded, "attention_mask": mask}, label)
    keep = [place for place in range(encoded["input_ids"].shape[1]) if place not in gone]
    return answer(subject, {name: value[:, keep] for name, value in encoded.items()}, label)


@pytest.mark.parametrize("erase", ["delete", "hide"])
def test_words_are_erased_by_the_largest_of_their_pieces(
    table: pd.DataFrame, subject: Any, singles: list[Any], erase: str
) -> None:
    """Check blank-out, whose pieces count by the largest, word by word."""
    unknown = subject.data.tokenizer.unk_token_id
    drops: list[list[float]] = []
    for one in singles:
        encoded, found = words(subject, subject.split.examples.texts[int(one.inputs["index"])])
        label, before = int(one.logits[0].argmax()), 0.0
        before = answer(subject, encoded, label)

        def loss(place: int, encoded: Any = encoded, label: int = label, before: float = before) -> float:
            ids = encoded["input_ids"].clone()
            ids[0, place] = unknown
            return before - answer(subject, {**encoded, "input_ids": ids}, label)

        scores = [max((loss(place) for place in word.tokens), key=abs) for word in found]
        order = sorted(range(len(found)), key=lambda number: -scores[number])
        for share in (0.2, 0.5):
            top = order[: max(1, int(np.ceil(share * len(found) - 1e-9)))]
            gone = [place for number in top for place in found[number].tokens]
            rest = [place for number in order if number not in top for place in found[number].tokens]
            every = gone + rest
            needed, enough, most = (
                before - without(subject, encoded, part, erase, label) for part in (gone, rest, every)
            )
            drops.append([needed, enough, min(1, max(0, needed) / most) if most > 1e-5 else np.nan])
    expected = np.array(drops).reshape(len(singles), 2, 3).mean(axis=1)
    assert np.abs(expected[:, 0]).mean() > 0.01
    for place, measure in enumerate(("comprehensiveness", "sufficiency", "normalised_comprehensiveness")):
        got = row(table, "blank_out", measure, unit="word", erase=erase)
        assert got["value"] == pytest.approx(np.nanmean(expected[:, place]), abs=2e-3), measure
        assert got["count"] == np.isfinite(expected[:, place]).sum()


def test_every_way_has_its_rows(table: pd.DataFrame) -> None:
    erased = table[table["erase"].notna()]
    assert erased.groupby(["unit", "erase"]).size().nunique() == 1
    assert set(zip(erased["unit"], erased["erase"], strict=True)) == {
        ("token", "delete"), ("token", "hide"), ("word", "delete"), ("word", "hide"),
    }  # fmt: skip
    values = erased[(erased["measure"] == "comprehensiveness") & (erased["method"] == "blank_out")]["value"]
    assert values.nunique() == 4, "they differ"


def test_the_model_with_random_layers(table: pd.DataFrame, subject: Any, context: Any, singles: list[Any]) -> None:
    fresh = randomised(singles[0], seed=NOT_THE_START + context.seed)
    found = []
    for one in singles:
        inside = (one.tokens["kind"] == 0) | (one.tokens["kind"] == 1)
        both = [seen.layers[1].attention[0].mean(dim=0)[0][inside[0]] for seen in (one, trace(fresh, one.inputs))]
        found.append(stats.spearmanr(*both).statistic)
    got = row(table, "raw", "randomised", attention="standard", layer=1)
    assert got["value"] == pytest.approx(np.mean(found), abs=1e-2)
    assert row(table, "random", "randomised")["value"] == pytest.approx(1), "noise does not know the model"


def test_the_pair_the_other_way_round(table: pd.DataFrame, subject: Any, singles: list[Any]) -> None:
    found = []
    for one in singles:
        texts = subject.split.examples.texts[int(one.inputs["index"])]
        scores = []
        for turned in (False, True):
            encoded, here = words(subject, texts[::-1] if turned else texts)
            weights = trace(subject.model, dict(encoded)).layers[0].attention[0].mean(dim=0)[0]
            places = [(1 - word.segment if turned else word.segment, word.start) for word in here]
            scores.append(dict(zip(places, [float(weights[list(word.tokens)].sum()) for word in here], strict=True)))
        both = [place for place in scores[0] if place in scores[1]]
        found.append(stats.spearmanr([scores[0][p] for p in both], [scores[1][p] for p in both]).statistic)
    got = row(table, "raw", "stability", attention="standard", layer=0)
    assert got["value"] == pytest.approx(np.mean(found), abs=1e-2)
    assert got["count"] == len(singles)


def test_methods_are_compared_on_the_same_examples(table: pd.DataFrame, singles: list[Any]) -> None:
    league = [
        ("standard", "raw"),
        ("effective", "raw"),
        (None, "input_gradient"),
        (None, "blank_out"),
        (None, "random"),
    ]
    means = {}
    for attention, method in league:
        place = {} if attention is None else {"attention": attention}
        means[attention, method] = row(table, method, "comprehensiveness", unit="token", erase="delete", **place)[
            "value"
        ]
    pairs = table[table["measure"] == DIFFERENCE]
    assert len(pairs) == len(list(combinations(league, 2)))
    for _, pair in pairs.iterrows():
        one, other = (
            (None if pd.isna(pair[kind]) else pair[kind], pair[name])
            for kind, name in (("attention", "method"), ("other_attention", "other_method"))
        )
        assert pair["value"] == pytest.approx(means[one] - means[other], abs=1e-9)
        assert pair["low"] <= pair["value"] <= pair["high"]
        assert 0 <= pair["beyond"] <= 1
        assert 0 < pair["p"] <= 1
    ranks = table[table["measure"] == RANK]
    assert ranks["value"].sum() == pytest.approx(5 * 6 / 2)
    assert set(ranks["count"]) == {len(singles)}
    assert set(ranks["compared"]) == set(pairs["compared"]) == {"comprehensiveness"}


def test_effective_is_compared_with_standard_on_every_measure(table: pd.DataFrame, subject: Any, context: Any) -> None:
    """Check each change against the means: all examples are in both, so that it is their difference."""
    changes = table[table["measure"] == CHANGE]
    last = table["layer"].max()
    plain = table[(table["layer"] == last) & (table["method"] == "raw")].set_index(
        ["attention", "measure", "unit", "erase"]
    )
    places = plain.index[plain.index.get_level_values("attention") == "standard"]
    assert {tuple(row) for row in changes[["compared", "unit", "erase"]].fillna("").itertuples(index=False)} == {
        tuple("" if pd.isna(one) else one for one in place[1:]) for place in places
    }
    for _, change in changes[changes["compared"] == "comprehensiveness"].iterrows():
        at = (change["compared"], change["unit"], change["erase"])
        one, other = (plain.loc[[(kind, *at)]].iloc[0] for kind in ("effective", "standard"))
        assert one["count"] == other["count"] == change["count"]
        assert change["value"] == pytest.approx(one["value"] - other["value"], abs=1e-9)
    assert set(changes["method"]) == {"raw"}
    alone = made_of(subject, context, methods=["random"], limit=2)
    assert CHANGE not in set(alone["measure"])


@pytest.mark.parametrize("name", ["sufficiency", "randomised"])
def test_changes_of_several_methods_are_corrected_together(name: str) -> None:
    """Check three methods, one of them under standard attention alone, and values that are missing or below zero."""
    entries = [("effective", "flow"), ("standard", "raw"), ("standard", "norm"), (None, "random"), ("standard", "flow"),
               ("effective", "raw")]  # fmt: skip
    values = torch.randn(20, len(entries), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    values[:, 0] += 0.8
    values[4, 1] = torch.nan
    (measure,) = (measure for measure in MEASURES if measure.name == name)
    found = changed(values, entries, measure, seed=5).set_index("method")
    assert list(found.index) == ["flow", "raw"]
    assert set(found["attention"]) == {"effective"}
    sizes = values.abs() if name == "randomised" else values
    raw = []
    for method, one, other in (("flow", 0, 4), ("raw", 5, 1)):
        apart = sizes[:, one] - sizes[:, other]
        assert found["value"][method] == pytest.approx(float(apart.nanmean()))
        assert found["count"][method] == int((~apart.isnan()).sum())
        (alone,) = paired_differences(sizes[:, [one, other]], seed=5)
        raw.append(alone.p)
    assert found["p"].tolist() == pytest.approx(holm(raw))
    assert found["p"].tolist() != raw


@pytest.mark.parametrize(("measure", "more"), [("sufficiency", {}), ("randomised", {"sanity": True}), (None, {})])
def test_any_measure_can_be_compared_or_none(subject: Any, context: Any, measure: str | None, more: Any) -> None:
    found = made_of(subject, context, methods=["raw", "random"], limit=4, compare=measure, **more)
    ranks = found[found["measure"] == RANK].set_index(["attention", "method"])["value"]
    assert len(ranks) == (0 if measure is None else 3)
    if measure == "randomised":
        assert ranks.idxmax()[1] == "random", "what does not change at all is worst"


def test_one_method_is_compared_with_nobody(subject: Any, context: Any) -> None:
    found = made_of(subject, context, methods=["blank_out"], limit=2)
    assert not set(found["measure"]) & {RANK, DIFFERENCE}


def test_batches_change_nothing(make_subject: Any) -> None:
    found = []
    for size in (1, 3):
        small = make_subject(batch_size=size, examples=5)
        context = small.context(seed=3, task=small.data.task)
        options = {"unit": ["word"], "erase": "hide", "sanity": True, "stability": True}
        made = made_of(small, context, methods=["raw", "input_gradient"], **options)
        found.append(made[~made["measure"].isin(["milliseconds", RANK, DIFFERENCE, CHANGE])])
    np.testing.assert_allclose(found[0]["value"], found[1]["value"], atol=2e-2)  # near ties, which rounding orders


def test_model_and_random_numbers_are_left_as_they_were(make_subject: Any) -> None:
    small = make_subject(examples=3)
    context = small.context(seed=3, task=small.data.task)
    before = {name: value.clone() for name, value in small.model.state_dict().items()}
    numbers = torch.get_rng_state()
    made_of(small, context, unit=["token", "word"], erase=["hide", "blank"], sanity=True, stability=True)
    assert torch.equal(torch.get_rng_state(), numbers)
    assert all(torch.equal(value, before[name]) for name, value in small.model.state_dict().items())
    assert not small.model.training


def test_single_texts_have_no_stability(make_subject: Any, caplog: pytest.LogCaptureFixture) -> None:
    small = make_subject(task="sst2", examples=3)
    context = small.context(seed=3, task=small.data.task)
    with caplog.at_level(logging.WARNING):
        made = made_of(small, context, methods=["raw", "random"], stability=True)
    assert "stability" not in set(made["measure"])
    assert "leaves out the measure stability: nothing in this data can be changed" in caplog.text
    assert "faithfulness: 3 examples: 95 % intervals of fewer than 30 are too short" in caplog.text


def test_who_points_at_the_subject_is_told_by_signed_scores() -> None:
    case = build_case("bert", (7, 5))
    role = torch.tensor([[0, 0, 1, 1, 2, 0, 0], [0, 0, 2, 0, 0, -1, -1]])
    scores = torch.tensor([[[9.0, 0.1, -9.0, 0.3, 0.2, 0.4, 9.0]], [[9.0, 1.0, 2.0, 3.0, 9.0, 0.0, 0.0]]])
    request = replace(case.request, trace=replace(case.trace, tokens={"role": role}))
    said = [Attribution("mine", None, scores, 0.0)]
    asked = Asked(request, said, {}, case.words, case.words, PRESETS["ours"], [0.5], choose_ways("token", "delete"), 3)
    found = {name: pointing(asked, name)[0] for name in ("mrr", "pta", "pg_3", "rma")}
    assert {name: round(value[0].item(), 6) for name, value in found.items()} == {
        "mrr": 0.5, "pta": 0.0, "pg_3": 1.0, "rma": 0.3,
    }  # fmt: skip
    assert all(value[1].isnan().all() for value in found.values()), "no subject"
