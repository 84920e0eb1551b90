"""A package may import only the packages that stand before it, lazily or not, without exception."""

import ast
from pathlib import Path

import pytest

import effective_attention

ORDER = (
    "errors",
    "program",
    "lazy",
    "io",
    "processes",
    "progress",
    "finite",
    "policy",
    "kernels",
    "attention",
    "graphs",
    "data",
    "models",
    "attributions",
    "analyses",
    "reports",
    "explorer",
    "run",
    "registration",
    "results",  # another name of a command
    "workspace",  # another name of a command
    "__main__",  # another name of a command
    "__init__",
)
ROOT = Path(effective_attention.__file__).parent
FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


def layer_of(file: Path) -> str:
    return file.parts[0].removesuffix(".py")


def imported(file: Path) -> set[str]:
    """List the layers that a file imports, wherever in it the import stands."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("effective_attention.")}
    return found - {"__version__"}


def test_every_layer_has_its_place() -> None:
    assert {layer_of(file) for file in FILES} == set(ORDER)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_imports_point_one_way(file: Path) -> None:
    mine = ORDER.index(layer_of(file))
    above = {layer for layer in imported(file) if ORDER.index(layer) > mine}
    assert not above, f"{file} imports {sorted(above)}, which stand after it"
