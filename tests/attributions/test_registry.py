"""Methods by name: their order, how they are chosen, what is refused, and that every file registers one."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

import effective_attention.attributions as package
from effective_attention.attributions import registry
from effective_attention.attributions.attribute import attribute, runs
from effective_attention.attributions.registry import choose, register, registered
from effective_attention.attributions.shared_work import SharedWork
from effective_attention.errors import UserError
from helpers.own_methods import last_words_module

OPTION = "analysis.faithfulness.methods"
HELPERS = {
    "__init__",
    "answer",
    "attribute",
    "blocks",
    "comparison",
    "erasure",
    "exchange",
    "ground_truth",
    "randomised",
    "summed_gradient",
    "word_pieces",
    "perturbations",
    "embedding",
    "explain",
    "explanation",
    "explanation_page",
    "highlight",
    "layer_modules",
    "layer_vectors",
    "trust",
    "words",
    "ranking",
    "registry",
    "request",
    "shared_work",
}


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    """Remove what a test registers after it."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))


def names(methods):
    return [method.name for method in methods]


def nothing(work):
    return torch.zeros(work.trace.mask.shape)


def add(function, name="mine", **more):
    return register(name, title="mine", summary="a test's", **more)(function)


# --- what there is ---


def test_order():
    everything = names(registered())
    assert everything[0] == "raw"
    assert everything[-1] == "random"
    reading = [method.reads_attention for method in registered()]
    assert reading == sorted(reading, reverse=True)
    assert set(reading) == {True, False}


def test_every_file_registers_a_method_or_is_a_known_helper():
    files = {path.stem for path in Path(package.__file__).parent.glob("*.py")}
    registering = {method.function.__module__.rpartition(".")[2] for method in registered()}
    assert files - registering == HELPERS
    assert registering == set(package.METHOD_FILES)


def test_titles_and_summaries_are_short_and_unlike():
    for words in ([method.title for method in registered()], [method.summary for method in registered()]):
        assert len(set(words)) == len(words)
        assert all(0 < len(text) <= 80 and "\n" not in text for text in words)
    assert all(len(method.title) <= 30 for method in registered())


@pytest.mark.parametrize(("method", "attention"), runs(registered()), ids=lambda value: getattr(value, "name", value))
def test_a_method_reads_the_shared_work_it_names(make_case, method, attention):
    work = make_case("bert").work(steps=2)
    given = (work,) if attention is None else (work, attention)
    assert work.measured(lambda: method.function(*given)).needs == set(method.needs)


# --- choosing ---


def test_all_and_a_list_in_its_order():
    assert choose("all", OPTION) == registered()
    assert names(choose(["random", "flow", "raw"], OPTION)) == ["random", "flow", "raw"]
    assert names(choose(OmegaConf.create(["flow", "blank_out"]), OPTION)) == ["flow", "blank_out"]
    assert names(choose("rollout", OPTION)) == ["rollout"]


def test_runs_keep_the_order_and_read_one_attention_at_a_time():
    chosen = choose(["blank_out", "flow", "raw", "random", "norm"], OPTION)
    assert [(method.name, attention) for method, attention in runs(chosen)] == [
        ("blank_out", None),
        *((name, attention) for attention in ("standard", "effective") for name in ("flow", "raw")),
        ("random", None),
        ("norm", "standard"),
        ("norm", "effective"),
    ]


@pytest.mark.parametrize(
    ("wanted", "parts"),
    [
        (["rolout"], ["got 'rolout'; did you mean rollout? known: raw, rollout, flow, ", ", random"]),
        ("integrated_gradient", ["got 'integrated_gradient'; did you mean integrated_gradients? known: raw"]),
        (["raw", "zzzz"], ["got 'zzzz'; known: raw, rollout"]),
        (["raw", None], ["got None; known: raw"]),
        (["all"], ["got 'all'; known: raw"]),
        ([], ["must be all or a list of names, got []; known: raw"]),
        (None, ["must be all or a list of names, got None; known: raw"]),
        (3, ["must be all or a list of names, got 3; known: raw"]),
        (["raw", "flow", "raw"], ["must name each method once, got raw more than once"]),
        (["no_such_module:mine"], ["cannot import 'no_such_module' (No module named 'no_such_module')", "PYTHONPATH"]),
        (["../mine.py:mine"], ["'../mine.py' is no name of a module; write module:method"]),
        (["json:mine"], ["got 'json:mine'; known: raw"]),
    ],
)
def test_what_cannot_be_chosen(wanted, parts):
    with pytest.raises(UserError) as caught:
        choose(wanted, OPTION)
    message = str(caught.value)
    assert message.startswith(OPTION)
    assert "\n" not in message
    for part in parts:
        assert part in message


# --- registering ---


def test_another_method_of_the_same_name_is_refused():
    with pytest.raises(ValueError, match=r"there is an attribution method 'raw' already, .*\.raw\.raw; give .*nothing"):
        add(nothing, "raw")
    assert choose("raw", OPTION)[0].title == "raw attention"


def test_a_function_defined_anew_replaces_itself(make_case):
    for value in (1, 2):

        def constant(work, value=value):
            return torch.full(work.trace.mask.shape, value)

        add(constant)
    (method,) = choose("mine", OPTION)
    assert int(method.function(make_case("bert").work()).max()) == 2
    assert names(registered()).count("mine") == 1


@pytest.mark.parametrize("name", ["all", "two words", "a:b", "", "3d"])
def test_names_that_cannot_be_chosen_are_refused(name):
    with pytest.raises(ValueError, match=f"not 'all', got {name!r}"):
        register(name, title="mine", summary="a test's")


def test_arguments_must_fit():
    with pytest.raises(ValueError, match=r"'mine' must take \(work, attention\), as its reads_attention is True"):
        add(nothing, reads_attention=True)
    with pytest.raises(ValueError, match=r"'mine' must take \(work\), as its reads_attention is False"):
        add(lambda work, attention: work, needs=["graph"])
    assert "mine" not in names(registered())


@pytest.mark.parametrize("switch", ["imported before", "by its module"])
def test_a_method_of_the_users_own(tmp_path, monkeypatch, make_case, switch):
    module, name = last_words_module(tmp_path, monkeypatch)
    wanted = name
    if switch == "by its module":
        wanted = f"{module}:{name}"
    else:
        importlib.import_module(module)
    chosen = choose(["raw", wanted], OPTION)
    assert names(chosen) == ["raw", name]
    assert names(registered())[-1] == name
    work = make_case("bert").work()
    (found,) = [one for one in attribute(work.request, work.words, work.settings, chosen) if one.method == name]
    assert found.scores.shape == (3, 1, 9)
    assert found.scores[1, 0].tolist() == [0, 1, 2, 3, 4, 5, 0, 0, 0]
    assert module in sys.modules


# --- running ---


def run(case, method_name):
    work = case.work(steps=2)
    return list(attribute(work.request, work.words, work.settings, choose([method_name], OPTION)))


def test_scores_of_another_shape_are_refused(make_case):
    add(lambda work: torch.zeros(3, 2, 9))
    with pytest.raises(ValueError, match=r"'mine' must give scores of shape \(3, 9\), gave \(3, 2, 9\)"):
        run(make_case("bert"), "mine")


def test_shared_work_must_be_named(make_case):
    add(lambda work, attention: work.row(work.graph(attention)), reads_attention=True)
    with pytest.raises(ValueError, match="'mine' reads shared work that its needs do not name: graph"):
        run(make_case("bert"), "mine")


def test_preparing_comes_first_and_is_not_charged(make_case, monkeypatch):
    clock = Clock(monkeypatch)
    seen = []

    def mine(work):
        seen.append("run")
        clock.spend(3)
        return nothing(work)

    add(mine, prepare=lambda: (seen.append("prepare"), clock.spend(100)))
    (found,) = run(make_case("bert"), "mine")
    assert seen == ["prepare", "run"]
    assert found.seconds == 3


# --- costs, by a clock that only we move ---


class Clock:
    def __init__(self, monkeypatch):
        self.time = 0.0
        monkeypatch.setattr(SharedWork, "_now", lambda _work: self.time)

    def spend(self, seconds, result=None):
        self.time += seconds
        return result


def test_everyone_is_charged_with_the_shared_work_that_was_done_once(make_case, monkeypatch):
    clock = Clock(monkeypatch)
    done = []

    def backward(work):
        return work.shared("backward", None, lambda: clock.spend(10, done.append("backward")))

    def product(work, attention):
        def compute():
            backward(work)
            return clock.spend(5, done.append(f"product {attention}"))

        return work.shared("product", attention, compute)

    def first(work):
        clock.spend(1)
        backward(work)
        return nothing(work)

    def second(work, attention):
        product(work, attention)
        backward(work)  # again: charged once
        clock.spend(2)
        return torch.zeros(3, 2, 9)

    add(first, "first", needs=["backward"])
    add(second, "second", needs=["backward", "product"], reads_attention=True)
    expected = {("second", "standard"): 17, ("second", "effective"): 17, ("first", None): 11}
    for order in (["first", "second"], ["second", "first"]):
        done.clear()
        work = make_case("bert").work()
        found = attribute(work.request, work.words, work.settings, choose(order, OPTION))
        assert {(one.method, one.attention): one.seconds for one in found} == expected
        assert sorted(done) == ["backward", "product effective", "product standard"]


def test_our_methods_share_one_backward_pass_and_one_decomposition(make_case):
    case = make_case("bert")
    work = case.work()
    chosen = choose(["input_gradient", "gradient_x_input", "gradient_attention", "gradient_rollout"], OPTION)
    with case.runs() as passes:
        list(attribute(work.request, work.words, work.settings, chosen))
    assert len(passes) == 1


def test_shared_work_that_fails_is_not_kept(make_case):
    work = make_case("bert").work()
    with pytest.raises(ZeroDivisionError):
        work.shared("broken", None, lambda: 1 // 0)
    assert work.shared("broken", None, lambda: 7) == 7
    assert work.measured(lambda: 1).needs == set()
