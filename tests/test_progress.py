"""Long work shows how far it has got: a bar at a terminal, a line now and then where output is redirected."""

import doctest
import logging
import subprocess
import sys
from collections.abc import Callable

import pytest

from effective_attention import progress as module
from effective_attention.progress import Progress, progress, tell
from helpers.terminal import Terminal


class Clock:
    """A clock that goes on when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "_now", clock)
    return clock


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """Return the lines on stderr since it was last asked; there is nothing on stdout."""

    def lines() -> list[str]:
        out, err = capsys.readouterr()
        assert out == ""
        return err.splitlines()

    return lines


def test_examples_of_the_docstrings() -> None:
    assert doctest.testmod(module).failed == 0


# --- redirected ---


def test_what_is_mostly_short_shows_nothing_until_it_is_long(clock: Clock, told: Callable[[], list[str]]) -> None:
    for seconds in (1.0, 2.0):
        with Progress("explain", 2, "texts", after=3.0) as work:
            for _ in range(2):
                clock.now += seconds
                work.advance()
    assert told() == ["explain: 2 of 2 texts, 4 s"]


def test_a_line_every_half_minute_and_the_last_one_once(clock: Clock, told: Callable[[], list[str]]) -> None:
    with Progress("analyses", 408, "examples", notes=lambda: ["loss 0.5"]) as work:
        for _ in range(6):
            clock.now += 10.0
            work.advance(20)
    assert told() == [
        "analyses: 60 of 408 examples, 30 s, loss 0.5",
        "analyses: 120 of 408 examples, 1 min 0 s, loss 0.5",
    ]


def test_the_end_is_said_again_where_there_is_something_new_to_note(
    clock: Clock, told: Callable[[], list[str]]
) -> None:
    loss = ["loss 0.5"]
    with Progress("training", 4, "steps", notes=lambda: [*loss]) as work:
        clock.now += 31.0
        work.advance(4)
        loss[:] = ["loss 0.4"]
    assert [line.rpartition(", ")[2] for line in told()] == ["loss 0.5", "loss 0.4"]


def test_long_work_does_not_fill_the_log(clock: Clock, told: Callable[[], list[str]]) -> None:
    """Check that two per cent pass between two lines, where these take longer than half a minute."""
    with Progress("training", 1000, "steps") as work:
        for _ in range(40):
            clock.now += 60.0
            work.advance()
    assert [line.split(",")[0] for line in told()] == [f"training: {done} of 1000 steps" for done in (20, 40)]


def test_an_unknown_total_asks_for_time_alone(clock: Clock, told: Callable[[], list[str]]) -> None:
    with Progress("reading", None, "rows") as work:
        clock.now += 31.0
        work.advance()
    assert told() == ["reading: 1 rows, 31 s"]


def test_notes_are_asked_for_only_when_they_are_shown(clock: Clock) -> None:
    asked: list[int] = []

    def notes() -> list[str]:
        asked.append(1)
        return []

    with Progress("training", 100, "steps", notes=notes) as work:
        for _ in range(100):
            work.advance()
    assert len(asked) == 1, "a GPU would have to wait each time"


def test_work_that_fails_is_not_said_to_be_done(told: Callable[[], list[str]]) -> None:
    with pytest.raises(ZeroDivisionError), Progress("analyses", 2, "examples"):
        raise ZeroDivisionError
    assert told() == []


def test_work_that_goes_on(clock: Clock, told: Callable[[], list[str]]) -> None:
    with Progress("training", 8, "steps", done=4) as work:
        work.advance(4)
    assert told() == ["training: 8 of 8 steps, 0 s"]


def test_nothing_to_do_is_nothing_to_show(told: Callable[[], list[str]]) -> None:
    assert list(progress([], "maps", "maps")) == []
    assert told() == []


def test_going_through_a_list_or_an_iterator(clock: Clock, told: Callable[[], list[str]]) -> None:
    assert list(progress([4, 5], "bounds", "rows")) == [4, 5]
    assert list(progress(iter([4, 5]), "bounds", "rows", total=2)) == [4, 5]
    assert told() == ["bounds: 2 of 2 rows, 0 s"] * 2


def test_other_processes_are_silent(monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]) -> None:
    monkeypatch.setattr(module, "rank_and_world", lambda: (1, 2))
    assert list(progress([4, 5], "bounds", "rows")) == [4, 5]
    tell("a line")
    assert told() == []


# --- at a terminal ---


def test_a_bar_fits_its_line(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Check the longest names and numbers there are, and what is longer than the line is wide."""
    terminal = Terminal(monkeypatch, width=80)
    notes = ["epoch 3/3", "loss 0.693", "matthews_correlation 0.512"]
    with Progress("training", 45483, "steps", notes=lambda: notes) as work:
        clock.now += 1.0
        work.advance(45483)
    with Progress("training", 45483, "steps", notes=lambda: [*notes, *notes]) as work:
        clock.now += 1.0
        work.advance(45483)
    assert any("45483/45483" in line and "matthews_correlation 0.512" in line for line in terminal.lines)
    assert max(len(line) for line in terminal.lines) <= 80


def test_a_bar_goes_away_unless_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    erase = "\x1b[2K"
    for stays in (False, True):
        terminal = Terminal(monkeypatch)
        with Progress("testing", 2, "batches", stays=stays) as work:
            work.advance(2)
        assert "2/2" in terminal.getvalue()
        assert terminal.getvalue().rstrip().endswith(erase) is not stays


def test_work_within_work_has_its_own_bar(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    terminal = Terminal(monkeypatch)
    with Progress("analyses", 8, "examples") as work:
        work.advance(4)
        list(progress(range(3), "bounds", "rows"))
        work.advance(4)
    assert any(line.startswith("analyses") for line in terminal.lines)
    assert any(line.startswith("bounds") for line in terminal.lines)


def test_a_failure_gives_the_terminal_back(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), Progress("analyses", 2, "examples"), Progress("bounds", 2, "rows"):
        raise ZeroDivisionError
    assert module._Bar._screen is None
    assert "\x1b[?25h" in terminal.getvalue(), "the cursor is seen again"


def test_what_is_logged_stands_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)
    handler = logging.StreamHandler(terminal)
    logging.getLogger().addHandler(handler)
    try:
        with Progress("training", 2, "steps"):
            logging.getLogger(__name__).warning("stopped at step 2")
        assert handler.stream is terminal
    finally:
        logging.getLogger().removeHandler(handler)
    assert "stopped at step 2" in terminal.lines, "on a line of its own"


def test_what_is_printed_into_a_file_stays_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(monkeypatch)
    with Progress("training", 2, "steps"):
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in terminal.getvalue()


def test_no_lines_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)
    tell("a line")
    assert terminal.getvalue() == ""


def test_a_light_command_stays_light() -> None:
    """Check that nobody waits for PyTorch to be loaded only to be told how far it is."""
    program = "import sys; from effective_attention.progress import tell; tell('a line'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "a line\n")
