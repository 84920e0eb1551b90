"""What texts are filled up with, where the tokenizer has no token for it."""

from typing import Any

import pytest
import torch
from transformers import PreTrainedConfig

from effective_attention.data.padding import padded, padding_agreed, padding_changes_answer, padding_id
from helpers.decoders import build_tokenizer


class Tokens:
    """A tokenizer of ten entries that sets ``behind`` after a text."""

    def __init__(self, behind: int = 5, unk: int | None = None, **special: int) -> None:
        self.behind = behind
        self.unk_token_id = unk
        self.pad_token_id = special.get("pad")
        self.eos_token_id = special.get("eos")
        self.bos_token_id = special.get("bos")
        self.all_special_ids = [number for number in (unk, *special.values()) if number is not None]

    def __len__(self) -> int:
        return 10

    def __call__(self, _text: str, **_options: Any) -> dict[str, list[int]]:
        return {"input_ids": [4, self.behind]}


@pytest.mark.parametrize(
    ("tokens", "known", "expected"),
    [
        (Tokens(pad=7, eos=2), None, 7),
        (Tokens(pad=7, eos=2), 3, 3),  # the model knows better
        (Tokens(pad=7, eos=2), -1, 7),  # no token's id
        (Tokens(eos=2, bos=1), 10, 2),  # outside of the vocabulary
        (Tokens(eos=2, bos=1), None, 2),
        (Tokens(eos=2, bos=1, behind=2), None, 1),  # every text ends in it
        (Tokens(eos=2, mask=6, behind=2), None, 6),
        (Tokens(eos=2, behind=2, unk=3), None, 9),  # an unknown word may end a text
        (Tokens(), None, 9),
        (Tokens(eos=0), None, 0),
    ],
)
def test_the_choice(tokens: Any, known: int | None, expected: int) -> None:
    assert padding_id(tokens, known) == expected


def test_a_text_does_not_end_in_what_is_chosen() -> None:
    tokenizer = build_tokenizer("gpt2")
    assert tokenizer.pad_token_id is None
    assert padding_id(tokenizer) == tokenizer.eos_token_id


@pytest.mark.parametrize(("before", "inside"), [(None, 2), (4, 4)])
def test_the_config_is_as_it_was(before: int | None, inside: int) -> None:
    model = torch.nn.Identity()
    model.config = config = PreTrainedConfig(pad_token_id=before)
    with padding_agreed(model, Tokens(eos=2)) as chosen:
        assert chosen == config.pad_token_id == inside
    assert config.pad_token_id is before


def test_padded_on_the_right() -> None:
    inputs = {"input_ids": torch.tensor([[5, 6]]), "attention_mask": torch.ones(1, 2, dtype=torch.long)}
    found = padded(inputs, 4, 9)
    assert found["input_ids"].tolist() == [[5, 6, 9, 9]]
    assert found["attention_mask"].tolist() == [[1, 1, 0, 0]]


# --- does the answer change? ---


class Reader(torch.nn.Module):
    """A home-made classifier: reads its mean, with or without padding, or the vector in its last place."""

    def __init__(self, reads: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(40_000, 4)
        self.dropout = torch.nn.Dropout(0.5)
        self.reads = reads

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        vectors = self.dropout(self.embedding(input_ids))
        if self.reads == "tokens":
            return vectors
        if self.reads == "last place":
            return vectors[:, -1]
        weights = attention_mask[..., None].float() if self.reads == "mean of tokens" else torch.ones(1)
        return (vectors * weights).sum(1) / weights.expand(vectors.shape).sum(1)


@pytest.mark.parametrize(
    ("reads", "changes"),
    [("tokens", False), ("mean of tokens", False), ("mean of all", True), ("last place", True)],
)
def test_whether_padding_changes_the_answer_is_tried_out(reads: str, changes: bool, tokenizer: Any) -> None:
    model = Reader(reads).train()
    state = torch.random.get_rng_state()
    assert padding_changes_answer(model, tokenizer, tokenizer.pad_token_id) is changes
    assert model.training
    assert torch.equal(torch.random.get_rng_state(), state)
