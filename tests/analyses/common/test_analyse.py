"""Analyses of any model on any texts, from Python."""

import subprocess
import sys
from typing import Any

import pandas as pd
import pytest
import torch
import transformers as hf

from effective_attention import analyse
from effective_attention.analyses.common.registry import analysis_names, find_analysis
from effective_attention.analyses.distance import Distance
from effective_attention.analyses.faithfulness import Faithfulness
from effective_attention.analyses.null_space import NullSpace
from effective_attention.models.encoders import TinyEncoder

TEXTS = ["A cat sat on the mat, and nobody minded at all.", "It purred.", "Then the dog came in and barked loudly."]
PAIRS = [(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[2])]


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return TinyEncoder().classifier(2)  # in training mode, as a user may have it


def test_one_table_for_each_in_one_pass(model: Any, tokenizer: Any) -> None:
    tables = analyse(model, tokenizer, TEXTS, ["distance", "null_space"], progress=False)
    assert list(tables) == ["distance", "null_space"]
    assert set(tables["distance"]["attention"]) == {"standard", "effective"}
    lengths = [len(tokenizer(text)["input_ids"]) - 2 for text in TEXTS]  # without [CLS] and [SEP]
    assert set(tables["distance"]["count"]) == {sum(length**2 for length in lengths)}


def test_options_by_object_and_the_object_is_left_alone(model: Any, tokenizer: Any) -> None:
    mine = Distance(special_tokens=True)
    table = analyse(model, tokenizer, TEXTS, [mine], progress=False)["distance"]
    assert table["special_tokens"].all()
    assert not hasattr(mine, "context")


def test_batches_do_not_matter_and_neither_does_the_models_mode(model: Any, tokenizer: Any) -> None:
    model.train()
    one = analyse(model, tokenizer, TEXTS, ["entropy"], batch_size=1, progress=False)["entropy"]
    assert model.training
    three = analyse(model, tokenizer, TEXTS, ["entropy"], batch_size=3, progress=False)["entropy"]
    pd.testing.assert_frame_equal(one, three, atol=1e-6, rtol=1e-5)


def test_pairs(model: Any, tokenizer: Any) -> None:
    table = analyse(model, tokenizer, PAIRS, ["delimiters"], progress=False)["delimiters"]
    assert set(table["delimiter"]) == {"cls", "sep"}


def test_words_are_tagged_where_an_analysis_asks(model: Any, tokenizer: Any) -> None:
    table = analyse(model, tokenizer, TEXTS, ["pos_attention"], progress=False)["pos_attention"]
    counts = table.drop_duplicates("tag").set_index("tag")["count"]
    assert counts["NOUN"] >= 2
    assert counts["VERB"] >= 2


def test_labels(model: Any, tokenizer: Any) -> None:
    table = analyse(model, tokenizer, TEXTS, ["head_ablation"], labels=[0, 1, 1], progress=False)["head_ablation"]
    assert set(table["metric"]) == {"accuracy"}
    assert set(table["count"]) == {3}


def test_the_pretrained_model_beside_it(model: Any, tokenizer: Any) -> None:
    table = analyse(model, tokenizer, TEXTS, ["finetuning_shift"], reference=model, progress=False)["finetuning_shift"]
    assert table["value"].to_numpy() == pytest.approx(1)


def test_a_decoder_without_a_padding_token(tokenizer: Any) -> None:
    torch.manual_seed(0)
    config = hf.GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=64)
    bare = tokenizer.__class__.from_pretrained(tokenizer.name_or_path)
    bare.pad_token = None
    table = analyse(hf.GPT2Model(config), bare, TEXTS, ["distance"], progress=False)["distance"]
    assert table["value"].notna().all()


def test_texts_are_cut_where_the_model_can_take_no_more(tokenizer: Any) -> None:
    config = hf.BertConfig(
        hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=16, max_position_embeddings=12
    )
    table = analyse(hf.BertModel(config), tokenizer, [" ".join(TEXTS)], ["distance"], progress=False)["distance"]
    assert set(table["count"]) == {10**2}


@pytest.mark.parametrize(
    ("texts", "analyses", "options", "message"),
    [
        ("A cat.", ["distance"], {}, "texts must be a list of texts, got one string"),
        ([], ["distance"], {}, "texts must be at least one text"),
        (["A cat.", " "], ["distance"], {}, "text number 1 is empty"),
        (["A cat.", "\ud83d"], ["distance"], {}, "text number 1 holds half a surrogate pair"),
        (["A cat.", ("It", "purred")], ["distance"], {}, "texts must all be strings, or all pairs .* as number 1"),
        ([("a", "b", "c")], ["distance"], {}, "texts must all be strings"),
        (["A cat."], "distance", {}, "analyses must be a list, got 'distance'"),
        (["A cat."], [], {}, "analyses must be at least one"),
        (["A cat."], ["distance", Distance()], {}, "each once"),
        (["A cat."], ["distanse"], {}, "there is no analysis 'distanse'; did you mean 'distance'"),
        (["A cat."], ["rollout"], {}, "there is no analysis 'rollout'"),
        (
            ["A cat."],
            [Faithfulness(target="correct")],
            {},
            r"faithfulness asks whether the model is right; add labels=",
        ),
        (["A cat."], ["finetuning_shift"], {}, r"finetuning_shift compares with the pretrained model; add reference="),
        (["A cat."], ["distance"], {"labels": [0, 1]}, "labels must be one for each of 1 texts, got 2"),
    ],
)
def test_mistakes_are_one_line(
    model: Any, tokenizer: Any, texts: Any, analyses: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        analyse(model, tokenizer, texts, analyses, **options)
    assert "\n" not in str(caught.value)


def test_every_analysis_is_found_by_its_name() -> None:
    names = analysis_names()
    assert {"distance", "null_space", "token_identity", "token_mixing", "timing"} <= set(names)
    assert not {"common", "rollout", "flow", "explorer"} & set(names)
    for name in names:
        assert find_analysis(name).analysis_name() == name
    assert find_analysis("null_space") is NullSpace


def test_neither_hydra_nor_lightning_nor_wandb_is_loaded() -> None:
    code = """
import sys
from transformers import BertConfig, BertForSequenceClassification
from effective_attention import analyse
from effective_attention.models.encoders import TinyEncoder
tokenizer = TinyEncoder().tokenizer()
model = TinyEncoder().classifier(2)
names = ["distance", "pos_attention", "head_ablation", "heatmap"]
tables = analyse(model, tokenizer, ["A cat sat.", "It purred."], names, labels=[0, 1], progress=False)
assert list(tables) == names
heavy = {"hydra", "omegaconf", "pytorch_lightning", "lightning", "wandb"}
print(sorted(heavy & {name.split(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == "[]"
