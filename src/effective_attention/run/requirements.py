"""Compare what is installed with what the distribution asks for."""

from __future__ import annotations

from importlib import metadata

from packaging.requirements import Requirement

from effective_attention.program import NAME, is_checkout


def install_command(extra: str = "") -> str:
    """Return the command that installs what is asked for."""
    return f"pip install -e '.{extra}'" if is_checkout() else f"pip install --upgrade '{NAME}{extra}'"


def installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def requirements(extra: str = "") -> list[Requirement]:
    """List what the distribution asks for: always, or for an extra; empty where it was not installed with pip."""
    try:
        found = [Requirement(text) for text in metadata.requires(NAME) or []]
    except metadata.PackageNotFoundError:
        return []
    always = [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]
    if not extra:
        return always
    return [one for one in found if one not in always and one.marker and one.marker.evaluate({"extra": extra})]


def unmet(requirement: Requirement) -> str | None:
    found = installed_version(requirement.name)
    if found is None:
        return f"{requirement.name} is not installed"
    if not requirement.specifier.contains(found, prereleases=True):
        return f"{requirement.name} {found} is installed, {requirement.specifier} is needed"
    return None
