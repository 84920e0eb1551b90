"""What hidden tokens are made of: the table, resuming, several processes, and options that cannot be."""

import dataclasses
import pickle
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.multiprocessing as processes

from effective_attention.analyses.common.base import UserText
from effective_attention.analyses.common.run import run_analyses

COLUMNS = [
    "quantity",
    "layer",
    "statistic",
    "tag",
    "group",
    "offset",
    "centre",
    "query",
    "key",
    "token",
    "value",
    "count",
]
COLUMNS += ["examples", "embeddings", "tagset"]


def build(context, **options):
    from effective_attention.analyses.token_mixing.analysis import TokenMixing

    return TokenMixing(**{"limit": 4, "directions": 3, "example": 1, **options}).setup(context)


def table_of(subject, context, **options):

    return run_analyses(subject, {"token_mixing": build(context, **options)})["token_mixing"]


@pytest.fixture
def here(context, tmp_path):
    """The context with an empty folder of its own for finished parts."""
    return dataclasses.replace(
        context, folder=lambda analysis, options: tmp_path / f"{analysis}-{sorted(options.items())}"
    )


@pytest.fixture(scope="module")
def alone(context):
    return dataclasses.replace(context, folder=None)


@pytest.fixture(scope="module")
def table(subject, alone):
    return table_of(subject, alone)


def test_the_table_is_what_the_statistics_say(context, singles, table):
    from effective_attention.analyses.common.samples import sample
    from effective_attention.analyses.token_mixing.analysis import SCHEMA, tag_names
    from effective_attention.analyses.token_mixing.jacobian import contributions
    from effective_attention.analyses.token_mixing.statistics import Text, all_statistics

    texts = []
    for index in sample(context, 4).nonzero()[:, 0].tolist():
        found = contributions(singles[index], directions=3, seed=context.seed)
        tags = tag_names({name: singles[index].tokens[name][0].numpy() for name in ("kind", "upos")})
        texts.append(Text(found.shares.float().numpy(), found.errors.float().numpy(), tags))
    expected = all_statistics(texts)
    got = table[table["quantity"] != "word"].reset_index(drop=True)
    SCHEMA.check(table, "token_mixing")
    assert list(table) == COLUMNS
    assert set(table["examples"]) == {4}
    np.testing.assert_allclose(got["value"].to_numpy(float), expected["value"].to_numpy(float))
    for column in ("quantity", "layer", "statistic", "tag", "group", "offset", "centre", "count"):
        assert got[column].astype(object).where(got[column].notna(), None).tolist() == (
            expected[column].astype(object).where(expected[column].notna(), None).tolist()
        )
    assert {str(table[name].dtype) for name in ("layer", "offset", "query", "key", "count")} == {"Int64"}
    assert {"NOUN", "[CLS]", "[SEP]"} <= set(table["tag"].dropna())


def test_the_word_is_of_the_chosen_example_though_not_in_the_sample(subject, context, singles, table):
    from effective_attention.analyses.common.samples import sample
    from effective_attention.analyses.token_mixing.jacobian import contributions

    assert not bool(sample(context, 4)[1])
    rows = table[table["quantity"] == "word"]
    shares = contributions(singles[1], directions=3, seed=context.seed).shares[:, 1]  # (layer, key)
    np.testing.assert_allclose(rows["value"].to_numpy(), shares.float().reshape(-1).numpy())
    assert set(rows["query"]) == {1}
    tokens = context.tokenizer.convert_ids_to_tokens(singles[1].inputs["input_ids"][0].tolist())
    assert rows[rows["layer"] == 0]["token"].tolist() == tokens
    np.testing.assert_allclose(rows.groupby("layer")["value"].sum(), 1, rtol=1e-5)


def test_exact_has_no_error_and_all_examples_can_be_used(make_subject, alone):
    small = make_subject(examples=2, max_length=16)
    own = dataclasses.replace(
        alone.split, examples=2, lengths=small.split.encoded.lengths, token_facts=small._token_facts
    )
    context = dataclasses.replace(alone, split=own)
    table = table_of(small, context, limit=None, directions="exact", example=0)
    assert not table[table["quantity"] == "error"]["value"].any()
    counted = table[(table["quantity"] == "own") & (table["tag"] == "")]["count"]
    assert set(counted) == {int(small.split.encoded.lengths.sum())}


@pytest.mark.parametrize("changes", [{"batch_size": 1}, {"padding": "max_length"}], ids=str)
def test_neither_batching_nor_padding_matters(subject, alone, table, changes):
    before = {name: getattr(subject.data, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(subject.data, name, value)
        pd.testing.assert_frame_equal(table_of(subject, alone), table)
    finally:
        for name, value in before.items():
            setattr(subject.data, name, value)


def test_the_order_of_batches_does_not_matter(subject, alone, table):
    analysis = build(alone)
    state = torch.get_rng_state()
    for batch in reversed(subject.batches()):
        analysis.update(subject.trace(list(reversed(batch))))
    pd.testing.assert_frame_equal(analysis.compute(), table)
    assert torch.equal(torch.get_rng_state(), state)


def test_sums_contribute_otherwise_and_are_kept_apart(subject, here, singles, table):
    from effective_attention.analyses.token_mixing.analysis import SCHEMA
    from effective_attention.analyses.token_mixing.jacobian import contributions

    table_of(subject, here)
    assert len(build(here, embeddings="summed")._missing) == len(build(here).needed), "nothing kept is taken for it"
    summed = table_of(subject, here, embeddings="summed")
    SCHEMA.check(summed, "token_mixing")
    assert set(summed["embeddings"]) == {"summed"}
    assert set(table["embeddings"]) == {"normalised"}
    shares = contributions(singles[1], directions=3, seed=here.seed, embeddings="summed").shares[:, 1]
    word = summed[summed["quantity"] == "word"]
    np.testing.assert_allclose(word["value"].to_numpy(), shares.float().reshape(-1).numpy())
    assert (summed["value"] - table["value"]).abs().max() > 1e-3
    pd.testing.assert_frame_equal(table_of(subject, here), table)


PENN_OF = {"NOUN": "NN", "PRON": "PRP$", "VERB": "VBZ", "ADJ": "-LRB-"}


@pytest.fixture
def in_penn(here):
    """The same words, with the Penn Treebank's tags."""
    from effective_attention.data.annotation.tagging import PENN, UPOS

    def facts(index, known=here.split.token_facts):
        found = known(index)
        names = [PENN.index(PENN_OF[UPOS[tag]]) if tag >= 0 else -1 for tag in found["upos"]]
        return {**found, "xpos": np.array(names)}

    return dataclasses.replace(here, split=dataclasses.replace(here.split, token_facts=facts))


def test_the_same_contributions_by_penn_tags(subject, here, in_penn, table, monkeypatch):
    """By other tags nothing is computed again."""
    from effective_attention.analyses.token_mixing import analysis as token_mixing

    table_of(subject, here)
    monkeypatch.setattr(token_mixing, "contributions", None)
    found = table_of(subject, in_penn, tags="penn")
    token_mixing.SCHEMA.check(found, "token_mixing")
    assert set(found["tagset"]) == {"penn"}
    assert set(found["tag"].dropna()) == {"", "[CLS]", "[SEP]", *PENN_OF.values()}
    keys = ["quantity", "layer", "statistic", "tag", "group", "offset", "centre", "query", "key"]
    expected = table.assign(tag=table["tag"].replace(PENN_OF), tagset="penn").sort_values(keys, ignore_index=True)
    pd.testing.assert_frame_equal(found.sort_values(keys, ignore_index=True), expected)


def test_kept_parts_take_the_tags_of_this_run(subject, here, in_penn, table):
    def facts(index):
        return {**here.split.token_facts(index), "upos": np.full_like(here.split.token_facts(index)["upos"], 3)}

    table_of(subject, here)
    other = dataclasses.replace(here, split=dataclasses.replace(here.split, token_facts=facts))
    assert set(table_of(subject, other)["tag"].dropna()) == {"", "AUX", "[CLS]", "[SEP]"}


def test_words_without_penn_tags(alone):
    from effective_attention.errors import UserError

    with pytest.raises(UserError, match=r"analysis.token_mixing.tags=penn: no word has a tag .*tagger=embedded"):
        build(alone, tags="penn")


# --- going on ---


def test_what_is_finished_is_not_done_again(subject, here, table, monkeypatch):
    from effective_attention.analyses.token_mixing import analysis as token_mixing

    made = []
    monkeypatch.setattr(
        token_mixing,
        "contributions",
        lambda trace, row, *, real=token_mixing.contributions, **options: (
            made.append(int(trace.inputs["index"][row])) or real(trace, row, **options)
        ),
    )
    first = build(here)
    wanted = [index for batch in subject.batches() for index in batch if index in first.needed]
    for batch in subject.batches():
        if len(made) < 2:
            first.update(subject.trace(batch[:1] if batch[0] in first.needed else batch))
    begun = list(made)
    assert 0 < len(begun) < len(wanted)  # killed here
    again = table_of(subject, here)
    assert sorted(made) == sorted(wanted), "each text once"
    pd.testing.assert_frame_equal(again, table)
    third = build(here)
    assert not any(third.wants(batch) for batch in subject.batches())
    pd.testing.assert_frame_equal(table_of(subject, here), table)
    assert len(made) == len(wanted)


def test_more_examples_go_on_from_fewer_and_other_directions_do_not(subject, here):
    table_of(subject, here, limit=2)
    assert len(build(here, limit=3)._missing) == 1
    assert len(build(here, limit=2, directions=4)._missing) == 3
    assert len(build(dataclasses.replace(here, seed=1), limit=2)._missing) == 3


def test_a_damaged_part_is_made_anew(subject, here, table):
    table_of(subject, here)
    analysis = build(here)
    path = analysis._parts.path(str(analysis.sample[0]))
    path.write_bytes(path.read_bytes()[:100])
    assert build(here)._missing == {analysis.sample[0]}
    pd.testing.assert_frame_equal(table_of(subject, here), table)


def test_building_it_writes_nothing(here, tmp_path):
    build(here)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_nothing_shown_nothing_said(alone):
    table = build(alone).compute()
    assert list(table) == COLUMNS
    assert len(table) == 0


# --- the word ---


def test_a_text_of_the_users_has_the_word(subject, here):
    from effective_attention.analyses.token_mixing.analysis import SCHEMA
    from effective_attention.analyses.token_mixing.jacobian import contributions
    from effective_attention.attention.trace import trace

    inputs = subject.data.tokenizer("Transformers unbelievably mix tokens.", return_tensors="pt")
    text = trace(subject.model, dict(inputs))
    context = dataclasses.replace(here, text=UserText(("a text",), text))
    table = table_of(subject, context, word="Mix")
    SCHEMA.check(table, "token_mixing")
    rows = table[table["quantity"] == "word"]
    tokens = context.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    place = tokens.index("mix")
    assert set(rows["query"]) == {place}
    assert rows[rows["layer"] == 1]["token"].tolist() == tokens
    shares = contributions(text, directions=3, seed=context.seed).shares[:, place]
    np.testing.assert_allclose(rows["value"].to_numpy(), shares.float().reshape(-1).numpy())
    assert set(table["quantity"]) == {"word"}, "the split is not read"
    assert not any(build(context, word="Mix").wants(batch) for batch in subject.batches())
    assert any(path.name.startswith("text-") for path in build(context, word="Mix")._parts.folder.iterdir())


@pytest.mark.parametrize(
    ("choice", "place"),
    [(0, 0), (3, 3), ("[SEP]", 5), ("##ly", 3), ("Unbelievably", 2), ("the", 1), ("gone", None), (6, None), (-1, None)],
)
def test_find_word(context, choice, place):
    from effective_attention.analyses.token_mixing.analysis import find_word

    tokens = ["[CLS]", "the", "unbelievable", "##ly", "the", "[SEP]"]
    tokenizer = context.tokenizer
    ids = tokenizer.convert_tokens_to_ids(tokens)
    if choice == "Unbelievably":
        pieces = tokenizer(choice, add_special_tokens=False)["input_ids"]
        ids = [*ids[:2], *pieces, *ids[4:]]
    assert find_word(choice, ids, tokenizer) == place


# --- options that cannot be ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, r"analysis.token_mixing.limit must be at least 1, or null for all, got 0"),
        ({"directions": 1}, r"analysis.token_mixing.directions must be a whole number of 2 or more, or exact, got 1"),
        ({"directions": "all"}, r"or exact, got 'all'"),
        ({"directions": True}, r"or exact, got True"),
        ({"example": 9}, r"analysis.token_mixing.example must be from 0 to 8, got 9"),
        ({"word": 64}, r"analysis.token_mixing.word must be a token of the text, from 0 to \d+, .* got 64"),
        ({"word": -1}, r"word must be a token of the text, from 0 to"),
        ({"word": "zebra"}, r"word must be a token of the text, from 0 to .*\[CLS\].*, got 'zebra'"),
        ({"tags": "xpos"}, r"analysis.token_mixing.tags must be universal or penn, got 'xpos'"),
        ({"embeddings": "sum"}, r"analysis.token_mixing.embeddings must be normalised or summed, got 'sum'"),
        ({"word": True}, r"word must be a token's place or what is written there, got True"),
    ],
)
def test_options_that_cannot_be(alone, options, message):
    from effective_attention.errors import UserError

    with pytest.raises(UserError, match=message) as caught:
        build(alone, **options)
    assert "\n" not in str(caught.value)


def test_as_many_directions_as_the_states_are_wide_are_exact(alone):
    assert build(alone, directions=31).directions == 31
    assert build(alone, directions=32).directions is None
    assert build(alone, directions=1000).directions is None


def test_a_word_that_is_not_in_the_users_text(subject, alone):
    from effective_attention.attention.trace import trace
    from effective_attention.errors import UserError

    text = trace(subject.model, dict(subject.data.tokenizer("One more.", return_tensors="pt")))
    with pytest.raises(UserError, match=r"word must be a token of the text, from 0 to 4, .*got 5"):
        build(dataclasses.replace(alone, text=UserText(("a text",), text)), word=5)


def test_no_room_on_the_disk(alone, monkeypatch):
    from effective_attention.errors import UserError

    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=100))
    with pytest.raises(UserError, match=r"analysis.token_mixing: 0.0 GB are needed"):
        build(alone)


# --- two processes ---


def _one_of_two(rank: int, folder: str) -> None:
    from helpers.subjects import join_two

    subject = join_two(rank, folder, f"tokens{rank}")
    context = subject.context(seed=0, task=subject.data.task)
    shared = dataclasses.replace(context, folder=lambda analysis, options: Path(folder) / "shared")
    found = [table_of(subject, one) for one in (context, shared)]
    (Path(folder) / f"{rank}.pickle").write_bytes(pickle.dumps(found))
    torch.distributed.destroy_process_group()


def test_two_processes_find_what_one_finds(table, tmp_path):
    """Each with a disk of its own, then with one for both."""
    processes.spawn(_one_of_two, args=(str(tmp_path),), nprocs=2)
    for rank in range(2):
        for found in pickle.loads((tmp_path / f"{rank}.pickle").read_bytes()):
            pd.testing.assert_frame_equal(found, table)
