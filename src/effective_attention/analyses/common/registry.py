"""Analyses by name: the modules of ``effective_attention.analyses`` are the list."""

from __future__ import annotations

import difflib
import inspect
import pkgutil
from importlib import import_module

from effective_attention import analyses
from effective_attention.analyses.common.base import Analysis


def find_analysis(name: str) -> type[Analysis]:
    """Return the class of an analysis by its name, importing only its module.

    Raises:
        ValueError: There is none of that name; says which there are.
    """
    if any(module.name == name for module in pkgutil.iter_modules(analyses.__path__)):
        found = _class_of(name)
        if found is not None:
            return found
    known = analysis_names()
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"there is no analysis {name!r}; {meant}choose from {', '.join(known)}")


def analysis_names() -> list[str]:
    """List the names of all analyses, importing all their modules."""
    modules = [module.name for module in pkgutil.iter_modules(analyses.__path__) if module.name != "common"]
    return sorted(name for name in modules if _class_of(name) is not None)


def _class_of(name: str) -> type[Analysis] | None:
    """Return the analysis in the module of its name; None if the module holds something else."""
    module = import_module(f"{analyses.__name__}.{name}")
    classes = [one for _, one in inspect.getmembers(module, inspect.isclass) if issubclass(one, Analysis)]
    return next((one for one in classes if one.analysis_name() == name), None)
