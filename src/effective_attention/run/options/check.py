"""Check a composed config against the schema, and the places it names: quickly, before PyTorch is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast, get_args

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from effective_attention.data.plain_text import check_file
from effective_attention.errors import UserError
from effective_attention.io import expanded
from effective_attention.models.places import find_checkpoint, find_results, is_classifier_place
from effective_attention.run.options.record import recorded
from effective_attention.run.options.schema import schema_of
from effective_attention.run.options.words import allowed, did_you_mean, near, shown

CUSTOM = "effective_attention.data.custom.task.CustomTask"
GLUE = "nyu-mll/glue"


def check_options(cfg: DictConfig) -> None:
    """Refuse the first wrong option in one line: its name, what it may be and what came."""
    options = cast("dict[str, Any]", OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))
    if "analysis" not in options:
        raise UserError("analysis=[] names no analysis; write analysis=none")
    schema = schema_of(options)
    try:
        schema.model_validate(options)
    except ValidationError as error:
        wrong = sorted(error.errors(include_url=False), key=lambda one: _is_taken_over(cfg, one["loc"]))
        raise UserError(_line(schema, wrong[0], recorded(cfg))) from None  # a value may be a secret
    _check_places(options)
    if options.get("text_pair") is not None and options.get("text") is None:
        raise UserError("text_pair is given without text; add text=<the first text>")
    if options["reading"] == "padded" and (options["space"] != "value" or options["epsilon"] > 0):
        raise UserError("reading=padded is the published protocol; leave out space= and epsilon=")


def _is_taken_over(cfg: DictConfig, place: Sequence[str | int]) -> bool:
    """Tell whether a value is that of another option, which is then the one to correct."""
    node: Any = cfg
    for part in place:
        if not OmegaConf.is_config(node) or (OmegaConf.is_dict(node) and part not in node):
            return False
        if OmegaConf.is_interpolation(node, part):
            return True
        node = node[part]
    return False


def _check_places(options: Mapping[str, Any]) -> None:
    """Look whether the files and folders exist that the run begins with."""
    place = options.get("checkpoint")
    if place is not None and not is_classifier_place(place):
        find_checkpoint(place, "checkpoint")
    if options["resume"] is not None:
        find = find_checkpoint if "optimizer" in options else find_results
        find(options["resume"], "resume")
    if options.get("text") is not None:
        return  # the text takes the data's place
    if options["task"]["_target_"] == CUSTOM:
        _check_found(place, options["data"])
        _check_custom(options["task"]["name"], options["data"])
    elif "dir" in options["data"]:
        _check_local(options["task"], options["data"])


def _check_local(task: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    """Look for the user's own data: a folder, or a single file for a task that is read from one."""
    wanted, other = ("file", "dir") if "file" in task.get("loaders", {}) else ("dir", "file")
    if data.get(other) is not None:
        raise UserError(f"data.{other}={data[other]} is not for task={task['name']}; add data.{wanted}=<value> instead")
    if data.get(wanted) is None:
        raise UserError(f"data.{wanted} is not set; add data.{wanted}=<value>")
    place = expanded(str(data[wanted]))
    if wanted == "file":
        check_file(place)
    else:
        _check_folder(data["dir"], f"{task.get('tsv_folder', 'MRPC')}/train.tsv or train.csv")


def _check_folder(folder: str | int, example: str) -> None:
    place = expanded(str(folder))
    if not place.is_dir():
        problem = "is not a folder" if place.exists() else "no such folder"
        raise UserError(f"data.dir={folder}: {problem}; give the one that holds {example}")


def _check_found(place: str | None, data: Mapping[str, Any]) -> None:
    """Ask for a task or data where a checkpoint is not here: it may be mistyped, or a name on the hub."""
    if place is None or expanded(place).exists() or "source" not in data:
        return
    if not {"dir", "file", "name"} & data.keys():
        raise UserError(
            f"checkpoint={place}: no such file or folder; of a model on the hub name the task (task=sst2), or "
            "your data (data=local data.dir=<folder with train.csv>)"
        )


def _check_custom(task: str, data: Mapping[str, Any]) -> None:
    """Look for the data of a task of the user's own: a folder, a file or a dataset on the hub."""
    places = [name for name in ("dir", "file") if data.get(name) is not None]
    if len(places) > 1:
        raise UserError(f"data.dir and data.file are both given for task={task}; leave one of them out")
    if "dir" in data and not places:
        raise UserError(f"task={task} has no data; add data.dir=<folder with train.csv>, or data.file=<file>")
    if places and places[0] == "file":
        check_file(expanded(str(data["file"])), "CSV, TSV, JSONL or Parquet")
    elif places:
        _check_folder(data["dir"], "train.csv")
    elif "name" not in data:
        raise UserError(
            f"task={task} has no data; add data=local data.dir=<folder with train.csv>, data=local data.file=<file>, "
            "or data=hub data.name=<dataset>"
        )
    elif data["name"] == GLUE and data["configuration"] is None and data["source"].get("name") is None:
        raise UserError(f"task={task} data=hub names no dataset; add data.name=<dataset>")


class Found(NamedTuple):
    """An option by its place in a config, and what the schema says of it; ``field`` is None where it says nothing."""

    path: tuple[str, ...]
    field: FieldInfo | None
    siblings: tuple[str, ...]


def find_option(schema: type[BaseModel], place: Sequence[str | int]) -> Found:
    """Follow a path through the schema down to the option that it belongs to."""
    kind: Any = schema
    path: list[str] = []
    field: FieldInfo | None = None
    siblings: tuple[str, ...] = ()
    for part in map(str, place):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            fields = {one.alias or name: one for name, one in kind.model_fields.items()}
            field = fields.get(part)
            siblings = tuple(fields)
        elif kind is not dict:
            break
        path.append(part)
        kind = _inner(field, kind)
    return Found(tuple(path), field, siblings)


def _inner(field: FieldInfo | None, outer: Any) -> Any:
    """Return the model that a field holds, ``dict`` for names with models, or None for a plain value."""
    if field is None:
        return None
    if outer is dict:
        return get_args(field.annotation)[-1]
    kinds = [field.annotation, *get_args(field.annotation)]
    if getattr(field.annotation, "__origin__", None) is dict:
        return dict
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _line(schema: type[BaseModel], error: Any, values: Mapping[str, Any]) -> str:
    found = find_option(schema, error["loc"])
    option = ".".join(found.path)
    if error["type"] == "extra_forbidden":
        return unknown_option(option, found.siblings)
    assert found.field is not None
    wanted = allowed(found.field.annotation, found.field.metadata)
    if error["type"] == "missing":
        return f"{option} is not set; it must be {wanted}"
    value = value_at(values, found.path)
    if error["type"] == "model_type":
        return f"{option} has options of its own ({option}.<name>=<value>), got {shown(value)}"
    if error["type"] == "value_error":
        return f"{option}={value}: {error['ctx']['error']}"
    hint = f"""; a text of that form is written {option}="'{value}'\"""" if _looks_like_number(error) else ""
    return f"{option} must be {wanted}, got {shown(value)}{hint}"


def _looks_like_number(error: Any) -> bool:
    return error["type"] == "string_type" and isinstance(error["input"], int | float)


def value_at(values: Any, path: Sequence[str]) -> Any:
    """Return what stands at a place of a plain config."""
    for part in path:
        values = values[part]
    return values


def unknown_option(option: str, known: Sequence[str]) -> str:
    """Say that an option does not exist, and which was probably meant."""
    parent, _, name = option.rpartition(".")
    meant = near(name, known)
    full = f"{parent}.{meant}" if parent and meant else meant
    return f"{option} does not exist{did_you_mean(full)} (--help lists the options)"
