"""The whole analysis on a tiny model, against loops over single examples; what survives a kill; what is refused."""

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.multiprocessing as processes

from effective_attention.analyses.common.run import run_analyses
from effective_attention.errors import UserError

QUICK = {"folds": 2, "neighbours": [1, 2], "hidden_size": 6, "max_epochs": 2, "batch_size": 32, "learning_rate": 0.01}


def build(context, **options):
    from effective_attention.analyses.token_identity import TokenIdentity

    return TokenIdentity(**{**QUICK, **options}).setup(context)


def run(subject, analysis):

    return run_analyses(subject, {"token_identity": analysis})["token_identity"]


def without_clock(table):
    return table.drop(columns="seconds")


def assert_same(one, other):
    pd.testing.assert_frame_equal(without_clock(one), without_clock(other), rtol=1e-9)


@pytest.fixture
def nowhere(context):
    """Nothing is kept."""
    return dataclasses.replace(context, folder=None)


@pytest.fixture
def somewhere(context, tmp_path):
    """A cache of this test's own."""

    def folder(analysis, options):
        return tmp_path / f"{analysis}-{abs(hash(repr(sorted(options.items()))))}"

    return dataclasses.replace(context, folder=folder)


@pytest.fixture(scope="module")
def expected(subject, context):
    return run(subject, build(dataclasses.replace(context, folder=None)))


# --- what is in the table ---


def test_every_unit_has_its_rows(expected, context):
    from effective_attention.analyses.token_identity.analysis import SCHEMA

    SCHEMA.check(expected, "token_identity")
    assert list(expected.columns) == [
        *("experiment", "map", "distance", "solver", "layer", "tested_layer", "offset", "fold", "share", "part"),
        *("value", "baseline", "tokens", "epochs", "seconds", "examples"),
    ]
    layers = context.layers
    counts = expected.groupby("experiment", sort=False).size().to_dict()
    maps, distances, parts = 3, 2, 2
    assert counts == {
        "input": (maps + 1) * distances * layers * QUICK["folds"] * parts,  # the closed form beside Adam
        "transfer": maps * distances * layers * layers,
        "previous": maps * distances * layers * parts,
        "neighbours": maps * distances * layers * 4 * parts,
    }
    keys = ["experiment", "map", "distance", "solver", "layer", "tested_layer", "offset", "fold", "part"]
    assert not expected.duplicated(keys).any()
    assert expected["value"].between(0, 1).all()
    assert set(expected["offset"]) == {-2, -1, 0, 1, 2}
    assert expected.loc[expected["solver"] == "adam", "epochs"].eq(2).all()
    assert expected.loc[expected["solver"] != "adam", "epochs"].isna().all()
    assert set(expected.loc[expected["map"] == "naive", "solver"]) == {"none"}
    for column in ("layer", "tested_layer", "offset", "fold", "tokens", "epochs"):
        assert expected[column].dtype == "Int64"


def _lookup(image, candidates, distance):
    if distance == "cosine":
        return torch.nn.functional.cosine_similarity(image[:, None], candidates[None], dim=-1).argmax(dim=1)
    return torch.cdist(image, candidates, compute_mode="donot_use_mm_for_euclid_dist").argmin(dim=1)


def _loop(singles, texts, weights, distance, source, target, offset=0):
    """Rate, baseline and count, text by text and token by token."""
    hits, chances = [], []
    for text in texts:
        hidden = [state[0].double() for state in singles[text].hidden]
        image = hidden[source] if weights is None else hidden[source] @ weights.double()
        found = _lookup(image, hidden[target], distance)
        for place in range(len(image)):
            if 0 <= place + offset < len(image):
                hits.append(int(found[place]) == place + offset)
                chances.append(1 / len(image))
    return np.mean(hits), np.mean(chances), len(hits)


def _row(table, **facts):
    chosen = table
    for name, value in facts.items():
        chosen = chosen[chosen[name] == value]
    assert len(chosen) == 1
    return tuple(chosen.iloc[0][["value", "baseline", "tokens"]])


@pytest.mark.parametrize("distance", ["cosine", "l2"])
def test_naive_maps_by_loop(expected, singles, context, distance):
    from effective_attention.analyses.token_identity.folds import make_fold

    for fold in range(2):
        parts = make_fold(context.examples, fold, 2, context.seed).parts
        for layer in range(context.layers):
            for part in ("train", "test"):
                facts = {"map": "naive", "distance": distance, "layer": layer, "part": part, "fold": fold}
                got = _row(expected, experiment="input", **facts)
                assert got == pytest.approx(_loop(singles, parts[part], None, distance, layer + 1, 0))
    parts = make_fold(context.examples, 0, 1, context.seed).parts
    for layer in range(context.layers):
        facts = {"map": "naive", "distance": distance, "layer": layer, "part": "test", "fold": 0}
        got = _row(expected, experiment="previous", **facts)
        assert got == pytest.approx(_loop(singles, parts["test"], None, distance, layer + 1, layer))
        for offset in (-2, 1):
            got = _row(expected, experiment="neighbours", offset=offset, **facts)
            assert got == pytest.approx(_loop(singles, parts["test"], None, distance, layer + 1, 0, offset))


def _least_squares(singles, texts, source, target, offset, distance):
    """The closed form with next to no penalty, from pairs found one by one."""
    pairs = []
    for text in texts:
        hidden = [state[0].double() for state in singles[text].hidden]
        size = len(hidden[0])
        pairs += [(hidden[source][i], hidden[target][i + offset]) for i in range(size) if 0 <= i + offset < size]
    left, right = (torch.stack(side) for side in zip(*pairs, strict=True))
    right = right / right.norm(dim=-1, keepdim=True) if distance == "cosine" else right
    gram = left.T @ left
    return torch.linalg.solve(
        gram + 1e-3 * gram.diagonal().mean() * torch.eye(len(gram), dtype=torch.float64), left.T @ right
    )


@pytest.mark.parametrize("distance", ["cosine", "l2"])
def test_transfer_previous_and_neighbours_of_a_trained_map_by_loop(subject, nowhere, singles, monkeypatch, distance):
    from effective_attention.analyses.token_identity import units
    from effective_attention.analyses.token_identity.folds import make_fold
    from effective_attention.analyses.token_identity.ridge import ridge_maps

    monkeypatch.setattr(units, "ridge_maps", lambda *given: ridge_maps(*given, penalties=[1e-3]))
    table = run(subject, build(nowhere, maps=["linear"], solver="ridge", distances=[distance]))
    parts = make_fold(nowhere.examples, 0, 2, nowhere.seed).parts
    for layer in range(nowhere.layers):
        weights = _least_squares(singles, parts["train"], layer + 1, 0, 0, distance)
        for tested in range(nowhere.layers):
            got = _row(table, experiment="transfer", layer=layer, tested_layer=tested)
            assert got == pytest.approx(_loop(singles, parts["test"], weights, distance, tested + 1, 0))
    parts = make_fold(nowhere.examples, 0, 1, nowhere.seed).parts
    for experiment, offset in (("previous", 0), ("neighbours", 1), ("neighbours", -2)):
        target = 1 if experiment == "previous" else 0
        weights = _least_squares(singles, parts["train"], 2, target, offset, distance)
        got = _row(table, experiment=experiment, layer=1, offset=offset, part="test")
        assert got == pytest.approx(_loop(singles, parts["test"], weights, distance, 2, target, offset))


@pytest.mark.parametrize("distance", ["cosine", "l2"])
def test_maps_trained_on_some_of_the_texts_by_loop(subject, nowhere, singles, monkeypatch, distance):
    from effective_attention.analyses.token_identity import units
    from effective_attention.analyses.token_identity.folds import make_fold, some_of
    from effective_attention.analyses.token_identity.ridge import ridge_maps

    monkeypatch.setattr(units, "ridge_maps", lambda *given: ridge_maps(*given, penalties=[1e-3]))
    chosen = {"experiments": ["size", "input"], "folds": 1, "maps": ["naive", "linear"], "solver": "ridge"}
    table = run(subject, build(nowhere, **chosen, distances=[distance], sizes=[0.5, 1.0]))
    last, fold = nowhere.layers - 1, make_fold(nowhere.examples, 0, 1, nowhere.seed)
    sizes = table[table["experiment"] == "size"]
    assert (set(sizes["layer"]), set(sizes["map"]), len(sizes)) == ({last}, {"linear"}, 4)
    for share in (0.5, 1.0):
        texts = some_of(fold.train, share, nowhere.seed)
        weights = _least_squares(singles, texts, last + 1, 0, 0, distance)
        for part, tested in (("train", texts), ("test", fold.test)):
            got = _row(sizes, share=share, part=part)
            assert got == pytest.approx(_loop(singles, tested, weights, distance, last + 1, 0))
    whole = _row(table, experiment="input", map="linear", layer=last, part="test")
    assert _row(sizes, share=1.0, part="test") == whole


def test_sizes_are_only_trained_when_they_are_asked_for(nowhere):
    assert {unit.experiment for unit in build(nowhere).chosen.units()} == {"input", "previous", "neighbours"}
    sizes = build(nowhere, experiments=["size"], sizes=[0.25, 1.0], size_layers="all", other_folds=2).chosen.units()
    assert len(sizes) == 2 * 2 * 2 * nowhere.layers * 2  # maps, distances, sizes, layers, folds
    assert len({unit.name for unit in sizes}) == len(sizes)


def test_transfer_to_the_same_layer_is_the_test_of_the_first_fold(expected):
    keys = ["map", "distance", "solver", "layer"]
    transfer = expected[(expected["experiment"] == "transfer") & (expected["layer"] == expected["tested_layer"])]
    tested = expected[(expected["experiment"] == "input") & (expected["fold"] == 0) & (expected["part"] == "test")]
    both = transfer.merge(tested, on=keys, suffixes=("", "_input"))
    assert len(both) == len(transfer) > 0
    np.testing.assert_array_equal(both["value"], both["value_input"])


@pytest.mark.parametrize("changes", [{"batch_size": 1}, {"batch_size": 9, "padding": "max_length"}], ids=str)
def test_neither_batches_nor_padding_matter(subject, nowhere, expected, changes):
    data = subject.data
    before = {name: getattr(data, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(data, name, value)
        table = run(subject, build(nowhere, distances=["cosine"]))
    finally:
        for name, value in before.items():
            setattr(data, name, value)
    chosen = expected[expected["distance"] == "cosine"].reset_index(drop=True)
    pd.testing.assert_frame_equal(without_clock(table), without_clock(chosen), atol=0.02)  # rounding, through training


def test_fewer_units_are_a_part_of_the_table(subject, nowhere, expected):
    table = run(subject, build(nowhere, experiments=["transfer"], maps=["mlp"], distances=["l2"], layers=[1]))
    chosen = (expected["experiment"] == "transfer") & (expected["map"] == "mlp") & (expected["distance"] == "l2")
    assert_same(table, expected[chosen & (expected["layer"] == 1)].reset_index(drop=True))


def test_a_limit_leaves_texts_out(subject, nowhere):
    table = run(subject, build(nowhere, limit=5, experiments=["input"], maps=["naive"], distances=["l2"], layers=[0]))
    lengths = nowhere.split.lengths
    order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(nowhere.seed)).numpy()
    chosen = np.sort(order[:5])
    from effective_attention.analyses.token_identity.folds import make_fold

    parts = [make_fold(5, fold, 2, nowhere.seed).parts[part] for fold in range(2) for part in ("train", "test")]
    assert table["tokens"].tolist() == [lengths[chosen[part]].sum() for part in parts]


def test_chance_is_left_alone(subject, nowhere):
    state = torch.get_rng_state()
    run(subject, build(nowhere, experiments=["input"], distances=["l2"], layers=[0]))
    assert torch.equal(torch.get_rng_state(), state)


# --- killed and started again ---


def test_a_killed_run_goes_on_where_it_was(subject, somewhere, expected, monkeypatch):
    from effective_attention.analyses.token_identity.units import UnitTrainer

    analysis = build(somewhere)
    batches = subject.batches()
    for batch in batches[:1]:
        assert analysis.wants(batch)
        analysis.update(subject.trace(batch))
    analysis = build(somewhere)  # killed while collecting
    assert [analysis.wants(batch) for batch in batches] == [False] + [True] * (len(batches) - 1)

    whole, done = UnitTrainer.do, []

    def killed(self, unit):
        if len(done) == 7:
            raise KeyboardInterrupt
        done.append(unit.name)
        return whole(self, unit)

    monkeypatch.setattr(UnitTrainer, "do", killed)
    with pytest.raises(KeyboardInterrupt):
        run(subject, analysis)
    again = []
    monkeypatch.setattr(UnitTrainer, "do", lambda self, unit: again.append(unit.name) or whole(self, unit))
    analysis = build(somewhere)
    assert not any(analysis.wants(batch) for batch in batches)
    table = run(subject, analysis)
    assert len(done) == 7
    assert not set(done) & set(again)
    assert len(set(done) | set(again)) == len(analysis.chosen.units())
    pd.testing.assert_frame_equal(without_clock(table), without_clock(expected), atol=0.02)


def test_what_is_finished_is_not_done_again_and_the_states_are_gone(subject, somewhere, monkeypatch, tmp_path):
    from effective_attention.analyses.token_identity.units import UnitTrainer

    first = run(subject, build(somewhere, maps=["naive", "linear"]))
    assert not list(tmp_path.glob("token_identity_states*"))
    monkeypatch.setattr(UnitTrainer, "do", None)
    analysis = build(somewhere, maps=["naive", "linear"], experiments=["input", "previous"])
    assert not any(analysis.wants(batch) for batch in subject.batches())
    table = run(subject, analysis)
    pd.testing.assert_frame_equal(table, first[first["experiment"].isin(["input", "previous"])].reset_index(drop=True))


def test_a_damaged_unit_is_done_anew(subject, somewhere):
    first = run(subject, build(somewhere, maps=["naive"]))
    analysis = build(somewhere, maps=["naive"])
    unit = analysis.chosen.units()[3]
    analysis.parts.path(unit.name).write_bytes(b"not a zip")
    analysis = build(somewhere, maps=["naive"])
    assert analysis.wants([0])
    assert_same(run(subject, analysis), first)


def test_states_may_be_kept(subject, somewhere, tmp_path):
    run(subject, build(somewhere, maps=["naive"], keep_states=True))
    assert len(list(tmp_path.glob("token_identity_states*/states.bin"))) == 1
    analysis = build(somewhere, maps=["linear"])
    assert not any(analysis.wants(batch) for batch in subject.batches())


def test_other_options_find_nothing_of_these(somewhere):
    folders = {
        build(somewhere, **change).parts.folder for change in ({}, {"max_epochs": 3}, {"limit": 5}, {"hidden_size": 7})
    }
    assert len(folders) == 4
    assert build(somewhere, maps=["mlp"], folds=3).parts.folder in folders


def test_nothing_is_written_before_the_first_batch(somewhere, tmp_path):
    build(somewhere)
    assert list(tmp_path.iterdir()) == []


def test_states_that_are_missing(subject, somewhere):
    analysis = build(somewhere, maps=["naive"])
    analysis.update(subject.trace([0, 1]))
    with pytest.raises(UserError, match=r"the states of 7 examples .* all processes must share data.token_cache"):
        analysis.compute()


# --- two processes ---


def _one_of_two(rank, folder):
    from helpers.subjects import join_two

    subject = join_two(rank, folder)
    table = run(subject, build(subject.context(seed=0, task=subject.data.task), distances=["l2"]))
    (Path(folder) / f"{rank}.pickle").write_bytes(pickle.dumps(table))
    torch.distributed.destroy_process_group()


def test_two_processes_share_the_work(expected, tmp_path):
    processes.spawn(_one_of_two, args=(str(tmp_path),), nprocs=2)
    one, other = (pickle.loads((tmp_path / f"{rank}.pickle").read_bytes()) for rank in range(2))
    pd.testing.assert_frame_equal(one, other)
    chosen = expected[expected["distance"] == "l2"].reset_index(drop=True)
    pd.testing.assert_frame_equal(without_clock(one), without_clock(chosen), atol=0.02)
    assert not list((tmp_path / "tokens").glob("token_identity_states*"))


# --- refused ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"experiments": ["inputs"]},
            r"experiments must be a list of some of input, transfer, previous, neighbours, size, got \['inp",
        ),
        ({"experiments": []}, "experiments must be a list"),
        ({"maps": "linear"}, "maps must be a list of some of naive, linear, mlp, got 'linear'"),
        ({"maps": ["mlp", "mlp"]}, "maps must be a list"),
        ({"distances": ["l1"]}, "distances must be a list of some of cosine, l2"),
        ({"solver": "sgd"}, "solver must be adam or ridge, got 'sgd'"),
        ({"folds": 0}, "folds must be a whole number of 1 or more, got 0"),
        ({"other_folds": -1}, "other_folds must be"),
        ({"other_maps": ["deep"]}, "other_maps must be a list of some of naive, linear, mlp"),
        ({"other_solver": "sgd"}, "other_solver must be adam or ridge"),
        ({"neighbours": [0]}, "neighbours must be a list of different distances"),
        ({"neighbours": [1, 1]}, "neighbours must be a list of different distances"),
        ({"neighbours": []}, "neighbours must be a list of different distances"),
        ({"layers": [0, 9]}, r"layers must be last, all or a layer from 0 to \d, got 9"),
        ({"layers": []}, "layers must be all, or a list"),
        ({"sizes": []}, "sizes must be a list of different shares above 0 and up to 1"),
        ({"sizes": [0.5, 0.5]}, "sizes must be a list of different shares"),
        ({"sizes": [0]}, "sizes must be a list of different shares"),
        ({"sizes": [1.5]}, "sizes must be a list of different shares"),
        ({"sizes": 0.5}, "sizes must be a list of different shares"),
        ({"size_layers": 9}, r"size_layers must be last, all or a layer from 0 to \d, got 9"),
        ({"experiments": ["size"], "other_maps": ["naive"]}, "other_maps must be linear, mlp or both for the exp"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0, got 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"hidden_size": 0}, "hidden_size must be"),
        ({"patience": 0}, "patience must be"),
        ({"max_epochs": 0}, "max_epochs must be"),
        ({"folds": 10}, "9 examples are too few for 10 folds .* at least 10 examples"),
        ({"limit": 2, "folds": 1}, "2 examples are too few for 1 folds .* at least 3 examples"),
        ({"neighbours": [500]}, "no train text has neighbours 500 apart"),
    ],
    ids=str,
)
def test_options_that_are_refused(nowhere, options, message):
    with pytest.raises(UserError, match=rf"analysis\.token_identity.*{message}"):
        build(nowhere, **options)


@pytest.mark.parametrize(
    ("name", "value"), [("folds", 2.5), ("compare_ridge", 1), ("neighbours", 3), ("layers", "first")]
)
def test_options_of_the_wrong_kind(name, value):
    """Past the tests' own type checker, as outside the tests."""
    from effective_attention.analyses.token_identity.options import check_choice

    options = {
        "experiments": ["input"],
        "maps": ["naive"],
        "distances": ["l2"],
        "solver": "adam",
        "compare_ridge": True,
    }
    options |= {
        "folds": 2,
        "other_folds": 1,
        "neighbours": [1],
        "layers": "all",
        "other_maps": None,
        "other_solver": None,
        "sizes": [1.0],
        "size_layers": "last",
    }
    with pytest.raises(UserError, match=rf"analysis\.token_identity\.{name} must be"):
        check_choice(2, **{**options, name: value})


def test_a_text_of_one_token(nowhere):
    lengths = nowhere.split.lengths.copy()
    lengths[4] = 1
    with pytest.raises(UserError, match="example 4 has a single token"):
        build(dataclasses.replace(nowhere, split=dataclasses.replace(nowhere.split, lengths=lengths)))


def test_a_disk_that_is_too_small(somewhere, monkeypatch):
    import shutil

    usage = shutil.disk_usage(".")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    with pytest.raises(UserError, match=r"analysis\.token_identity: 0\.0 GB are needed in .* make room"):
        build(somewhere)


def test_what_is_there_needs_no_more_room(subject, somewhere, monkeypatch):
    import shutil

    analysis = build(somewhere)
    for batch in subject.batches():
        analysis.update(subject.trace(batch))
    usage = shutil.disk_usage(".")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    assert not build(somewhere).finished
