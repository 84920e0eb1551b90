"""Pairs the other way round: the tokens, which word is which, and the correlation against a loop over words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from scipy import stats

from effective_attention.attention.trace import Trace, trace
from effective_attention.attributions.exchange import exchanged
from effective_attention.attributions.words import join_scores, tokens_of, words_of
from helpers.decoders import build_tokenizer as byte_level

PAIRS = [("The dog barks loudly .", "A dog unseenly barked"), ("Yes", "No , she said"), ("Dogs bark", "Cats do not")]


@pytest.fixture(scope="module")
def read(tokenizer: Any) -> Callable[..., Trace]:
    """Return a function that traces pairs in a tiny random BERT, as the data module would."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
    torch.manual_seed(0)
    config = hf.BertConfig(vocab_size=len(tokenizer), **sizes, num_labels=2, pad_token_id=tokenizer.pad_token_id)
    model = hf.BertForSequenceClassification(config).eval()

    def make(pairs: list[tuple[str, str]], longest: int = 64, more: int = 0) -> Trace:
        given = tokenizer(*map(list, zip(*pairs, strict=True)), truncation=True, max_length=longest, padding=True)
        inputs = {
            name: torch.nn.functional.pad(torch.tensor(given[name]), (0, more), value=fill)
            for name, fill in (("input_ids", tokenizer.pad_token_id), ("attention_mask", 0), ("token_type_ids", 0))
        }
        inputs["index"] = torch.arange(len(pairs)) + 5
        return trace(model, inputs)

    return make


def words(tokenizer: Any, texts: Any, longest: int = 64) -> list[Any]:
    encoded = tokenizer(*texts, truncation=True, max_length=longest, return_tensors="pt")
    return words_of(tokens_of(encoded, texts, tokenizer), texts)


def naive(tokenizer: Any, pair: Any, before: Any, after: Any, how: Any, longest: int = 64) -> float:
    """Correlate the scores of one pair's words, found by where they stand."""
    one, other = words(tokenizer, pair, longest), words(tokenizer, pair[::-1], longest)
    mine = dict(zip([(w.segment, w.start) for w in one], join_scores(before.tolist(), one, how), strict=True))
    theirs = dict(zip([(1 - w.segment, w.start) for w in other], join_scores(after.tolist(), other, how), strict=True))
    both = [place for place in mine if place in theirs]
    return float(stats.spearmanr([abs(mine[p]) for p in both], [abs(theirs[p]) for p in both]).statistic)


def test_the_other_reading_is_that_of_each_pair_alone(read: Any, tokenizer: Any) -> None:
    seen = read(PAIRS)
    found = exchanged(seen, PAIRS, tokenizer, 64)
    assert torch.equal(found.trace.inputs["index"], seen.inputs["index"])
    for row, pair in enumerate(PAIRS):
        alone = read([pair[::-1]])
        size = alone.mask.shape[1]
        for name in ("input_ids", "attention_mask", "token_type_ids"):
            assert torch.equal(found.trace.inputs[name][row, :size], alone.inputs[name][0])
        assert not found.trace.mask[row, size:].any()
        torch.testing.assert_close(found.trace.logits[row], alone.logits[0])
        kinds = found.trace.tokens["kind"][row].tolist()
        assert kinds[0] == 2, "[CLS]"
        assert kinds.count(3) == 2, "two [SEP]"
        assert kinds[size:] == [-1] * (len(kinds) - size)
        assert (found.words[row] == (found.trace.tokens["kind"][row] == 0)).all()


def test_words_have_the_same_numbers_in_both_readings(read: Any, tokenizer: Any) -> None:
    seen = read(PAIRS)
    found = exchanged(seen, PAIRS, tokenizer, 64)
    for row in range(len(PAIRS)):
        for number in range(int(found.before[row].max()) + 1):
            mine = seen.inputs["input_ids"][row][found.before[row] == number]
            theirs = found.trace.inputs["input_ids"][row][found.after[row] == number]
            assert torch.equal(mine, theirs)
            assert len(mine) > 0


@pytest.mark.parametrize("how", ["sum", "largest"])
def test_stability_against_a_loop_over_words(read: Any, tokenizer: Any, how: Any) -> None:
    seen = read(PAIRS)
    found = exchanged(seen, PAIRS, tokenizer, 64)
    generator = torch.Generator().manual_seed(0)
    before = torch.randn(3, 2, seen.mask.shape[1], generator=generator)
    after = torch.randn(3, 2, found.trace.mask.shape[1], generator=generator)
    got = found.stability(before, after, how)
    for row, pair in enumerate(PAIRS):
        for layer in range(2):
            expected = naive(tokenizer, pair, before[row, layer], after[row, layer], how)
            assert got[row, layer].item() == pytest.approx(expected)


def test_what_depends_on_the_words_alone_is_stable(read: Any, tokenizer: Any) -> None:
    seen = read(PAIRS)
    found = exchanged(seen, PAIRS, tokenizer, 64)
    before, after = (one.inputs["input_ids"][:, None].double().sin() for one in (seen, found.trace))
    torch.testing.assert_close(found.stability(before, after, "sum"), torch.ones(3, 1, dtype=torch.float64))
    assert found.stability(before * 0, after, "sum").isnan().all(), "equal scores have no ranks"


def test_padding_changes_nothing(read: Any, tokenizer: Any) -> None:
    short, long = (exchanged(read(PAIRS, more=more), PAIRS, tokenizer, 64) for more in (0, 3))
    assert torch.equal(short.after, long.after)
    assert torch.equal(short.before, long.before[:, :-3])
    torch.testing.assert_close(short.trace.logits, long.trace.logits)


def test_words_that_fall_off_the_end_are_left_out(read: Any, tokenizer: Any) -> None:
    """Check pairs that are cut to another number of words of each text when they are exchanged."""
    pairs = [("a b c d e f g h", "i j k l m n o p"), ("a b c", "d e f g h i j k l")]
    seen = read(pairs, longest=12)
    found = exchanged(seen, pairs, tokenizer, 12)
    before, after = (torch.randn(2, 1, part.shape[1]) for part in (seen.mask, found.trace.mask))
    got = found.stability(before, after, "sum")
    for row, pair in enumerate(pairs):
        assert got[row, 0].item() == pytest.approx(naive(tokenizer, pair, before[row, 0], after[row, 0], "sum", 12))
    for row in range(2):
        shown = {*found.before[row].tolist()} - {-1}
        assert shown == {*found.after[row].tolist()} - {-1}


def test_a_decoder_that_cuts_words_otherwise_behind_a_blank(make_case: Any) -> None:
    tokenizer = byte_level("gpt2")
    config = hf.GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=4, num_labels=2, pad_token_id=0)
    pairs = [("the cat purred", "a cat ran"), ("yes", "no , no")]
    rows = [tokenizer(*pair, return_tensors="pt")["input_ids"][0] for pair in pairs]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = (torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]).long()
    torch.manual_seed(0)
    seen = trace(hf.GPT2ForSequenceClassification(config).eval(), {"input_ids": ids, "attention_mask": mask})
    found = exchanged(seen, pairs, tokenizer, 64)
    assert "token_type_ids" not in found.trace.inputs
    assert (
        found.stability(torch.randn(2, 1, ids.shape[1]), torch.randn(2, 1, found.after.shape[1]), "sum")
        .isfinite()
        .all()
    )


def test_single_texts_cannot_be_exchanged(read: Any, tokenizer: Any) -> None:
    with pytest.raises(ValueError, match=r"only pairs of texts can be exchanged, got \('Yes',\)"):
        exchanged(read(PAIRS[:1]), [("Yes",)], tokenizer, 64)
