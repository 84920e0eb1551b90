import numpy as np
import pytest
import torch

from effective_attention.analyses.token_identity.states import States

LENGTHS = np.array([3, 1, 4], dtype=np.int64)


def states(folder):
    return States(folder, 2, LENGTHS, 5)


def hidden(text, seed=0):
    return torch.randn(2, int(LENGTHS[text]), 5, generator=torch.Generator().manual_seed(10 * seed + text))


@pytest.mark.parametrize("temporary", [True, False])
def test_what_was_written_is_read(tmp_path, temporary):
    store = states(None if temporary else tmp_path / "here")
    assert not (tmp_path / "here").exists()
    assert store.there().tolist() == [False] * 3
    store.write({2: hidden(2)})
    store.write({0: hidden(0)})
    assert store.there().tolist() == [True, False, True]
    for layer in range(2):
        assert torch.equal(store.read(layer, [0, 2]), torch.cat([hidden(0)[layer], hidden(2)[layer]]))
        assert torch.equal(store.read(layer, [2]), hidden(2)[layer])


def test_two_writers_and_one_who_comes_later(tmp_path):
    one, other = states(tmp_path), states(tmp_path)
    one.write({0: hidden(0)})
    other.write({1: hidden(1)})
    one.write({2: hidden(2)})
    late = states(tmp_path)
    assert late.there().all()
    assert torch.equal(late.read(1, range(3)), torch.cat([hidden(text)[1] for text in range(3)]))


def test_a_text_counts_after_its_states_are_on_disk(tmp_path, monkeypatch):
    store = states(tmp_path)
    store.write({0: hidden(0)})

    def killed(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(np.memmap, "flush", killed)
    with pytest.raises(KeyboardInterrupt):
        store.write({1: hidden(1)})
    assert states(tmp_path).there().tolist() == [True, False, False]


def test_sizes(tmp_path):
    store = states(tmp_path)
    assert store.bytes_of(np.array([0, 2])) == 2 * 7 * 5 * 4
    store.write({0: hidden(0)})
    assert store.path.stat().st_size == 2 * 8 * 5 * 4 + 3


def test_a_file_of_the_wrong_size_is_made_anew(tmp_path):
    store = states(tmp_path)
    store.write({0: hidden(0)})
    store.path.write_bytes(store.path.read_bytes()[:-7])
    again = states(tmp_path)
    assert not again.there().any()
    again.write({1: hidden(1)})
    assert again.there().tolist() == [False, True, False]


@pytest.mark.parametrize("temporary", [True, False])
def test_deletion(tmp_path, temporary):
    store = states(None if temporary else tmp_path / "here")
    store.delete()  # nothing there yet
    store.write({0: hidden(0)})
    path = store.path
    store.delete()
    assert not path.exists()
    assert not (tmp_path / "here").exists()
    store.write({1: hidden(1)})
    assert store.there().tolist() == [False, True, False]
