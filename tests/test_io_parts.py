"""Finished parts of long work: found again by the same model and split only, never when damaged, before any work."""

import dataclasses

import numpy as np
import pytest
import torch

from effective_attention.analyses.common.run import run_analyses


def small_model(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Linear(3, 2)


def test_a_part_comes_back_as_it_was(tmp_path):
    from effective_attention.io import PartStore

    kept = PartStore(tmp_path / "made" / "later")
    assert not (tmp_path / "made").exists()  # nothing is written before there is something to write
    assert "one" not in kept
    assert kept.read("one") is None
    kept.write("one", {"values": np.arange(3.0), "name": np.array("abc")})
    again = PartStore(tmp_path / "made" / "later").read("one")
    assert again is not None
    np.testing.assert_array_equal(again["values"], [0, 1, 2])
    assert str(again["name"]) == "abc"


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 not a zip", None], ids=["empty", "foreign", "cut"])
def test_a_damaged_part_counts_as_missing(tmp_path, damage):
    from effective_attention.io import PartStore

    kept = PartStore(tmp_path)
    kept.write("one", {"values": np.arange(1000)})
    whole = kept.path("one").read_bytes()
    kept.path("one").write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert kept.read("one") is None
    assert "one" not in kept


def test_without_a_folder_nothing_is_left(tmp_path, monkeypatch):
    from effective_attention.io import PartStore

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = PartStore(None)
    kept.write("one", {"values": np.arange(3)})
    assert "one" in kept
    del kept
    assert list(tmp_path.iterdir()) == []


def test_the_fingerprint_is_of_every_weight_and_number():
    from effective_attention.io import fingerprint

    numbers = np.arange(6)
    one = fingerprint(small_model(), [numbers])
    assert one == fingerprint(small_model(), [numbers])
    other = small_model()
    with torch.no_grad():
        other.bias[1] += 1e-6
    assert fingerprint(other, [numbers]) != one
    assert fingerprint(small_model().double(), [numbers]) != one
    assert fingerprint(small_model(), [numbers.reshape(2, 3)]) != one
    assert fingerprint(small_model(), [numbers + 1]) != one


def test_a_full_disk_is_said_before_work(tmp_path):
    from effective_attention.errors import UserError
    from effective_attention.io import check_disk

    check_disk("analysis.x", tmp_path / "not" / "there", 1)
    with pytest.raises(
        UserError, match=r"analysis.x: 1000000000.0 GB are needed .*free; make room, .*data.token_cache=<folder>"
    ):
        check_disk("analysis.x", tmp_path / "not" / "there", 10**18)


def test_a_folder_belongs_to_analysis_options_model_and_split(subject, make_subject):

    folder = subject.context().folder
    same = folder("mixing", {"a": 1, "b": 2})
    assert same == folder("mixing", {"b": 2, "a": 1})
    assert same.parent == subject.data.token_cache
    others = [
        folder("identity", {"a": 1, "b": 2}),
        folder("mixing", {"a": 2, "b": 2}),
        dataclasses.replace(subject, model=subject.reference).folder("mixing", {"a": 1, "b": 2}),
        dataclasses.replace(subject, reading="padded").folder("mixing", {"a": 1, "b": 2}),
        make_subject(examples=8).folder("mixing", {"a": 1, "b": 2}),
    ]
    assert len({path.name for path in (same, *others)}) == 6


def test_a_batch_nobody_wants_is_not_traced(subject, context, monkeypatch):
    import pandas as pd

    from effective_attention.analyses.common.base import Analysis
    from effective_attention.analyses.common.subject import Subject

    class Choosy(Analysis):
        def __init__(self, chosen):
            self.chosen = chosen
            self.shown = []

        def wants(self, indices):
            return any(index in self.chosen for index in indices)

        def update(self, trace):
            self.shown += trace.inputs["index"].tolist()

        def compute(self):
            return pd.DataFrame({"value": sorted(self.shown)})

    traced = []
    real = Subject.trace
    monkeypatch.setattr(
        Subject, "trace", lambda self, indices, *a, **k: traced.append(list(indices)) or real(self, indices, *a, **k)
    )
    batches = subject.batches()
    first, last = batches[0], batches[-1]
    tables = run_analyses(
        subject, {"a": Choosy(first[:1]).setup(context), "b": Choosy([*first[:1], *last[:1]]).setup(context)}
    )
    assert traced == [first, last]
    assert tables["a"]["value"].tolist() == sorted(first)
    assert tables["b"]["value"].tolist() == sorted(first + last)
