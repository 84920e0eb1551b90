"""The picture a map becomes, the shipped net, and the labelled maps it was trained and measured on."""

import csv
import json
import math
from collections import Counter

import numpy as np
import pytest
import torch

from effective_attention.models.pattern_net import (
    PATTERNS,
    SIZE,
    ConvNet,
    classify,
    load_pattern_net,
    middle_diagonals,
    pattern_net_facts,
    steady_columns,
    to_image,
    two_squares,
)
from helpers.paths import ROOT

MATERIAL = ROOT / "scripts" / "patterns"


# --- the picture ---


def test_two_tokens_fill_four_squares():
    image = to_image(torch.tensor([[[0.8, 0.2], [0.4, 0.6]]]))[0, 0]
    half = SIZE // 2
    assert image[:half, :half].unique().tolist() == [1.0]
    assert image[:half, half:].unique().tolist() == pytest.approx([0.25])
    assert image[half:, :half].unique().tolist() == pytest.approx([0.5])
    assert image[half:, half:].unique().tolist() == pytest.approx([0.75])


def test_a_pixel_is_the_mean_of_what_it_covers():
    attention = torch.rand(1, 2 * SIZE, 2 * SIZE, generator=torch.Generator().manual_seed(0))
    means = attention.view(SIZE, 2, SIZE, 2).mean(dim=(1, 3))
    brightest = means.flatten().sort(descending=True).values[31]
    torch.testing.assert_close(to_image(attention)[0, 0], (means / brightest).clamp_max(1))


def test_lonely_peaks_do_not_darken_the_rest():
    attention = torch.full((1, SIZE, SIZE), 0.01)
    attention[0, 0, :10] = 1.0
    assert to_image(attention).min() == 1.0
    attention[0, :, 5] = 1.0  # a whole column does
    assert to_image(attention).min() == pytest.approx(0.01)


def test_negative_weights_count_as_none():
    attention = torch.tensor([[[0.5, -0.5], [0.0, 0.5]]])
    assert torch.equal(to_image(attention), to_image(attention.clamp_min(0)))


@pytest.mark.parametrize("length", [2, 3, 17, 63, 64, 65, 100, 200])
def test_padding_is_cut_off_whatever_is_in_it(length):
    generator = torch.Generator().manual_seed(length)
    attention = torch.rand(1, length, length, generator=generator)
    padded = torch.full((1, length + 9, length + 9), 7.0)
    padded[:, :length, :length] = attention
    image = to_image(attention)
    torch.testing.assert_close(to_image(padded, torch.tensor([length])), image)
    assert image.shape == (1, 1, SIZE, SIZE)
    assert 0 <= image.min() <= image.max() == 1


def test_many_maps_at_once_are_as_one_by_one():
    attention = torch.rand(3, 20, 20, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([20, 7, 13])
    one_by_one = [to_image(a[None, :n, :n]) for a, n in zip(attention, lengths.tolist(), strict=True)]
    torch.testing.assert_close(to_image(attention, lengths), torch.cat(one_by_one))


def test_an_empty_map_is_black():
    assert to_image(torch.zeros(1, 5, 5)).max() == 0


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 4), (3, 3)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="attention must have shape"):
        to_image(torch.ones(shape))


@pytest.mark.parametrize("lengths", [[1], [4], [2, 2]])
def test_other_lengths_are_refused(lengths):
    with pytest.raises(ValueError, match="lengths must hold 1 numbers from 2 to 3"):
        to_image(torch.ones(1, 3, 3), torch.tensor(lengths))


# --- the net ---


def ideal(pattern: str, length: int) -> torch.Tensor:
    """Make a map whose pattern nobody would dispute."""
    generator = torch.Generator().manual_seed(length)
    noise = 0.02 * torch.rand(length, length, generator=generator) ** 4
    if pattern == "heterogeneous":
        spots = torch.rand(length, length, generator=generator)
        return torch.where(spots > 0.9, spots, noise)
    before = torch.eye(length).roll(1, dims=0)
    second = torch.arange(length) > 0.45 * length
    before[0] = 0
    if pattern == "block":
        texture = 0.7 + 0.6 * torch.rand(length, length, generator=generator)
        return (second[:, None] == second[None]) * texture + noise
    column = torch.zeros(length, length)
    column[:, length // 3] = 0.5
    parts = {"vertical": (column,), "diagonal": (before,), "vertical+diagonal": (column, 0.5 * before)}
    return sum(parts[pattern], noise)


@pytest.mark.parametrize("length", [24, 50, 64, 90, 128])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_ideal_maps_are_recognised(pattern, length):
    found = classify(load_pattern_net(), ideal(pattern, length)[None])
    assert PATTERNS[found.item()] == pattern


def test_an_image_is_judged_by_itself():
    net = load_pattern_net()
    attention = torch.stack([ideal(pattern, 40) for pattern in PATTERNS])
    alone = torch.cat([classify(net, one[None]) for one in attention])
    assert torch.equal(classify(net, attention), alone)
    assert torch.equal(classify(net, attention, batch=2), alone)


def test_the_loaded_net_is_frozen_and_small():
    net = load_pattern_net()
    assert not net.training
    assert not any(weight.requires_grad for weight in net.parameters())
    assert sum(weight.numel() for weight in net.parameters()) < 300_000


def test_each_pixel_knows_its_diagonal():
    image = torch.rand(1, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    means = ConvNet()._diagonals(image)[0, 0]
    assert means[3, 10].item() == pytest.approx(image[0, 0].diagonal(7).mean().item())
    assert means[63, 0].item() == pytest.approx(image[0, 0, 63, 0].item())


def test_two_squares_are_told_from_an_even_map():
    second = torch.arange(SIZE) >= 30
    squares = (second[:, None] == second[None]).float()[None, None]
    contrast = two_squares(torch.cat([squares, torch.ones_like(squares)]))
    assert contrast[0].argmax() == 5  # edges at 10, 14, ... 30
    assert contrast[0].max().item() == pytest.approx(math.log(1.01 / 0.01))
    assert contrast[1].abs().max() < 1e-5


def test_a_column_of_a_causal_map_is_steady_where_it_is_seen():
    image = torch.zeros(1, 1, SIZE, SIZE)
    image[..., 20:, 20] = 0.7  # all of what a causal map shows of it
    image[..., :50, 50] = 0.6  # the same of a map turned round
    image[..., 60:, 60] = 1.0  # too short to count
    below, above = steady_columns(image)
    assert below[0, 0, 0, 20].item() == pytest.approx(0.7)
    assert above[0, 0, 0, 50].item() == pytest.approx(0.6)
    assert below[0, 0, 0].count_nonzero() == above[0, 0, 0].count_nonzero() == 1


@pytest.mark.parametrize("length", [8, 16, 64])
def test_diagonals_are_found_whole_tokens_away(length):
    after = torch.eye(length).roll(2, dims=1).triu(2)  # each token looks at the next but one
    found = middle_diagonals(to_image(after[None]), torch.tensor([length]))
    mean, third = found.view(2, -1)  # of 3 tokens before to 3 tokens after
    assert mean.argmax() == third.argmax() == 5
    assert third[5] == 1
    assert third[[0, 1, 2, 3, 6]].max() == 0


# --- the material ---


LOTS = ("", "_real", "_fresh")


def table(name: str, lots: tuple[str, ...] = LOTS) -> dict[str, dict[str, str]]:
    rows = {}
    for lot in lots:
        with (MATERIAL / f"{name}{lot}.csv").open() as file:
            rows |= {row["id"]: row for row in csv.DictReader(file)}
    return rows


@pytest.fixture(scope="module")
def maps():
    images = {}
    for lot in LOTS:
        with np.load(MATERIAL / f"maps{lot}.npz") as arrays:
            images |= dict(zip(arrays["id"].tolist(), arrays["image"], strict=True))
    return images


def test_every_map_has_a_source_and_a_label(maps):
    sources, labels = table("maps"), table("labels")
    assert list(maps) == list(sources) == list(labels)
    assert len(maps) >= 827 + 400 + 720
    count = {pattern: sum(row["label"] == pattern for row in labels.values()) for pattern in PATTERNS}
    assert sum(count.values()) == len(maps)
    assert min(count.values()) >= 150
    for column, values in {
        "source": {"sample", "glue-dev", "glue-train", "wikitext-2", "ud-ewt"},
        "model": {"minilm", "mpnet_base", "smollm2"},
        "checkpoint": {"pretrained", "finetuned"},
        "attention": {"standard", "effective"},
        "layer": {str(number) for number in range(30)},
    }.items():
        assert {row[column] for row in sources.values()} == values


def test_real_texts_are_balanced():
    rows = [row for row in table("maps", ("_real",)).values() if row["drawn"] == "cell"]
    bins = [sum(int(row["length"]) >= low for low in (10, 15, 30, 60)) for row in rows]
    cells = Counter((row["model"], row["attention"], place) for row, place in zip(rows, bins, strict=True))
    assert len(cells) == 3 * 2 * 4
    assert set(cells.values()) == {21}


def test_fresh_texts_that_are_held_out_are_balanced():
    """No net chose them, and at least a hundred are of texts under 30 tokens."""
    labels = table("labels", ("_fresh",))
    rows = [row for name, row in table("maps", ("_fresh",)).items() if labels[name]["split"] == "held-out"]
    assert {row["drawn"] for row in rows} == {"cell", "neither", "squares", "line", "both"}
    bins = [sum(int(row["length"]) >= low for low in (10, 15, 30, 60)) for row in rows]
    cells = Counter((row["model"], place) for row, place in zip(rows, bins, strict=True))
    assert cells == {(name, place): (36, 36, 22, 22)[place - 1] for name, place in cells}
    assert len(cells) == 3 * 4
    at_random = Counter(row["attention"] for row in rows if row["drawn"] == "cell")
    assert at_random == {"standard": 78, "effective": 78}


def test_fresh_texts_are_no_other_lots_texts():
    earlier = {(row["task"], row["text"]) for row in table("maps", ("", "_real")).values() if row["source"] != "sample"}
    assert not earlier & {(row["task"], row["text"]) for row in table("maps", ("_fresh",)).values()}


def test_no_sentence_is_on_both_sides(make_task):
    from effective_attention.data.sources import SampleSource

    sources, labels = table("maps", ("",)), table("labels", ("",))
    texts = {
        name: SampleSource().load(make_task(name), "validation").texts
        for name in {row["task"] for row in sources.values()}
    }
    sides: dict[str, set[str]] = {"train": set(), "held-out": set()}
    for name, row in sources.items():
        sides[labels[name]["split"]].update(texts[row["task"]][int(row["text"])])
    assert not sides["train"] & sides["held-out"]
    share = sum(row["split"] == "held-out" for row in labels.values()) / len(labels)
    assert share == pytest.approx(0.3, abs=0.01)


def test_no_real_text_is_on_both_sides():
    sources, labels = table("maps"), table("labels")
    sides: dict[str, set[str]] = {"train": set(), "held-out": set()}
    lines: dict[str, set[tuple[str, str]]] = {"train": set(), "held-out": set()}
    for name, row in sources.items():
        sides[labels[name]["split"]].add(row["group"])
        place = row["task"].rpartition("_")[0] if row["source"] == "wikitext-2" else row["task"]
        lines[labels[name]["split"]].add((row["source"] + place, row["text"]))
    assert not sides["train"] & sides["held-out"]
    assert not lines["train"] & lines["held-out"]


def test_the_stated_score_is_what_net_and_held_out_maps_give(maps):
    from sklearn.metrics import confusion_matrix, f1_score

    sources = table("maps")
    held_out = {name: row["label"] for name, row in table("labels").items() if row["split"] == "held-out"}
    images = torch.from_numpy(np.stack([maps[name] for name in held_out])).float()[:, None] / 255
    lengths = torch.tensor([int(sources[name]["length"]) for name in held_out])
    with torch.no_grad():
        found = [PATTERNS[number] for number in load_pattern_net()(images, lengths).argmax(dim=-1)]
    facts = pattern_net_facts()
    label = list(held_out.values())
    assert facts["macro_f1"] == pytest.approx(f1_score(label, found, average="macro"), abs=1e-4)
    assert facts["confusion"] == confusion_matrix(label, found, labels=PATTERNS).tolist()
    assert facts["maps_held_out"] == len(label)
    short = [place for place, length in enumerate(lengths.tolist()) if length < 30]
    fresh = [place for place in short if list(held_out)[place].startswith("f")]
    for name, places in {"all, under 30 tokens": short, "fresh texts, under 30 tokens": fresh}.items():
        score = f1_score([label[place] for place in places], [found[place] for place in places], average="macro")
        assert facts["parts"][name]["macro_f1"] == pytest.approx(score, abs=1e-4)
        assert facts["parts"][name]["maps"] == len(places) >= 100
    assert facts["macro_f1"] >= 0.8


def test_the_stated_agreement_is_that_of_the_two_passes():
    from sklearn.metrics import cohen_kappa_score, f1_score

    first, second = table("labels"), table("second_pass")
    fresh = {name: row for name, row in second.items() if name[0] == "f" and first[name]["split"] == "held-out"}
    agreement = pattern_net_facts()["agreement"]
    later = table("later_pass", ("_real",))
    parts = ((second, agreement), (fresh, agreement["fresh texts"]), (later, agreement["another day"]))
    for rows, stated in parts:
        one = [row.get("first", first[name]["label"]) for name, row in rows.items()]
        two = [row["label"] for row in rows.values()]
        assert stated["maps"] == len(rows) >= 100
        assert stated["share"] == pytest.approx(np.mean([a == b for a, b in zip(one, two, strict=True)]), abs=1e-4)
        assert stated["cohen_kappa"] == pytest.approx(cohen_kappa_score(one, two), abs=1e-4)
        assert stated["macro_f1"] == pytest.approx(f1_score(one, two, average="macro"), abs=1e-4)


def test_the_facts_are_plain_json():
    facts = pattern_net_facts()
    assert facts["patterns"] == list(PATTERNS)
    assert json.loads(json.dumps(facts)) == facts
