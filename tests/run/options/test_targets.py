"""A ``_target_`` takes what its signature says, whoever wrote it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from effective_attention.errors import UserError
from effective_attention.run.options.targets import build, check_targets

HERE = __name__


class Own:
    """What a user might write."""

    def __init__(
        self,
        count: int,
        share: float = 0.5,
        pair: tuple[int, int] = (1, 2),
        names: Sequence[str] = (),
        table: Mapping[str, Sequence[int]] | None = None,
        place: Path | None = None,
        anything: Any = None,
        unknown: "NotThere" = None,  # type: ignore[name-defined]  # noqa: F821
    ) -> None:
        if count == 13:
            raise ValueError("13 brings\nbad luck")
        if count == 14:
            raise KeyError("a bug")
        self.count = count


class Typed:
    def __init__(
        self,
        count: int,
        share: float = 0.5,
        pair: tuple[int, int] = (1, 2),
        table: Mapping[str, Sequence[int]] | None = None,
        place: Path | None = None,
        inner: Own | None = None,
    ) -> None: ...


def loose(**options: object) -> dict[str, object]:
    return options


def node(name: str, **options: Any) -> Any:
    return OmegaConf.create({"mine": {"_target_": f"{HERE}.{name}", **options}})


@pytest.mark.parametrize(
    "options",
    [
        {"count": 1, "share": 1, "pair": [1, 2], "table": {"a": [1]}, "place": "a/b"},
        {"count": 0, "inner": {"_target_": f"{HERE}.Own", "count": 1}},
        {"_args_": [1]},
        {"_partial_": True},
    ],
)
def test_what_fits(options: dict[str, Any]) -> None:
    check_targets(node("Typed", **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": True}, r"^mine\.count must be a whole number, got true$"),
        ({"count": "1"}, r"^mine\.count must be a whole number, got '1'$"),
        ({"count": 1, "share": float("nan")}, r"^mine\.share must be a number, got nan$"),
        ({"count": 1, "pair": [1, 2, 3]}, r"^mine\.pair must be a list, each a whole number, got \[1, 2, 3\]$"),
        (
            {"count": 1, "table": {"a": 1}},
            r"^mine\.table must be names, each with a list, each a whole number, or",
        ),
        ({"count": 1, "place": 3}, r"^mine\.place must be a path, or null, got 3$"),
        ({"count": 1, "shar": 3}, r"^mine\.shar is not an option of .*Typed; did you mean mine\.share\?$"),
        (
            {"count": 1, "xyz": 3},
            r"^mine\.xyz is not an option of .*Typed; it takes count, share, pair",
        ),
        ({}, r"^mine\.count is not set; .*Typed needs it$"),
        (
            {"count": 1, "inner": {"_target_": f"{HERE}.Own", "count": 1, "x": 1}},
            r"^mine\.inner\.x is not an option of",
        ),
        (
            {"count": 1, "inner": {"_target_": "no.such"}},
            r"^mine\.inner\._target_=no\.such cannot be imported",
        ),
    ],
)
def test_what_does_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_targets(node("Typed", **options))


def test_types_that_cannot_be_told_are_not_checked_but_names_are() -> None:
    check_targets(node("Own", count="abc"))
    check_targets(node("loose", anything=[1]))
    with pytest.raises(UserError, match=r"mine\.cuont is not an option"):
        check_targets(node("Own", cuont=1))


def test_a_target_must_be_something_to_call() -> None:
    with pytest.raises(UserError, match=r"^mine\._target_=.*HERE is a str; name a class or a function$"):
        check_targets(node("HERE"))


def test_targets_in_lists_are_checked_too() -> None:
    cfg = OmegaConf.create({"list": [{"_target_": "no.such"}]})
    with pytest.raises(UserError, match=r"^list\[0\]\._target_=no\.such cannot be imported"):
        check_targets(cfg)


def test_build() -> None:
    assert build(node("Own", count=1).mine, "mine", has=("count",)).count == 1
    with pytest.raises(UserError, match=r"^mine: 13 brings; check the options that begin with mine\.$"):
        build(node("Own", count=13).mine, "mine")
    with pytest.raises(UserError, match=r"^mine\._target_=.*Own does not do: it has no load$"):
        build(node("Own", count=1).mine, "mine", has=("load",))
    with pytest.raises(Exception, match="a bug") as caught:
        build(node("Own", count=14).mine, "mine")
    assert not isinstance(caught.value, UserError), "our own bugs keep their traceback"
