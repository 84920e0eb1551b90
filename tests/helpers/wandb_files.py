"""What an offline W&B run wrote."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record


class RunFile:
    """What an offline run wrote, read back from its ``.wandb`` file: a LevelDB log of protobuf records."""

    def __init__(self, folder: Path) -> None:
        (self.path,) = folder.glob("wandb/offline-run-*/*.wandb")
        records = [self._parse(content) for content in self._contents(self.path.read_bytes())]
        self.of = lambda kind: [getattr(record, kind) for record in records if record.WhichOneof("record_type") == kind]
        (self.run,) = self.of("run")

    @staticmethod
    def _parse(content: bytes) -> Any:
        record = Record()
        record.ParseFromString(content)
        return record

    @staticmethod
    def _contents(data: bytes) -> Iterator[bytes]:
        assert data[:4] == b":W&B"
        position = 7
        content = b""
        while position < len(data):
            left = 32768 - position % 32768
            if left < 7:  # no room for a header: the block ends here
                position += left
                continue
            _checksum, length, kind = struct.unpack_from("<IHB", data, position)
            content += data[position + 7 : position + 7 + length]
            position += 7 + length
            if kind in (1, 4):  # whole, or the last part
                yield content
                content = b""

    @staticmethod
    def _values(items: Any) -> dict[str, Any]:
        return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}

    @property
    def config(self) -> dict[str, Any]:
        updates = [self.run.config, *self.of("config")]
        return {name: value for update in updates for name, value in self._values(update.update).items()}

    @property
    def history(self) -> list[dict[str, Any]]:
        return [self._values(entry.item) for entry in self.of("history")]

    def curve(self, name: str) -> list[tuple[int, Any]]:
        """List what was logged under a name, with the step it was logged at."""
        return [(entry["trainer/global_step"], entry[name]) for entry in self.history if name in entry]

    @property
    def summary(self) -> dict[str, Any]:
        return {name: value for entry in self.of("summary") for name, value in self._values(entry.update).items()}

    @property
    def table(self) -> dict[str, Any]:
        (path,) = self.path.parent.glob("files/media/table/attention*.table.json")
        return json.loads(path.read_text())
