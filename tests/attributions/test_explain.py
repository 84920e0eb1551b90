"""One text, explained: scores against naive oracles, the checks beside random, families, options and errors."""

import math
import re

import pytest
import torch
import transformers as hf

from effective_attention import explain
from effective_attention.attributions import perturbations
from effective_attention.attributions.erasure import SHARES
from effective_attention.attributions.perturbations import blank_id
from effective_attention.attributions.registry import registered
from effective_attention.errors import UserError
from helpers import zoo

TEXT = "The unbelievably old cat didn't purr, they said; it barked loudly."
PAIR = "Cats bark."
ATTENTIONS = ("standard", "effective")
RUNS = [(one.name, which) for one in registered() for which in (ATTENTIONS if one.reads_attention else ATTENTIONS[:1])]


def classifier(classes=3, **options):
    """Build a tiny BERT whose weights are large enough for its answers to differ."""
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 16, "intermediate_size": 24}
    torch.manual_seed(0)
    config = hf.BertConfig(**sizes, vocab_size=30522, num_labels=classes, initializer_range=0.25, **options)
    model = hf.BertForSequenceClassification(config).eval()
    torch.nn.init.normal_(model.classifier.weight, std=2.0)
    return model


@pytest.fixture(scope="module")
def model():
    return classifier(id2label={0: "no", 1: "yes", 2: "maybe"})


@torch.no_grad()
def chances(model, ids, types=None):
    ids = torch.tensor([ids])
    logits = model(ids, token_type_ids=None if types is None else torch.tensor([types])).logits[0]
    return logits.double().softmax(dim=0) if len(logits) > 1 else logits.double()


def test_the_prediction_and_the_table(model, tokenizer):
    found = explain(model, tokenizer, TEXT, PAIR)
    encoded = tokenizer(TEXT, PAIR)
    expected = chances(model, encoded["input_ids"], encoded["token_type_ids"])
    assert (found.predicted, found.target) == (("no", "yes", "maybe")[int(expected.argmax())],) * 2
    assert found.probability == found.target_probability == pytest.approx(float(expected.max()))
    table = found.to_frame()
    assert list(table) == ["position", "word", "score", "segment", "start", "end", "special"]
    assert table["word"].tolist()[:5] == ["The", "unbelievably", "old", "cat", "didn't"]
    assert not table["special"].any()
    texts = (TEXT, PAIR)
    assert [texts[row.segment][row.start : row.end] for row in table.itertuples()] == table["word"].tolist()
    assert found.predicted in repr(found)
    assert len(repr(found)) < 250


def test_what_takes_long_shows_how_far_it_is(model, tokenizer, monkeypatch, capsys):
    explain(model, tokenizer, TEXT)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(perturbations, "SHOWN_AFTER", 0.0)
    for method, title in (
        ("integrated_gradients", r"integrated gradients: 34 of 34 steps"),
        ("blank_out", "blank-out: "),
    ):
        explain(model, tokenizer, TEXT, method=method)
        first, second = capsys.readouterr().err.splitlines()
        assert re.match(title, first)
        assert re.match(r"how far to trust it: (\d+) of \1 shortened texts, ", second)


def test_integrated_gradients_of_the_words_add_up_to_the_evidence(model, tokenizer):
    found = explain(model, tokenizer, TEXT, target="yes", method="integrated_gradients")
    ids = tokenizer(TEXT)["input_ids"]
    blanked = [ids[0], *[blank_id(tokenizer)] * (len(ids) - 2), ids[-1]]
    whole, empty = (torch.logit(chances(model, one)[1]) for one in (ids, blanked))
    assert sum(found.scores) == pytest.approx(float(whole - empty), abs=1e-3)
    assert max(map(abs, found.scores)) > 0.01


@pytest.mark.parametrize("layer", [None, 0])
def test_raw_attention_is_the_row_of_cls_read_by_hand(model, tokenizer, layer):
    options = {"attention": "standard", "method": "raw", "layer": layer}
    found = explain(model, tokenizer, TEXT, unit="token", **options)
    eager = classifier()
    eager.load_state_dict(model.state_dict())
    eager.set_attn_implementation("eager")
    inputs = tokenizer(TEXT, return_tensors="pt")
    weights = eager(**inputs, output_attentions=True).attentions[-1 if layer is None else layer][0]  # head, query, key
    assert found.scores == pytest.approx(weights.mean(dim=0)[0].tolist(), abs=1e-6)
    assert (found.attention, found.layer) == ("standard", 1 if layer is None else 0)
    assert [word.text for word in found.words][:1] == ["[CLS]"]
    effective = explain(model, tokenizer, TEXT, unit="token", **{**options, "attention": "effective"})
    assert effective.scores != pytest.approx(found.scores, abs=1e-4)


@pytest.mark.parametrize(("method", "attention"), RUNS)
def test_words_are_joined_from_their_pieces_and_the_model_is_left_as_it_was(tokenizer, method, attention):
    model = classifier().train()
    list(model.modules())[5].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state, implementation = torch.get_rng_state(), model.config._attn_implementation
    padding = model.config.pad_token_id
    pieces = explain(model, tokenizer, TEXT, method=method, attention=attention, unit="token")
    words = explain(model, tokenizer, TEXT, method=method, attention=attention)
    assert torch.equal(torch.get_rng_state(), state)
    assert (model.config._attn_implementation, model.config.pad_token_id) == (implementation, padding)
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    (rule,) = [one.pieces for one in registered() if one.name == method]
    for word, score in zip(words.words, words.scores, strict=True):
        mine = [pieces.scores[place] for place in word.tokens]
        assert score == pytest.approx(sum(mine) if rule == "sum" else max(mine, key=abs), abs=1e-6)
    assert len(words.words) < len(pieces.words) - 2


# --- how far to trust it ---


def naive(model, ids, words, ranking, target):
    """Take away, or keep alone, the top tokens by a loop; means over the shares. All tokens of a word go together."""
    order = sorted(
        (place for word in words for place in word.tokens),
        key=lambda place: (-next(s for w, s in zip(words, ranking, strict=True) if place in w.tokens), place),
    )
    whole = chances(model, ids)[target]
    lost = []
    for share in SHARES:
        top = order[: max(1, math.ceil(share * len(order) - 1e-9))]
        without = [one for place, one in enumerate(ids) if place not in top]
        alone = [one for place, one in enumerate(ids) if place in top or place in (0, len(ids) - 1)]
        lost.append([float(whole - chances(model, kept)[target]) for kept in (without, alone)])
    return [sum(column) / len(SHARES) for column in zip(*lost, strict=True)]


@pytest.mark.parametrize("unit", ["word", "token"])
def test_trust_is_what_a_loop_finds_for_the_method_and_for_random_rankings(model, tokenizer, unit):
    found = explain(model, tokenizer, TEXT, method="gradient_x_input", target=1, unit=unit, seed=7)
    ids = tokenizer(TEXT)["input_ids"]
    words = [word for word in found.words if not word.special]
    scores = [score for score, word in zip(found.scores, found.words, strict=True) if not word.special]
    draws = torch.rand(20, len(words), generator=torch.Generator().manual_seed(7), dtype=torch.float64).tolist()
    random = [naive(model, ids, words, ranking, 1) for ranking in draws]
    measures = (found.trust.comprehensiveness, found.trust.sufficiency)
    for number, (measure, value) in enumerate(zip(measures, naive(model, ids, words, scores, 1), strict=True)):
        others = [one[number] for one in random]
        assert measure.value == pytest.approx(value, abs=1e-5)
        assert measure.random == pytest.approx(sum(others) / 20, abs=1e-5)
        worse = [other < value - 1e-9 if number == 0 else other > value + 1e-9 for other in others]
        assert measure.beaten == sum(worse)


def test_the_same_seed_gives_the_same_and_another_draws_others(model, tokenizer):
    one, same, other = (explain(model, tokenizer, TEXT, seed=seed) for seed in (0, 0, 1))
    assert one == same
    assert one.trust.comprehensiveness.value == pytest.approx(other.trust.comprehensiveness.value)
    assert one.trust.comprehensiveness.random != other.trust.comprehensiveness.random


def test_one_word_beats_nothing(model, tokenizer):
    trust = explain(model, tokenizer, "cat").trust
    assert (trust.comprehensiveness.beaten, trust.sufficiency.beaten) == (0, 0)
    assert "Neither check" in trust.verdict


# --- which models ---


@pytest.mark.parametrize("family", zoo.FAMILIES)
def test_classifiers_of_every_family(family, tmp_path):
    place = zoo.write_model(tmp_path, family)
    torch.manual_seed(0)
    model = hf.AutoModelForSequenceClassification.from_pretrained(place, num_labels=2)
    tokenizer = hf.AutoTokenizer.from_pretrained(place)
    before = model.config.pad_token_id
    found = explain(model, tokenizer, "The old cat sat on the mat, and the dogs ran.")
    assert [word.text for word in found.words][:3] == ["The", "old", "cat"]
    assert all(map(math.isfinite, found.scores))
    assert any(found.scores)
    assert model.config.pad_token_id == before


def test_a_regression_is_explained_by_its_score(tokenizer):
    model = classifier(1)
    found = explain(model, tokenizer, TEXT)
    assert found.is_regression
    assert found.predicted == found.target == "score"
    assert found.probability == pytest.approx(float(chances(model, tokenizer(TEXT)["input_ids"])[0]), abs=1e-5)
    assert "score" in found.prediction


SMALL = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 8}
NO_CLASSIFIERS = {
    "bare": lambda: hf.BertModel(hf.BertConfig(**SMALL)),
    "masked": lambda: hf.BertForMaskedLM(hf.BertConfig(**SMALL)),
    "causal": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=30522)),
}


@pytest.mark.parametrize("kind", NO_CLASSIFIERS)
def test_what_is_no_classifier_is_refused_in_one_line(kind, tokenizer):
    with pytest.raises(ValueError, match=r"^explain needs a classifier, [^\n]*AutoModelForSequenceClassification$"):
        explain(NO_CLASSIFIERS[kind](), tokenizer, TEXT)


def test_models_that_write_or_choose_several_classes_are_refused(tokenizer):
    writer = hf.BartForSequenceClassification(
        hf.BartConfig(
            vocab_size=30522,
            d_model=8,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=8,
            decoder_ffn_dim=8,
        )
    )
    with pytest.raises(ValueError, match=r"^explain needs a classifier that reads one text; BartForSeq"):
        explain(writer, tokenizer, TEXT)
    with pytest.raises(ValueError, match=r"may choose several at once$"):
        explain(classifier(problem_type="multi_label_classification"), tokenizer, TEXT)


# --- options ---


def test_a_target_by_number_or_name_and_own_labels(model, tokenizer):
    by_number, by_name = (explain(model, tokenizer, TEXT, target=target) for target in (2, "maybe"))
    assert by_number == by_name
    assert by_name.target == "maybe"
    assert explain(model, tokenizer, TEXT, target="c", labels=["a", "b", "c"]).scores == by_name.scores
    assert explain(model, tokenizer, TEXT, target=1, labels=["-1", "0", "1"]).scores == by_name.scores  # a name first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 3}, "target must be from 0 to 2, or one of no, yes, maybe, got 3"),
        ({"target": "never"}, "target must be from 0 to 2, or one of no, yes, maybe, got 'never'"),
        ({"target": True}, "target must be from 0 to 2, or one of no, yes, maybe, got True"),
        ({"labels": ["a"]}, "labels must be as many as the model's outputs, 3, got 1"),
        ({"unit": "letter"}, "unit must be word or token, got 'letter'"),
        ({"attention": "null"}, "attention must be standard or effective, got 'null'"),
        ({"layer": 1}, "layer: blank_out has one score a token, not one a layer; leave it out"),
        ({"layer": 2, "method": "raw"}, "layer must be from 0 to 1, got 2"),
    ],
)
def test_wrong_options_are_one_line(model, tokenizer, options, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        explain(model, tokenizer, TEXT, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("method", ["integrated_gradient", "all", None])
def test_an_unknown_method_is_told_the_known_ones(model, tokenizer, method):
    with pytest.raises(
        UserError, match=r"^method must be the name of an attribution method, got .*known: raw, rollout"
    ):
        explain(model, tokenizer, TEXT, method=method)


@pytest.mark.parametrize("text", ["", "  \n", 5])
def test_no_text_is_refused(model, tokenizer, text):
    with pytest.raises(ValueError, match=r"^(text is empty|a text must be a string)"):
        explain(model, tokenizer, text)


def test_a_regression_has_no_targets(tokenizer):
    with pytest.raises(ValueError, match=r"^target: the model has one output, a score; leave it out, got 1$"):
        explain(classifier(1), tokenizer, TEXT, target=1)


def test_a_long_text_is_cut_with_one_warning(tokenizer, caplog):
    model = classifier(max_position_embeddings=12)
    found = explain(model, tokenizer, "cat dog " * 10)
    assert [record.message for record in caplog.records] == ["the text has 22 tokens and is cut at 12"]
    assert found.is_cut
    assert len(found.words) == 10


def test_a_slow_tokenizer_shows_tokens_and_says_so(caplog):
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 8}
    model = hf.BertForSequenceClassification(hf.BertConfig(**sizes, vocab_size=400))
    found = explain(model, hf.ByT5Tokenizer(), "A cat.", method="rollout")
    assert [word.text for word in found.words] == list("A cat.")
    assert [record.message for record in caplog.records] == [
        "the tokenizer does not say where its tokens stand in the text: tokens are shown, not words"
    ]
