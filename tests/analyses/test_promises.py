"""What every analysis promises, checked for all of them: what ``conf/analysis/all.yaml`` names, and more."""

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.multiprocessing as processes

from effective_attention.analyses.common.run import run_analyses
from helpers.paths import CONF
from helpers.small_analyses import OPTIONS


def chosen(*names: str):
    """The real configs, as ``evaluate.py`` composes them."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.utils import instantiate

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        everything = "analysis=[all,token_identity,token_mixing]"
        cfg = compose("evaluate", overrides=[everything, "analysis.null_space.padded_examples=5", *OPTIONS])
    made = dict(instantiate(cfg.analysis))
    return {name: made[name] for name in names} if names else made


# pronouns is about one sentence of the user's with a gap, number_flip about texts whose subject is marked, explorer a
# page: none is part of all; they have tests of their own
APART = ("none", "paper", "identifiability", "structure", "all", "pronouns", "number_flip", "explorer")
NAMES = sorted(path.stem for path in (CONF / "analysis").glob("*.yaml") if path.stem not in APART)
STREAMING = [name for name in NAMES if name != "timing"]


def tables(subject, context, *names: str, keep: bool = False) -> dict[str, pd.DataFrame]:
    """Nothing is found again from an earlier test, unless parts are kept."""

    context = context if keep else dataclasses.replace(context, folder=None)
    return run_analyses(subject, {name: analysis.setup(context) for name, analysis in chosen(*names).items()})


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    tolerance = 2e-6
    if "epochs" in one:  # token_identity, whose seconds are the machine's
        one, other = (table.drop(columns="seconds") for table in (one, other))
    if (
        "measure" in one
    ):  # faithfulness: costs are the machine's, and rounding decides the rank of scores that are all but equal
        one, other = (table[table["measure"] != "milliseconds"] for table in (one, other))
        tolerance = 2e-2
    numbers = [column for column in one if one[column].dtype.kind == "f"]
    assert len(one) > 0
    pd.testing.assert_frame_equal(one.drop(columns=numbers), other.drop(columns=numbers))
    for column in numbers:
        np.testing.assert_allclose(one[column], other[column], rtol=1e-4, atol=tolerance, err_msg=column)


@pytest.fixture(scope="module")
def expected(subject, context):
    return tables(subject, context)


def test_all_names_every_analysis():
    assert sorted(chosen()) == NAMES


def batched(subject, **changes):
    """The same examples in batches of another size or padding."""
    data = subject.data
    before = {name: getattr(data, name) for name in changes}
    for name, value in changes.items():
        setattr(data, name, value)
    return before


@pytest.mark.parametrize("changes", [{"batch_size": 1}, {"batch_size": 9}, {"padding": "max_length"}], ids=str)
def test_neither_batching_nor_padding_changes_a_table(subject, context, expected, changes):
    before = batched(subject, **changes)
    try:
        got = tables(subject, context)
    finally:
        batched(subject, **before)
    for name in NAMES:
        assert_same(expected[name], got[name])


def test_inputs_model_and_random_state_are_left_alone(subject, context):
    made = {name: one.setup(dataclasses.replace(context, folder=None)) for name, one in chosen().items()}
    seen = subject.trace([0, 1, 2])
    _ = seen.reference, [layer.exact for layer in seen.layers]
    kept = [tensor.clone() for layer in seen.layers for tensor in (layer.attention, layer.value, layer.exact.effective)]
    inputs = {name: tensor.clone() for name, tensor in seen.inputs.items()}
    weights = {name: tensor.clone() for name, tensor in subject.model.state_dict().items()}
    state, implementation = torch.get_rng_state(), subject.model.config._attn_implementation
    subject.model.train()
    try:
        for analysis in made.values():
            if analysis.wants([0, 1, 2]):
                analysis.update(seen)
        assert subject.model.training
    finally:
        subject.model.eval()
    assert torch.equal(torch.get_rng_state(), state)
    assert subject.model.config._attn_implementation == implementation
    after = [tensor for layer in seen.layers for tensor in (layer.attention, layer.value, layer.exact.effective)]
    assert all(torch.equal(a, b) for a, b in zip(kept, after, strict=True))
    assert all(torch.equal(inputs[name], tensor) for name, tensor in seen.inputs.items())
    assert all(torch.equal(weights[name], tensor) for name, tensor in subject.model.state_dict().items())


@pytest.mark.parametrize("name", STREAMING)
def test_reset_forgets(subject, context, expected, name):
    analysis = chosen(name)[name].setup(dataclasses.replace(context, folder=None))
    for batch in subject.batches():
        analysis.update(subject.trace(batch))
    analysis.reset()
    for batch in subject.batches():
        analysis.update(subject.trace(batch))
    assert_same(expected[name], analysis.compute())


def test_states_do_not_grow_with_the_dataset(subject, context):
    context = dataclasses.replace(context, folder=None)
    made = {name: one.setup(context) for name, one in chosen().items() if name in STREAMING}
    sizes = []
    for batch in subject.batches():
        for analysis in made.values():
            analysis.update(subject.trace(batch))
        states = {name: [getattr(one, state) for state in getattr(one, "_defaults", ())] for name, one in made.items()}
        sizes.append({name: sum(state.numel() for state in each) for name, each in states.items()})
    assert sizes[0] == sizes[-1]


def test_the_published_reading(subject, context, expected):
    """Padding inside the null space, its columns zeroed after: another effective attention, the same standard one."""
    got = tables(dataclasses.replace(subject, reading="padded"), context)
    for name in ("token_types", "delimiters", "finetuning_shift", "heatmap"):
        values = expected[name].assign(padded=got[name]["value"])
        standard, effective = (values[values["attention"] == kind] for kind in ("standard", "effective"))
        np.testing.assert_allclose(standard["value"], standard["padded"], atol=2e-6)
        assert np.abs(effective["value"] - effective["padded"]).max() > 1e-3
    assert_same(expected["null_space"], got["null_space"])  # shows both readings itself


# --- two processes ---


def _one_of_two(rank: int, folder: str) -> None:
    from helpers.subjects import join_two

    subject = join_two(rank, folder)  # shared, as finished parts must be
    found = tables(subject, subject.context(seed=0, task=subject.data.task), *STREAMING, keep=True)
    (Path(folder) / f"{rank}.pickle").write_bytes(pickle.dumps(found))
    torch.distributed.destroy_process_group()


def test_two_processes_find_what_one_finds(expected, tmp_path):
    processes.spawn(_one_of_two, args=(str(tmp_path),), nprocs=2)
    for rank in range(2):
        found = pickle.loads((tmp_path / f"{rank}.pickle").read_bytes())
        for name in STREAMING:
            assert_same(expected[name], found[name])


def test_a_subject_without_tags_still_knows_delimiters(subject, context, expected):
    from effective_attention.data.annotation.tagging import annotate

    data, split = subject.data, subject.split
    plain = annotate(split.examples.texts, data.tokenizer, data.max_length, None, None)
    got = tables(dataclasses.replace(subject, annotated=plain), context, "delimiters")
    assert_same(expected["delimiters"], got["delimiters"])
