"""The disk of a node's own files: while it is full, the node starts nothing new and says so."""

import asyncio
from pathlib import Path

from tgpu.observe.disk_space import DiskSpace
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.port import AttemptEnded, RunnerEvent, disk_full_exit

_PROBE = ".space-probe"
_PROBE_BYTES = 1 << 16
_FAILED = "its agent could not write its records"


class NodeDisk:
    def __init__(self, space: DiskSpace | None = None, folder: Path = Path()) -> None:
        """`folder`: where the agent keeps its records. Without `space`, the disk is never full."""
        self._space, self._folder = space, folder
        self._failed = False
        self.shortage = ""
        """Why nothing new may start, as of the last look or failure; empty: it may."""

    async def look(self) -> str:
        if self._space is not None:
            self.shortage = await asyncio.to_thread(self._measured, self._space)
        return self.shortage

    def heard(self, event: RunnerEvent) -> None:
        """A task that could not start for want of disk space says more than any measurement: quotas and
        inodes count, too."""
        blamed = isinstance(event, AttemptEnded) and event.exit.detail.startswith(DISK_FULL)
        if blamed and self._space is not None:
            self._failed = True
            self.shortage = self.shortage or _FAILED

    @staticmethod
    def refused(attempt: str) -> AttemptEnded:
        """Of a task that was to start here: it is to be started elsewhere."""
        return AttemptEnded(attempt, disk_full_exit())

    def _measured(self, space: DiskSpace) -> str:
        if self._failed:
            self._failed = not _can_write(self._folder)
        return space.shortage() or (_FAILED if self._failed else "")


def _can_write(folder: Path) -> bool:
    probe = folder / _PROBE
    try:
        probe.write_bytes(bytes(_PROBE_BYTES))
    except OSError:
        return False
    else:
        return True
    finally:
        probe.unlink(missing_ok=True)
