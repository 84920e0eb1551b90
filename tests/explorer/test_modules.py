"""The linker: ES modules become one classic script, in an order that works, and what it cannot join is refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from effective_attention.explorer.modules import link, load
from effective_attention.explorer.page import TEMPLATES

NODE = shutil.which("node")


def tree(folder: Path, **files: str) -> Path:
    """Write modules; in the names, two underscores stand for a slash."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def order(folder: Path) -> list[str]:
    return [module.path for module in load(folder, "start.js")]


def run(script: str, tmp_path: Path) -> Any:
    """Return what the script puts into the global ``result``."""
    if NODE is None:
        pytest.skip("needs Node.js")
    path = tmp_path / "linked.cjs"
    path.write_text(f"{script}\nconsole.log(JSON.stringify(globalThis.result));", encoding="utf-8")
    done = subprocess.run([NODE, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- what is joined ---


def test_those_come_first_that_others_need(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        start='import { a } from "./views/a.js";\nimport { z } from "./core/z.js";\na(z);\n',
        views__a='import { z } from "../core/z.js";\nimport { b } from "./b.js";\nexport const a = () => b(z);\n',
        views__b='import { z } from "../core/z.js";\nexport function b() { return z; }\n',
        core__z="export const z = 1;\n",
    )
    assert order(folder) == ["core/z.js", "views/b.js", "views/a.js", "start.js"]
    assert [link(folder).count(f"const ${name} =") for name in ("core$z", "views$b", "views$a", "start")] == [1] * 4


def test_each_form_of_export_and_a_long_import(tmp_path: Path) -> None:
    parts = (
        "const own = 2;\nexport const one = own - 1;\nexport class Two {\n  get() {\n    return own;\n  }\n}\n"
        "export function three() {\n  return 3;\n}\nexport async function four() {\n  return 4;\n}\n"
    )
    start = (
        'import {\n  four,\n  one,\n  three,\n  Two,\n} from "./parts.js";\n'
        "globalThis.result = [one, new Two().get(), three(), four instanceof Function];\n"
    )
    folder = tree(tmp_path, parts=parts, start=start)
    (module, _) = load(folder, "start.js")
    assert module.exports == ("one", "Two", "three", "four")
    assert run(link(folder), tmp_path) == [1, 2, 3, True]


def test_modules_do_not_see_each_others_names(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        a="const secret = 1;\nexport const a = () => secret;\n",
        b="const secret = 2;\nexport const b = () => secret;\n",
        start='import { a } from "./a.js";\nimport { b } from "./b.js";\n'
        "globalThis.result = [a(), b(), typeof secret];\n",
    )
    assert run(link(folder), tmp_path) == [1, 2, "undefined"]


def test_paths_that_look_alike_have_scopes_of_their_own(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        a_b="export const x = 1;\n",
        a__b="export const y = 2;\n",
        start='import { x } from "./a_b.js";\nimport { y } from "./a/b.js";\nglobalThis.result = [x, y];\n',
    )
    assert run(link(folder), tmp_path) == [1, 2]


def test_a_module_runs_once_and_strictly(tmp_path: Path) -> None:
    counter = "globalThis.result = (globalThis.result ?? 0) + 1;\nexport const n = 1;\n"
    strict = "export function strict() {\n  return this === undefined;\n}\n"
    start = (
        'import { n } from "./counter.js";\nimport { m } from "./other.js";\nimport { strict } from "./strict.js";\n'
        "const call = strict;\nglobalThis.result = [globalThis.result, n, m, call()];\n"
    )
    other = 'import { n } from "./counter.js";\nexport const m = n + 1;\n'
    folder = tree(tmp_path, counter=counter, other=other, strict=strict, start=start)
    assert run(link(folder), tmp_path) == [1, 1, 2, True]


def test_comments_of_their_own_lines_and_indentation_stay_out(tmp_path: Path) -> None:
    before = "// One.\n/** @type {() => void} */\nfunction f() {\n\n  // Two.\n"
    start = before + '  g("// a", "/** b */"); // why\n}\n/**\n * Three.\n */\n'
    assert load(tree(tmp_path, start=start), "start.js")[0].body == 'function f() {\ng("// a", "/** b */"); // why\n}'


# --- what is refused ---


def test_cycles_are_refused(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        start='import { a } from "./core/a.js";\n',
        core__a='import { b } from "./b.js";\nexport const a = 1;\n',
        core__b='import { a } from "./a.js";\nexport const b = 1;\n',
    )
    with pytest.raises(ValueError, match=r"import each other: core/a\.js -> core/b\.js -> core/a\.js$"):
        link(folder)
    with pytest.raises(ValueError, match=r"import each other: start\.js -> start\.js$"):
        link(tree(tmp_path, start='import { a } from "./start.js";\nexport const a = 1;\n'))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ('import { x } from "./none.js";', r"start\.js: there is no file none\.js in "),
        ('import { x } from "../outside.js";', r"start\.js: there is no file \.\./outside\.js in "),
        ('import { y } from "./a.js";', r"start\.js: a\.js does not export y$"),
        ('import { x, toString } from "./a.js";', r"start\.js: a\.js does not export toString$"),
        ('import { x } from "./a.js";\nimport { x } from "./b.js";', r"start\.js: imports x twice$"),
        ('import { x } from "./a.js";\nimport { z } from "./a.js";', r"start\.js: imports a\.js twice$"),
        ("export const x = 1;\nexport const x = 2;", r"start\.js: exports x twice$"),
        ('import { x as y } from "./a.js";', r"start\.js: imports must be names, without as, got: 'x as y'$"),
        ('import { } from "./a.js";', r"start\.js: imports must be names, without as, got: ''$"),
        ("f(`one\ntwo`);", r"start\.js: a string must end on its line, got: f\(`one$"),
        ('f("one \\\ntwo");', r"start\.js: a string must end on its line, got: f\("),
        ("f('</script>');", r"start\.js: a script inside a page must not hold '</script'$"),
        ("// </SCRIPT >\n", r"start\.js: a script inside a page must not hold '</script'$"),
        ("f('<!--');", r"start\.js: a script inside a page must not hold '<!--'$"),
        ("f();\r\n", r"start\.js: a script inside a page must not hold '\\r'$"),
    ],
)
def test_mistakes_are_named(start: str, message: str, tmp_path: Path) -> None:
    folder = tree(tmp_path / "static", a="export const x = 1;\nexport const z = 2;\n", b="export const x = 1;\n")
    tree(tmp_path, outside="export const x = 1;\n")
    (folder / "start.js").write_bytes(start.encode())
    with pytest.raises(ValueError, match=message):
        link(folder)


@pytest.mark.parametrize(
    "statement",
    [
        'import x from "./a.js";',
        'import * as a from "./a.js";',
        'import x, { z } from "./a.js";',
        'import "./a.js";',
        'import { x } from "a";',
        "import { x } from './a.js';",
        'import { x } from "./a.js"',
        'import { x } from "/a.js";',
        '  import { x } from "./a.js";',
        'import("./a.js");',
        'const a = await import("./a.js");',
        "f(import.meta.url);",
        "export default 1;",
        "export { x };",
        'export { x } from "./a.js";',
        'export * from "./a.js";',
        "export let x = 1;",
        "export var x = 1;",
        "export const { x } = f();",
        "export function* x() {}",
    ],
)
def test_other_forms_are_refused(statement: str, tmp_path: Path) -> None:
    folder = tree(tmp_path, a="export const x = 1;\nexport const z = 2;\n", start=f"f();\n{statement}\n")
    with pytest.raises(ValueError, match=r"^start\.js: only import \{ name \} from .* understood, got: .*(im|ex)port"):
        link(folder)


def test_the_entry_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the page: there is no file start\.js in "):
        link(tmp_path)


# --- the page's own ---

PAGES = ("start.js", "index.js")


def test_every_script_of_the_page_is_imported_by_another() -> None:
    files = {path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*.js")}
    assert {module.path for entry in PAGES for module in load(TEMPLATES, entry)} == files
    assert {path.name for path in TEMPLATES.rglob("*") if path.is_file() and path.suffix != ".js"} == {
        "shared.css",
        *(f"{name}.{kind}" for name in ("explorer", "index") for kind in ("css", "html.j2")),
    }


def test_every_export_of_the_page_is_imported_by_another() -> None:
    modules = load(TEMPLATES, "start.js")
    exported = {(module.path, name) for module in modules for name in module.exports}
    imported = {(path, name) for module in modules for path, names in module.imports.items() for name in names}
    assert exported == imported


def test_the_layers_of_the_page() -> None:
    below = {"core": {"core"}, "views": {"core", "views"}, "controls": {"core", "views", "controls"}}
    for module in load(TEMPLATES, "start.js")[:-1]:
        assert {path.split("/")[0] for path in module.imports} <= below[module.path.split("/")[0]], module.path


def test_every_script_says_what_it_holds_in_short_lines() -> None:
    for path in TEMPLATES.rglob("*.js"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert re.match(r"// \w.*", lines[0]), path
        assert max(map(len, lines)) <= 120, path


@pytest.mark.skipif(NODE is None, reason="needs Node.js")
def test_the_scripts_are_modules_that_node_can_parse_as_they_are(tmp_path: Path) -> None:
    """Check that each file parses as a JavaScript module, and the joined script as a classic one."""
    assert NODE is not None
    shutil.copytree(TEMPLATES, tmp_path / "static")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "linked.cjs").write_text(link(TEMPLATES), encoding="utf-8")
    script = (
        "import fs from 'node:fs'; import vm from 'node:vm';"
        "for (const path of process.argv.slice(1)) {"
        " const text = fs.readFileSync(path, 'utf8');"
        " if (path.endsWith('.cjs')) new vm.Script(text); else new vm.SourceTextModule(text); }"
    )
    paths = [*map(str, (tmp_path / "static").rglob("*.js")), str(tmp_path / "linked.cjs")]
    options = ["--experimental-vm-modules", "--no-warnings", "--input-type=module", "--eval", script]
    done = subprocess.run([NODE, *options, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
