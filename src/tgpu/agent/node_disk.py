"""The disks that a node needs to start tasks: while one is full, the node starts nothing new and says so."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tgpu.observe.disk_space import DiskSpace
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.port import AttemptEnded, RunnerEvent, disk_full_exit

PATIENCE_S = 0.5
"""How long a heartbeat waits for a look at the disks: one may be a network drive that hangs."""
_PROBE = ".space-probe"
_PROBE_BYTES = 1 << 16
_FAILED = "its agent could not write its records or make a checkpoint folder"


class NodeDisk:
    def __init__(self, spaces: Sequence[DiskSpace] = (), folders: Sequence[Path] = ()) -> None:
        """`folders`: where the agent keeps its records and makes checkpoint folders. Without `spaces`, no
        disk is ever full."""
        self._spaces, self._folders = spaces, folders
        self._failed = False
        self._looking: asyncio.Future[str] | None = None
        self.shortage = ""
        """Why nothing new may start, as of the last look or failure; empty: it may."""

    async def look(self) -> str:
        """One look at a time; while a drive hangs, what was seen last counts."""
        if not self._spaces:
            return self.shortage
        if self._looking is None:
            self._looking = asyncio.ensure_future(asyncio.to_thread(self._measured))
        done, _ = await asyncio.wait([self._looking], timeout=PATIENCE_S)
        if done:
            self._looking = None
            self.shortage = done.pop().result() or (_FAILED if self._failed else "")
        return self.shortage

    def heard(self, event: RunnerEvent) -> None:
        """A task that could not start for want of disk space says more than any measurement: quotas and
        inodes count, too."""
        blamed = isinstance(event, AttemptEnded) and event.exit.detail.startswith(DISK_FULL)
        if blamed and self._spaces:
            self._failed = True
            self.shortage = self.shortage or _FAILED

    @staticmethod
    def refused(attempt: str) -> AttemptEnded:
        """Of a task that was to start here: it is to be started elsewhere."""
        return AttemptEnded(attempt, disk_full_exit())

    def _measured(self) -> str:
        if self._failed:
            self._failed = not all(_can_write(folder) for folder in self._folders)
        return next((words for space in self._spaces if (words := space.shortage())), "")


def _can_write(folder: Path) -> bool:
    """In a folder that is not there yet, nothing has failed."""
    if not folder.is_dir():
        return True
    probe = folder / _PROBE
    try:
        probe.unlink(missing_ok=True)
        with probe.open("xb") as file:  # a new file: nothing that others have put there is written to
            file.write(bytes(_PROBE_BYTES))
    except OSError:
        return False
    else:
        return True
    finally:
        probe.unlink(missing_ok=True)
