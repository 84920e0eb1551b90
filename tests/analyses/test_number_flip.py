"""Exchanged numbers against a loop over examples, the weight on marked words, correlations, mistakes, bad input."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from tokenizers import processors

from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.number_flip import SCHEMA, NumberFlip, rank_correlation, word_spans
from effective_attention.data.agreement.other_number import other_number
from effective_attention.errors import UserError
from effective_attention.graphs.flow import attention_flow
from effective_attention.graphs.rollout import attention_rollout
from helpers.decoders import build_tokenizer
from helpers.subjects import build_subject


@pytest.fixture(scope="module")
def agreement(tmp_path_factory):
    return build_subject(tmp_path_factory.mktemp("agreement"), task="agreement", examples=12)


@pytest.fixture(scope="module")
def known(agreement):
    return agreement.context(task=agreement.data.task)


@pytest.fixture(scope="module")
def table(agreement, known):
    return table_of(agreement, known)


def table_of(subject, context, **options):
    options = {"limit": None, **options}
    return run_analyses(subject, {"a": NumberFlip(**options).setup(context)})["a"]


def rows_of(table, **where):
    for name, value in where.items():
        table = table[table[name] == value]
    return table


# --- against a loop over examples, from the marks of the data ---


def chance_of(subject, text):
    given = subject.data.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        return float(subject.model(**given).logits.double().softmax(dim=-1)[0, 1])


def exchanged(subject, index, word):
    """The text with the marked word in its other number, by the data's own marks; None: there is no such word."""
    marks, plural = subject.split.examples.marks[index], bool(subject.split.examples.labels[index])
    spans = [marks.subject] if word == "subject" else list(marks.attractors)
    if not spans:
        return None
    (text,) = subject.split.examples.texts[index]
    start, end = spans[-1]
    now = plural if word == "subject" else not plural
    other = other_number(text[start:end], plural=now, known=lambda form: False)  # the grammar's nouns are all listed
    return text[:start] + other + text[end:]


def answered(subject):
    chances = [chance_of(subject, text) for (text,) in subject.split.examples.texts]
    return np.array(chances), np.array(subject.split.examples.labels, dtype=bool)


@pytest.mark.parametrize("word", ["subject", "attractor"])
def test_flips_of_all_right_and_wrong_examples(agreement, table, word):
    chances, plural = answered(agreement)
    right = (chances > 0.5) == plural
    texts = [exchanged(agreement, index, word) for index in range(12)]
    assert (word == "subject") == all(text is not None for text in texts)
    for group, chosen in (("all", np.ones(12, dtype=bool)), ("right", right), ("wrong", ~right)):
        mine = [index for index in np.flatnonzero(chosen) if texts[index] is not None]
        flips = [(chance_of(agreement, texts[index]) > 0.5) != (chances[index] > 0.5) for index in mine]
        (row,) = rows_of(table, quantity="flips", word=word, group=group).itertuples()
        assert row.count == len(mine) > 0
        assert row.value == pytest.approx(np.mean(flips))
        assert row.low <= row.value <= row.high


def shares(subject, index, word):
    """Of the words' weight that on the marked word: of raw attention, rollout and flow, layer by layer."""
    seen = subject.trace([index])
    words = (seen.tokens["kind"][0] == 0) | (seen.tokens["kind"][0] == 1)
    on = seen.tokens["role"][0] == {"subject": 1, "attractor": 2}[word]
    graph = torch.stack([layer.attention[0].double().mean(dim=0) for layer in seen.layers])
    maps = {"raw": graph[:, 0], "rollout": attention_rollout(graph)[:, 0], "flow": attention_flow(graph)[:, 0]}
    return {name: (one * on).sum(dim=-1) / (one * words).sum(dim=-1) for name, one in maps.items()}, on, words


@pytest.mark.parametrize("word", ["subject", "attractor"])
def test_weights_and_their_correlation_with_what_the_exchange_moves(agreement, table, word):
    chances, plural = answered(agreement)
    right = (chances > 0.5) == plural
    found, moved, kept, even = [], [], [], []
    for index in range(12):
        text = exchanged(agreement, index, word)
        if text is None:
            continue
        mine, on, words = shares(agreement, index, word)
        found.append(torch.stack([mine[name] for name in ("raw", "rollout", "flow")]).numpy())
        moved.append(abs(chance_of(agreement, text) - chances[index]))
        kept.append(right[index])
        even.append(float(on.sum() / words.sum()))
    found, kept = np.stack(found), np.array(kept)
    for number, method in enumerate(("raw", "rollout", "flow")):
        for layer in range(2):
            place = {"word": word, "attention": "standard", "method": method, "layer": layer}
            (row,) = rows_of(table, quantity="weight", group="all", **place).itertuples()
            assert row.value == pytest.approx(found[:, number, layer].mean(), abs=1e-5)
            assert row.even == pytest.approx(np.mean(even), abs=1e-6)
            (row,) = rows_of(table, quantity="weight", group="right", **place).itertuples()
            assert row.value == pytest.approx(found[kept, number, layer].mean(), abs=1e-5)
            (row,) = rows_of(table, quantity="spearman", **place).itertuples()
            assert row.value == pytest.approx(stats.spearmanr(found[:, number, layer], moved).statistic, abs=0.05)
            assert row.even == pytest.approx(stats.spearmanr(even, moved).statistic, abs=0.05)
            assert row.count == len(moved)


def test_mistakes_are_listed_the_worst_first(agreement, known, table):
    chances, plural = answered(agreement)
    right = np.where(plural, chances, 1 - chances)
    wrong = [int(index) for index in np.argsort(right, kind="stable") if right[index] < 0.5]
    assert 2 <= len(wrong) < 12
    listed = rows_of(table, quantity="probability")
    assert listed["example"].tolist() == wrong[:10]
    assert listed["value"].to_numpy() == pytest.approx(right[wrong[:10]], abs=1e-5)
    assert listed["sentence"].tolist() == [agreement.split.examples.texts[index][0] for index in wrong[:10]]
    assert listed["gold"].tolist() == [("singular", "plural")[int(plural[index])] for index in wrong[:10]]
    (row,) = rows_of(table, quantity="accuracy").itertuples()
    assert row.value == pytest.approx(1 - len(wrong) / 12)
    few = rows_of(table_of(agreement, known, listed=1), quantity="probability")
    assert few["example"].tolist() == wrong[:1]


# --- the table ---


def test_the_table_keeps_its_schema(table, known):
    SCHEMA.check(table, "number_flip")
    assert set(table["examples"]) == {12}
    weights = rows_of(table, quantity="weight")
    assert len(weights) == 2 * 3 * 2 * 3 * known.layers  # words, groups, attentions, methods, layers
    assert set(weights["attention"]) == {"standard", "effective"}
    both = weights.pivot_table(index=["word", "group", "method", "layer"], columns="attention", values="value")
    assert (both["standard"] - both["effective"]).abs().max() > 1e-4


@pytest.mark.parametrize("changes", [{"batch_size": 1}, {"padding": "max_length"}], ids=str)
def test_neither_batching_nor_padding_changes_it(agreement, known, table, changes, monkeypatch):
    for name, value in changes.items():
        monkeypatch.setattr(agreement.data, name, value)
    other = table_of(agreement, known)
    pd.testing.assert_frame_equal(table[["quantity", "count", "sentence"]], other[["quantity", "count", "sentence"]])
    plain = table["quantity"] != "spearman"  # rounding orders near ties
    np.testing.assert_allclose(table.loc[plain, "value"], other.loc[plain, "value"], atol=1e-5)


def test_a_sample_is_smaller(agreement, known):
    assert set(table_of(agreement, known, limit=5)["examples"]) == {5}


def test_two_processes_find_what_one_finds(agreement, known, table):
    mine, theirs = (NumberFlip(limit=None).setup(known) for _ in range(2))
    for number, batch in enumerate(agreement.batches()):
        (mine if number % 2 else theirs).update(agreement.trace(batch))
    states = iter([getattr(theirs, name) for name in theirs._reductions])
    mine.distributed_available_fn = lambda: True
    mine.dist_sync_fn = lambda state, group: [state, next(states)]  # asked for each state in turn
    pd.testing.assert_frame_equal(mine.compute(), table, atol=1e-5)


def test_texts_without_marks_are_refused(subject, context, agreement, known):
    analysis = NumberFlip()
    assert "are not marked" in analysis.obstacle(context)
    assert NumberFlip().obstacle(known) is None
    with pytest.raises(
        UserError, match=r"number_flip: the texts' subjects are not marked \(task=agreement marks them\)"
    ):
        analysis.setup(context)
    renamed = dataclasses.replace(known, task=subject.data.task)
    assert "are not marked" in analysis.obstacle(renamed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, r"analysis\.number_flip\.limit must be at least 1, or null for all, got 0"),
        ({"listed": -1}, r"analysis\.number_flip\.listed must be at least 0, got -1"),
        ({"residual": 2}, r"analysis\.number_flip\.residual must be a number from 0 to 1"),
        ({"convention": "no"}, r"analysis\.number_flip\.convention must be one of absolute, positive"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(UserError, match=message):
        NumberFlip(**options)


# --- parts ---


def test_pieces_of_a_word_are_one_span(agreement):
    tokenizer = agreement.data.tokenizer
    text = "the teapots that teapots praised"
    tokens = tokenizer.tokenize(text, add_special_tokens=True)
    roles = [int(token not in ("[CLS]", "the", "that", "praised", "[SEP]")) for token in tokens]
    assert sum(roles) > 2  # a word of several pieces
    assert word_spans(tokenizer, text, roles, 1, 64) == [(4, 11), (17, 24)]
    assert word_spans(tokenizer, text, roles, 2, 64) == []


def test_neighbours_of_one_role_are_two_words_where_tokens_hold_the_blank_before_them():
    tokenizer = build_tokenizer("gpt2")
    tokenizer.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    text = "the cats dogs sat"
    starts = [start for start, _ in tokenizer(text, return_offsets_mapping=True)["offset_mapping"]]
    roles = [int(3 <= start < 13) for start in starts]
    assert 3 in starts, "offsets hold the blank"
    assert word_spans(tokenizer, text, roles, 1, 64) == [(4, 8), (9, 13)]


def test_correlation_of_ranks_and_its_interval():
    generator = torch.Generator().manual_seed(0)
    one = torch.rand(200, generator=generator, dtype=torch.float64).mul(20).round()  # with ties
    other = one + 10 * torch.rand(200, generator=generator, dtype=torch.float64)
    value, low, high = rank_correlation(one, other, seed=0)
    assert value == pytest.approx(stats.spearmanr(one, other).statistic)
    assert low < value < high
    wide = rank_correlation(one[:20], other[:20], seed=0)
    assert wide[2] - wide[1] > high - low
    assert np.isnan(rank_correlation(torch.ones(9, dtype=torch.float64), other[:9], seed=0)).all()
    assert np.isnan(rank_correlation(one[:2], other[:2], seed=0)).all()


@pytest.mark.parametrize(
    ("singular", "plural"),
    [("key", "keys"), ("box", "boxes"), ("city", "cities"), ("woman", "women"), ("house", "houses"), ("boy", "boys"),
     ("movie", "movies"), ("church", "churches"), ("person", "people"), ("NN", "NNS"), ("NNP", "NNPS")],
)  # fmt: skip
def test_both_numbers_of_a_noun(singular, plural):
    words = {"house", "houses", "movie", "movies", "church", "churches"}.__contains__
    assert other_number(singular, plural=False, known=words) == plural
    assert other_number(plural, plural=True, known=words) == singular


@pytest.mark.parametrize("word", ["it", "they", "class", "1990s", "s", "species", "blorps"])
def test_what_has_no_other_number(word):
    forms = {"its", "clas", "1990", "specie"}.__contains__
    assert other_number(word, plural=True, known=forms) is None
