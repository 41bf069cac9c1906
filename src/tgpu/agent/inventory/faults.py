"""GPUs that wait for a reset, remembered on disk: the driver says it once, and the agent may start anew.

Whoever removes a GPU from the file, or the file, says that it is well. A restart of the machine says it, too.
"""

import json
from pathlib import Path

from tgpu.observe.logs import logger

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NAME = "gpu_faults.json"


class Faults:
    """By the GPU's UUID: the Xid after which it needs a reset."""

    def __init__(self, folder: Path, boot_id: str | None = None) -> None:
        self._path = folder / NAME
        self._boot_id = BOOT_ID.read_text(encoding="ascii").strip() if boot_id is None else boot_id
        self._unwritten: dict[str, int] = {}
        """Where the disk would not take them."""

    def of(self, uuid: str) -> int | None:
        return self._all().get(uuid)

    def add(self, uuid: str, xid: int) -> None:
        self._write({**self._all(), uuid: xid})

    def forget(self, uuid: str) -> None:
        self._write({name: xid for name, xid in self._all().items() if name != uuid})

    def _all(self) -> dict[str, int]:
        try:
            said = json.loads(self._path.read_text(encoding="utf-8"))
            written = dict(said["faults"]) if said["boot_id"] == self._boot_id else {}
        except (OSError, ValueError, KeyError, TypeError):
            written = {}
        return {**written, **self._unwritten}

    def _write(self, faults: dict[str, int]) -> None:
        draft = self._path.with_suffix(".draft")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_text(json.dumps({"boot_id": self._boot_id, "faults": faults}), encoding="utf-8")
            draft.rename(self._path)
        except OSError as error:
            self._unwritten = faults
            logger("gpus").error("cannot remember which GPUs failed", path=str(self._path), error=str(error))
        else:
            self._unwritten = {}
