"""A finetuned classifier is used with its head, its outputs in the task's order; what does not fit is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertConfig, DistilBertConfig, GPT2Config, RobertaConfig

from effective_attention.errors import UserError
from effective_attention.models.encoders import PretrainedEncoder, RandomEncoder
from effective_attention.models.finetuned import Start, start_model

OURS = ["entailment", "neutral", "contradiction"]
THEIRS = ["CONTRADICTION", "Neutral", "entailment"]
BERT: dict[str, Any] = {
    "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16, "vocab_size": 50,
}  # fmt: skip
CONFIGS = {
    "bert": lambda: BertConfig(**BERT),
    "roberta": lambda: RobertaConfig(**BERT),
    "distilbert": lambda: DistilBertConfig(n_layers=1, n_heads=2, dim=16, hidden_dim=16, vocab_size=50),
    "gpt2": lambda: GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50, pad_token_id=0),
}


def save(folder: Path, labels: list[str], kind: str = "bert", *, base: bool = False, **changes: Any) -> Any:
    """Write a random classifier as ``save_pretrained`` does; return it."""
    torch.manual_seed(0)
    config = CONFIGS[kind]()
    config.id2label = dict(enumerate(labels))
    config.label2id = {name: number for number, name in enumerate(labels)}
    for name, value in changes.items():
        setattr(config, name, value)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    (model.base_model if base else model).save_pretrained(folder)
    return model


def start(folder: Path, labels: list[str], outputs: int | None = None, *, new_head: bool = False) -> Start:
    count = len(labels) if outputs is None else outputs
    return start_model(PretrainedEncoder(str(folder)), labels, count, place="checkpoint=it", new_head=new_head)


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=torch.tensor([[1, 7, 9, 3, 2]])).logits


def check_unchanged(model: Any, before: Any) -> None:
    """Compare weights bit for bit; what they answer to rounding, which depends on where in memory they lie."""
    theirs = before.state_dict()
    assert model.state_dict().keys() == theirs.keys()
    assert all(torch.equal(weight, theirs[name]) for name, weight in model.state_dict().items())
    torch.testing.assert_close(logits(model), logits(before), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", CONFIGS)
def test_an_order_that_differs_is_mapped(kind: str, tmp_path: Path) -> None:
    before = logits(save(tmp_path, THEIRS, kind))
    found = start(tmp_path, OURS)
    torch.testing.assert_close(logits(found.model), before[:, [2, 1, 0]])
    assert found.head == "finetuned"
    assert found.model.config.id2label == dict(enumerate(OURS))
    assert found.model.config.label2id == {name: number for number, name in enumerate(OURS)}
    assert found.note is not None
    assert "are put into the task's order: entailment, neutral, contradiction" in found.note


@pytest.mark.parametrize(("names", "said"), [(OURS, None), (["LABEL_0", "LABEL_1", "LABEL_2"], "have no names")])
def test_the_same_order_or_none_is_kept(names: list[str], said: str | None, tmp_path: Path) -> None:
    before = save(tmp_path, names)
    found = start(tmp_path, OURS)
    check_unchanged(found.model, before)
    assert (found.head, found.model.config.id2label) == ("finetuned", dict(enumerate(OURS)))
    assert found.note is None if said is None else said in str(found.note)


@pytest.mark.parametrize("names", [["no", "yes"], ["a", "b", "c"], ["LABEL_0", "LABEL_1"]])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_other_labels_are_refused_or_get_a_new_head(names: list[str], kind: str, tmp_path: Path) -> None:
    model = save(tmp_path, names, kind)
    message = f"checkpoint=it: its labels are {', '.join(names)}, those of the task entailment, neutral, contradiction;"
    with pytest.raises(UserError, match=message) as caught:
        start(tmp_path, OURS)
    assert "\n" not in str(caught.value)
    found = start(tmp_path, OURS, new_head=True)
    assert (found.head, logits(found.model).shape) == ("random", (1, 3))
    assert "its head is replaced by a new, random one" in str(found.note)
    for name, tensor in found.model.base_model.state_dict().items():
        assert torch.equal(tensor, model.base_model.state_dict()[name]), name
    if kind == "roberta":  # no part of the old head stays
        assert not torch.equal(found.model.classifier.dense.weight, model.classifier.dense.weight)


def test_a_new_head_is_drawn_from_the_seed_alone(tmp_path: Path) -> None:
    save(tmp_path, ["no", "yes"])
    drawn = []
    for _ in range(2):
        torch.manual_seed(5)
        drawn.append(start(tmp_path, OURS, new_head=True).model.classifier.weight)
    assert torch.equal(*drawn)


def test_an_encoder_without_a_head_has_a_random_one(tmp_path: Path) -> None:
    save(tmp_path, ["LABEL_0", "LABEL_1"], base=True)
    found = start(tmp_path, OURS)
    assert (found.head, found.note, logits(found.model).shape) == ("random", None, (1, 3))
    assert start_model(RandomEncoder(), OURS, 3, place="model tiny", new_head=False).head == "random"


def test_scores_need_one_output(tmp_path: Path) -> None:
    save(tmp_path / "one", ["LABEL_0"])
    assert start(tmp_path / "one", [], 1).head == "finetuned"
    save(tmp_path / "three", THEIRS)
    with pytest.raises(UserError, match=r"its head has 3 outputs .*, and the task needs one score"):
        start(tmp_path / "three", [], 1)


def test_a_task_without_labels_takes_any_head(tmp_path: Path) -> None:
    before = save(tmp_path, THEIRS)
    found = start_model(PretrainedEncoder(str(tmp_path)), [], None, place="checkpoint=it", new_head=False)
    check_unchanged(found.model, before)
    assert found.model.config.id2label == dict(enumerate(THEIRS))


def test_labels_of_tokens_are_refused_even_where_the_heads_look_alike(tmp_path: Path) -> None:
    save(tmp_path, OURS)
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = ["BertForTokenClassification"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="checkpoint=it: it labels single tokens, which is not supported; name a clas"):
        start(tmp_path, OURS, len(OURS))
    again = start(tmp_path, OURS, new_head=True)
    assert again.head == "random"
    assert again.note == "checkpoint=it: it labels single tokens; its head is replaced by a new, random one"


def test_several_labels_a_text_are_refused(tmp_path: Path) -> None:
    save(tmp_path, OURS, problem_type="multi_label_classification")
    with pytest.raises(UserError, match="it gives a text several labels at once"):
        start(tmp_path, OURS)


def test_a_head_that_cannot_be_reordered_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, THEIRS)
    monkeypatch.setattr("effective_attention.models.finetuned._answer", lambda model: torch.eye(3)[:1])
    with pytest.raises(UserError, match="its head cannot be reordered; save it with id2label in the task's order"):
        start(tmp_path, OURS)


def test_an_encoder_of_another_size_than_its_config_is_refused(tmp_path: Path) -> None:
    save(tmp_path, OURS)
    config = BertConfig.from_pretrained(tmp_path)
    config.vocab_size = 60
    config.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"bert\.embeddings\.word_embeddings\.weight is of another shape"):
        start(tmp_path, OURS)
