"""Tokenised once, kept under a key of all that matters, and never worse off for a broken cache."""

import errno
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.data import encoding
from effective_attention.data.encoding import Encoded, default_cache_dir, encode

PAIRS = [
    ("A cat sat.", "A dog stood, and it barked."),
    ("Rain.", "It rained all day long in the north."),
    ("One", "two"),
]
SINGLES = [("A cat sat.",), ("A longer sentence about nothing in particular.",)]


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often the tokenizer really worked."""
    calls: list[int] = []
    real = encoding._tokenise
    monkeypatch.setattr(encoding, "_tokenise", lambda texts, *rest: (calls.append(len(texts)), real(texts, *rest))[1])
    return calls


def same(one: Encoded, other: Encoded) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in Encoded.__dataclass_fields__)


@pytest.mark.parametrize("texts", [PAIRS, SINGLES])
def test_rows_are_what_the_tokenizer_gives_each_text_alone(texts: list[tuple[str, ...]], tokenizer: Any) -> None:
    encoded = encode(texts, tokenizer, 128, None)
    assert len(encoded) == len(texts)
    for index, text in enumerate(texts):
        expected = tokenizer(*text)
        ids, types = encoded.row(index)
        assert ids.tolist() == expected["input_ids"]
        assert types.tolist() == expected["token_type_ids"]
        assert encoded.lengths[index] == len(expected["input_ids"])
    assert not encoded.truncated.any()


def test_chunks_make_no_difference(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encode(PAIRS, tokenizer, 16, None)
    monkeypatch.setattr(encoding, "_CHUNK", 2)
    assert same(encode(PAIRS, tokenizer, 16, None), whole)


def test_longest_text_is_cut_first_and_counted(tokenizer: Any) -> None:
    long, short = "word " * 50, "Two words"
    encoded = encode([(long, short), (short, long), (short, short)], tokenizer, 12, None)
    assert encoded.truncated.tolist() == [True, True, False]
    assert encoded.lengths.tolist() == [12, 12, 7]
    ids, types = encoded.row(1)
    assert tokenizer.decode(ids) == "[CLS] two words [SEP] word word word word word word word [SEP]"
    assert types.tolist() == [0] * 4 + [1] * 8


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=6),
    limit=st.integers(5, 20),
)
def test_truncated_means_that_it_did_not_fit(lengths: list[tuple[int, int]], limit: int, tokenizer: Any) -> None:
    encoded = encode([("dog " * first, "cat " * second) for first, second in lengths], tokenizer, limit, None)
    sizes = [first + second + 3 for first, second in lengths]
    assert encoded.truncated.tolist() == [size > limit for size in sizes]
    assert encoded.lengths.tolist() == [min(size, limit) for size in sizes]


# --- the cache ---


def test_the_second_time_comes_from_the_cache(tokenizer: Any, tmp_path: Path, count: list[int]) -> None:
    first = encode(PAIRS, tokenizer, 128, tmp_path / "new" / "folder")
    again = encode(PAIRS, tokenizer, 128, tmp_path / "new" / "folder")
    assert count == [3]
    assert same(first, again)
    assert [path.suffix for path in (tmp_path / "new" / "folder").iterdir()] == [".npz"]


def test_a_fresh_tokenizer_finds_what_a_used_one_wrote(tmp_path: Path, count: list[int]) -> None:
    """Check that the key does not depend on the tokenizer's state, which a call changes (it switches truncation on)."""
    from effective_attention.models.encoders import TinyEncoder

    used = TinyEncoder().tokenizer()
    encode(SINGLES, used, 128, tmp_path)
    encode(PAIRS, used, 128, tmp_path)
    encode(PAIRS, TinyEncoder().tokenizer(), 128, tmp_path)
    assert count == [2, 3]


@pytest.mark.parametrize(
    ("texts", "max_length"),
    [
        ([("A cat sat!", PAIRS[0][1]), *PAIRS[1:]], 128),
        (PAIRS[:2], 128),
        ([*PAIRS[1:], PAIRS[0]], 128),
        ([("A cat sat.A", " dog stood, and it barked."), *PAIRS[1:]], 128),
        ([("A cat sat.",), ("A dog stood, and it barked.",), *PAIRS[1:]], 128),
        (PAIRS, 127),
    ],
    ids=["one letter", "fewer", "order", "border between texts", "number of texts", "max_length"],
)
def test_key_changes_with_texts_and_length(texts: list[tuple[str, ...]], max_length: int, tokenizer: Any) -> None:
    assert encoding.encoding_key(texts, tokenizer, max_length) != encoding.encoding_key(PAIRS, tokenizer, 128)


def test_key_changes_with_the_tokenizer(tokenizer: Any) -> None:
    from effective_attention.models.encoders import TinyEncoder

    other = TinyEncoder().tokenizer()
    assert encoding.encoding_key(PAIRS, other, 128) == encoding.encoding_key(PAIRS, tokenizer, 128)
    other.add_tokens(["unheardof"])
    assert encoding.encoding_key(PAIRS, other, 128) != encoding.encoding_key(PAIRS, tokenizer, 128)


def _flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(255 - byte for byte in content[middle : middle + 8]) + content[middle + 8 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"nonsense",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        _flip,
    ],
    ids=["empty", "nonsense", "half", "one byte short", "flipped bytes"],
)
def test_a_damaged_cache_is_made_anew_and_mended(
    damage: Any, tokenizer: Any, tmp_path: Path, count: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    first = encode(PAIRS, tokenizer, 128, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert same(encode(PAIRS, tokenizer, 128, tmp_path), first)
    assert len(caplog.records) == 1
    assert "cannot be read" in caplog.text
    assert same(encode(PAIRS, tokenizer, 128, tmp_path), first)
    assert count == [3, 3]


def test_a_cache_that_does_not_fit_the_texts_is_made_anew(tokenizer: Any, tmp_path: Path, count: list[int]) -> None:
    whole = encode(PAIRS, tokenizer, 128, tmp_path)
    (file,) = tmp_path.iterdir()
    np.savez(file, **{name: getattr(whole, name)[:1] for name in Encoded.__dataclass_fields__})
    assert same(encode(PAIRS, tokenizer, 128, tmp_path), whole)
    assert count == [3, 3]


def test_a_cache_is_data_not_code(tokenizer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = encode(PAIRS, tokenizer, 128, tmp_path)
    (file,) = tmp_path.iterdir()
    arrays = {name: getattr(whole, name) for name in Encoded.__dataclass_fields__}
    np.savez(file, **(arrays | {"input_ids": np.array([print], dtype=object)}))
    assert same(encode(PAIRS, tokenizer, 128, tmp_path), whole)
    assert "cannot be read" in caplog.text


def test_an_unwritable_cache_costs_time_not_the_run(
    tokenizer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    encoded = encode(PAIRS, tokenizer, 128, tmp_path / "file" / "cache")
    assert same(encoded, encode(PAIRS, tokenizer, 128, None))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "tokens are not cached" in caplog.text


@pytest.mark.parametrize("at", ["write", "rename"])
def test_a_full_disk_leaves_no_litter(
    at: str, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((np, "savez_compressed", full) if at == "write" else (Path, "replace", full)))
    assert len(encode(PAIRS, tokenizer, 128, tmp_path)) == 3
    assert list(tmp_path.iterdir()) == []
    assert "No space left" in caplog.text


def test_default_cache_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("EFFECTIVE_ATTENTION_CACHE", raising=False)
    assert default_cache_dir() == Path("/home/somebody/.cache/effective-attention/tokens")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_cache_dir() == Path("/cache/effective-attention/tokens")
    monkeypatch.setenv("EFFECTIVE_ATTENTION_CACHE", "/elsewhere")
    assert default_cache_dir() == Path("/elsewhere")
