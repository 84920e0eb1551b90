"""Join the page's ES modules into one classic script, which its content policy can allow by a single hash.

A browser loads modules one by one, from addresses; the page is one file and may load nothing. So the modules are put
together when the page is built: each becomes a scope of its own that returns what it exports, after those it imports.

One form of import and one of export are understood, each at the start of a line; whatever else is refused::

    import { name, other } from "./folder/file.js";
    export const name = ...; export function name() {...} export async function name() {...} export class Name {...}

Comments that have their lines to themselves, indentation and empty lines are for those who read the sources, and stay
out of the page: a third of the text. That is why no string may go on in a second line.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

_COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*\*(?:(?!\*/)[\s\S])*\*/[ \t]*)\n", re.MULTILINE)
_IMPORT = re.compile(r'^import \{\s*([\w\s,]*?),?\s*\} from "(\.\.?/[\w./]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|function|async function) (\w+)\b)", re.MULTILINE)
_ANYTHING_ELSE = re.compile(r"^[ \t]*(?:import|export)\b.*|\bimport\s*[(.].*", re.MULTILINE)
_FORBIDDEN = (
    "</script",
    "<!--",
    "\r",
)  # the first two would end or confuse the script element; browsers change the last


@dataclass(frozen=True)
class Module:
    """One file.

    Args:
        path: Below the folder of all modules, with forward slashes.
        imports: For each file it imports, the names it wants.
        exports: The names it offers.
        body: Its code without imports and without the word ``export``.
    """

    path: str
    imports: dict[str, tuple[str, ...]]
    exports: tuple[str, ...]
    body: str


def link(folder: Path, entry: str = "start.js") -> str:
    """Return one classic script that does what the modules do; modules that others need come first.

    Raises:
        ValueError: Says which file has what wrong: see ``load``.
    """
    scopes = "\n\n".join(_as_scope(module) for module in load(folder, entry))
    return f'(() => {{\n"use strict";\n{scopes}\n}})();\n'


def load(folder: Path, entry: str) -> list[Module]:
    """Return the entry and everything it imports, depth first: each file once, after those it imports.

    Raises:
        ValueError: A file that is not there, a name that its file does not export, a cycle, another form of import or
            export than ours, or letters that no script element may hold.
    """
    done: dict[str, Module] = {}

    def visit(path: str, importers: tuple[str, ...]) -> None:
        if path in importers:
            raise ValueError(f"modules import each other: {' -> '.join((*importers[importers.index(path) :], path))}")
        if path in done:
            return
        if path.startswith("..") or not (folder / path).is_file():
            raise ValueError(f"{importers[-1] if importers else 'the page'}: there is no file {path} in {folder}")
        module = _parsed(path, (folder / path).read_bytes().decode("utf-8"))
        for other in module.imports:
            visit(other, (*importers, path))
        for other, names in module.imports.items():
            missing = [name for name in names if name not in done[other].exports]
            if missing:
                raise ValueError(f"{path}: {other} does not export {', '.join(missing)}")
        done[path] = module

    visit(entry, ())
    return list(done.values())


def _parsed(path: str, text: str) -> Module:
    for letters in _FORBIDDEN:
        if letters in text.lower():
            raise ValueError(f"{path}: a script inside a page must not hold {letters!r}")
    code = _COMMENT.sub("", f"{text.strip()}\n")
    imports: dict[str, tuple[str, ...]] = {}
    for names, target in _IMPORT.findall(code):
        other = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if other in imports:
            raise ValueError(f"{path}: imports {other} twice")
        imports[other] = tuple(name.strip() for name in names.split(","))
    body = "\n".join(filter(None, map(str.strip, _EXPORT.sub("", _IMPORT.sub("", code)).splitlines())))
    exports = tuple(_EXPORT.findall(code))
    _check_names(path, [name for names in imports.values() for name in names], exports)
    other_form = _ANYTHING_ELSE.search(body)
    if other_form is not None:
        raise ValueError(
            f'{path}: only import {{ name }} from "./file.js"; and export const, class or function are understood, '
            f"got: {other_form[0].strip()}"
        )
    for line in body.splitlines():
        if line.count("`") % 2 or line.endswith("\\"):
            raise ValueError(f"{path}: a string must end on its line, got: {line}")
    return Module(path, imports, exports, body)


def _check_names(path: str, imported: list[str], exports: tuple[str, ...]) -> None:
    for name in imported:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"{path}: imports must be names, without as, got: {name!r}")
    for what, names in (("imports", imported), ("exports", exports)):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        if twice:
            raise ValueError(f"{path}: {what} {', '.join(twice)} twice")


def _as_scope(module: Module) -> str:
    imports = [f"const {{ {', '.join(names)} }} = {_constant(path)};" for path, names in module.imports.items()]
    exports = f"return {{ {', '.join(module.exports)} }};"
    return "\n".join([f"const {_constant(module.path)} = (() => {{", *imports, module.body, exports, "})();"])


def _constant(path: str) -> str:
    """Return the name of the constant that holds a module's exports: ``$`` is in no path, so no two share one."""
    return "$" + path.removesuffix(".js").replace("/", "$")
