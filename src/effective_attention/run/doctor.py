"""``effective-attention doctor``: what is installed, which devices and caches there are, what is missing for what.

Asks no network. What is broken is what ``train`` and ``evaluate`` need as they come; all else that is not here is said
to be missing, and what for.
"""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effective_attention import __version__
from effective_attention.errors import UserError, first_line
from effective_attention.io import cache_root
from effective_attention.program import NAME, PACKAGE, config_folder, is_checkout, is_on
from effective_attention.run.requirements import install_command, installed_version, requirements, unmet

SHOWN = ("torch", "transformers", "pytorch-lightning", "hydra-core", "datasets", "numba", "wandb")
EXTRAS = {
    "sweep": "sweeps on many cores and on SLURM (hydra/launcher=joblib, hydra/launcher=submitit_slurm)",
    "dashboard": "a W&B workspace laid out for these runs (python -m effective_attention.run.wandb_workspace)",
}
_OFFLINE = {
    "HF_HUB_OFFLINE": "models and data from the hub (model=bert_base, data=hub)",
    "TRANSFORMERS_OFFLINE": "models from the hub (model=bert_base)",
    "HF_DATASETS_OFFLINE": "data from the hub (data=hub)",
}
_KERNELS = {"cholesky": "effective attention", "moving_gram": "the same of causal models", "max_flow": "attention flow"}


@dataclass(frozen=True)
class Part:
    """One part of the answer.

    Attributes:
        lines: What was found.
        missing: What is not here, and what it would be for.
        broken: What is not here, or not right, though the default commands need it.
    """

    lines: Sequence[str]
    missing: Sequence[str] = ()
    broken: Sequence[str] = ()


def main() -> int:
    """Print what was found; return 1 where something is broken that the default commands need."""
    parts = {title: _look(title, check) for title, check in CHECKS.items()}
    for title, part in parts.items():
        _print_list(title, part.lines)
    missing = [line for part in parts.values() for line in part.missing]
    broken = [line for part in parts.values() for line in part.broken]
    _print_list("missing, and what for", missing)
    _print_list("broken", broken)
    print("what the default commands need is here" if not broken else "repair what is broken before a run")
    return 1 if broken else 0


def _look(title: str, check: Callable[[], Part]) -> Part:
    """Check one thing; a library that does not load, which may raise nearly anything, is a finding, too."""
    try:
        return check()
    except Exception as error:
        return Part(["cannot be told"], broken=[f"{title}: {type(error).__name__}: {first_line(error)}"])


def _print_list(title: str, lines: Sequence[str]) -> None:
    if lines:
        print(f"{title}\n" + "\n".join(f"  {line}" for line in lines))


# --- what is installed ---


def check_versions() -> Part:
    """List versions; compare what is installed with what the distribution asks for."""
    kind = "a checkout" if is_checkout() else "installed"
    lines = [f"{NAME} {__version__}, {kind}: {PACKAGE}", f"python {platform.python_version()}, {platform.platform()}"]
    lines.append(", ".join(f"{name} {installed_version(name) or 'not installed'}" for name in SHOWN))
    broken = [f"{line}; {install_command()}" for line in filter(None, map(unmet, requirements()))]
    if not (config_folder() / "base.yaml").is_file():
        broken.append(f"no configs in {config_folder()}; {install_command()}")
    missing = []
    for extra, purpose in EXTRAS.items():
        absent = [one.name for one in requirements(extra) if unmet(one)]
        if absent:
            missing.append(f"{', '.join(absent)}: {purpose}; {install_command(f'[{extra}]')}")
    return Part(lines, missing, broken)


# --- the machine ---


def check_devices() -> Part:
    """List processors, and what they can do."""
    import torch

    from effective_attention.run.precision import cpu_has_bfloat16, gpu_has_bfloat16

    cuda = torch.cuda.is_available()
    mps = torch.backends.mps.is_available()
    fast_cpu = cpu_has_bfloat16()
    lines = [f"CPU: {os.cpu_count()} cores, PyTorch uses {torch.get_num_threads()} threads, bfloat16 {_yes(fast_cpu)}"]
    for number in range(torch.cuda.device_count() if cuda else 0):
        lines.append(f"CUDA {number}: {torch.cuda.get_device_name(number)}, bfloat16 {_yes(gpu_has_bfloat16())}")
    lines += [f"{name}: no" for name, here in (("CUDA", cuda), ("MPS", mps)) if not here]
    lines += ["MPS: yes"] if mps else []
    missing = []
    if not (cuda or mps):
        missing.append(
            "a GPU: for trainer=gpu, fsdp and ddp (which also takes trainer.accelerator=cpu trainer.devices=2)"
        )
    if not fast_cpu:
        missing.append("bfloat16 instructions of the CPU: trainer=cpu_bf16 runs in full precision")
    return Part(lines, missing)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def check_kernels() -> Part:
    """Tell which loops are compiled; those that are not are compiled at first use."""
    lines = []
    missing = []
    for name, purpose in _KERNELS.items():
        try:
            module = importlib.import_module(f"effective_attention.kernels.{name}")
        except Exception as error:  # numba or llvmlite of a version that does not fit
            lines.append(f"{name} ({purpose}): cannot be compiled")
            missing.append(f"compiled {name}: the plain reference runs, more slowly ({first_line(error)})")
            continue
        here = any(_overloads(member) for member in vars(module).values())
        later = "not compiled yet: at first use, or now with python -m effective_attention.kernels"
        lines.append(f"{name} ({purpose}): {'compiled' if here else later}")
    return Part(lines, missing)


def _overloads(member: Any) -> int:
    """Count the types of numbers that a loop is compiled for, on disk; 0 for anything that is no loop."""
    file = getattr(getattr(member, "_cache", None), "_cache_file", None)
    return 0 if file is None else len(file._load_index())


# --- models and caches ---


def check_models() -> Part:
    """Compare the embedded model's checksum, and look which packaged models are in the cache."""
    from effective_attention.models.encoders import embedded_folder
    from effective_attention.models.packaged import PACKAGED
    from effective_attention.models.packaged.fetching import find_problem, packaged_folder

    lines = []
    missing = []
    broken = []
    try:
        lines.append(f"minilm: embedded, its checksum is right: {embedded_folder()}")
    except UserError as error:
        lines.append("minilm: not usable")
        broken.append(f"model=minilm, the default: {error}")
    for name, model in PACKAGED.items():
        problem = find_problem(model, packaged_folder(name))
        lines.append(f"{name}: {'in the cache' if problem is None else problem}")
        if problem is not None:
            missing.append(f"the weights of model={name}: {NAME} weights fetch {name} ({model.download / 1e6:.0f} MB)")
    return Part(lines, missing, broken)


def check_places() -> Part:
    """Say where results and caches go, how large these are, and whether they can be written."""
    from huggingface_hub.constants import HF_HUB_CACHE

    from effective_attention.data.encoding import default_cache_dir

    here = Path.cwd()
    folders = {
        "tokens (data.token_cache=<folder>)": default_cache_dir(),
        "fetched models": cache_root() / "models",
        "Hugging Face hub": Path(HF_HUB_CACHE),
    }
    lines = [f"results: {here / 'runs'} (hydra.run.dir=<folder>)"]
    lines += [f"{name}: {folder}, {_megabytes(folder)}" for name, folder in folders.items()]
    missing = [f"{name} is set: {purpose} only as far as they are cached" for name, purpose in _offline()]
    cache = _existing(cache_root())
    if not os.access(cache, os.W_OK):
        missing.append(f"a cache that can be written: {cache} cannot; set EFFECTIVE_ATTENTION_CACHE=<folder>")
    broken = [] if os.access(here, os.W_OK) else [f"results: {here} cannot be written; add hydra.run.dir=<folder>"]
    return Part(lines, missing, broken)


def _offline() -> Iterator[tuple[str, str]]:
    for name, purpose in _OFFLINE.items():
        if is_on(name):
            yield name, purpose


def _megabytes(folder: Path) -> str:
    if not folder.is_dir():
        return "not there yet"
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return f"{sum(path.stat().st_size for path in files) / 1e6:.1f} MB"


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest above it that exists."""
    return next(one for one in (folder, *folder.parents) if one.exists())


def check_wandb() -> Part:
    """Tell whether runs go to W&B's server; asks its files, not the server."""
    mode = os.environ.get("WANDB_MODE")
    if mode:
        return Part([f"WANDB_MODE={mode} decides"])
    try:
        import wandb

        is_logged_in = bool(wandb.login(prompt=False, verify=False))
    except Exception as error:  # a convenience, never a condition
        return Part(["not usable"], [f"W&B ({first_line(error)}): runs are logged as CSV alone"])
    if is_logged_in:
        return Part(["logged in: runs are sent to the server"])
    return Part(["not logged in: runs are written offline"], ["a W&B login: runs are not sent; wandb login"])


CHECKS: Mapping[str, Callable[[], Part]] = {
    "versions": check_versions,
    "devices": check_devices,
    "compiled loops": check_kernels,
    "models": check_models,
    "places": check_places,
    "W&B": check_wandb,
}
