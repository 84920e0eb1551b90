"""The kinds of value that several options have."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict

from effective_attention.run.options.words import MOST, Words

DottedName = Annotated[str, Field(pattern=r"^\w+(\.\w+)+$"), Words("a dotted name, such as a.module.Name")]


class Options(BaseModel):
    """A node of the config: no other names than these, no conversions, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


class Built(Options):
    """A node that Hydra builds an object from; what its ``_target_`` takes is checked in ``targets``."""

    model_config = ConfigDict(extra="allow")

    target: DottedName = Field(alias="_target_")
    partial: bool = Field(default=False, alias="_partial_")
    recursive: bool = Field(default=True, alias="_recursive_")
    convert: str = Field(default="none", alias="_convert_")


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not valid UTF-8; convert it to UTF-8 first") from None
    return text


def _folder_name(value: Any) -> Any:
    """Refuse a number with the way to write a folder of that name; a slip would make a folder."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"a number is not a path; a folder of that name is written ./{value}")
    return value


Count = Annotated[int, Field(ge=1, le=MOST)]
CountOrNone = Annotated[int, Field(ge=0, le=MOST)]
Share = Annotated[float, Field(ge=0, le=1)]
PartOfIt = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Text = Annotated[str, AfterValidator(_not_blank), AfterValidator(_encodable)]
Word = Annotated[str | Annotated[int, Strict()] | Annotated[float, Strict()], Words("a word")]
Place = Annotated[Text, BeforeValidator(_folder_name), Words("a path")]
Folder = Annotated[str | int, Words("a folder")]  # one called 2024 comes as a number
File = Annotated[str | int, Words("a file")]
Reserved = Annotated[None, Words("left out: the command sets it itself")]

__all__ = [
    "Built", "Count", "CountOrNone", "File", "Folder", "NotNegative", "Options", "PartOfIt", "Place", "Positive",
    "Reserved", "Seed", "Share", "Text", "Word",
]  # fmt: skip
