# ruff: noqa: PTH102, PTH108  pathlib is too heavy for a supervisor
"""What a task prints, kept in segment files named by their first byte's offset; the oldest goes first.

At most two segments of half the cap are kept, so a task that prints for ever costs neither memory nor
more disk than its cap, and a full disk costs it nothing but its output. Beside each segment stands its time
index.
"""

import os
import time

from tgpu.runner import time_index
from tgpu.runner.time_index import LastWriter, TimeIndex

TYPE_CHECKING = False  # `typing` is too heavy for a supervisor
if TYPE_CHECKING:
    from tgpu.runner.user_files import UserFiles

CHUNK = 1 << 16  # what a pipe holds, unless somebody enlarged it
PIPE_MAX = 1 << 20
ALWAYS_KEPT = 1 << 16
"""So much of each output is kept however little space there is: why a task failed stands there."""


class Stream:
    """One of a task's two outputs, from its pipe to its segments."""

    __slots__ = (
        "_begin", "_end", "_file", "_files", "_folder", "_name", "_older", "_segment", "_times",
        "lost", "pipe",
    )  # fmt: skip

    reserve_bytes = 0
    """Free space on the disk that output may not use up, but for its first part; the same for all tasks."""

    def __init__(  # noqa: PLR0917  a stream has these parts
        self,
        pipe: int,
        folder: str,
        name: str,
        cap_bytes: int,
        files: "UserFiles | None" = None,
        writer: LastWriter | None = None,
    ) -> None:
        """`files`: where it is written besides. `writer`: shared by the streams of a task."""
        self.pipe = pipe
        self._files = files
        self.lost = 0
        """How many bytes could not be written."""
        self._folder = folder
        self._name = name
        self._segment = max(cap_bytes // 2, 1)
        self._file = -1
        self._begin = self._end = 0
        self._older: int | None = None
        """Where the segment before the last one begins."""
        self._times = TimeIndex(self._segment, writer or LastWriter())

    def pump(self) -> bool:
        """Moves what is there now; False once nobody can write any more."""
        try:
            data = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return True
        except OSError:  # of a terminal: its last user is gone
            return False
        if data:
            self._keep(data)
        return bool(data)

    def close(self) -> None:
        self._drain()
        os.close(self.pipe)
        self._close_files()

    def _close_files(self) -> None:
        self._times.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _drain(self) -> None:
        """Takes what the pipe holds, and no more: a stranger that has its other end could go on for ever."""
        taken = 0
        while taken < PIPE_MAX:
            try:
                data = os.read(self.pipe, CHUNK)
            except OSError:  # nothing is there now; or, of a terminal, nobody is
                return
            if not data:
                return
            self._keep(data)
            taken += len(data)

    def _keep(self, data: bytes) -> None:
        if self._files is not None:
            self._files.copy(data, is_error=self._name == "stderr")
        self._store(data, time.time_ns() // 1000)

    def _store(self, data: bytes, now_us: int) -> None:
        is_short = self._is_disk_short()
        if is_short and self._end >= ALWAYS_KEPT:
            self.lost += len(data)
            return
        rest = memoryview(data)
        while rest:
            try:
                if self._file < 0 or self._end - self._begin >= self._segment:
                    self._next_segment()
                if not is_short:
                    self._times.note(self._end - self._begin, now_us)
                room = self._segment - (self._end - self._begin)
                written = os.write(self._file, rest[:room])
            except OSError:  # most likely a full disk; the task must not suffer from it
                self.lost += len(rest)
                return
            self._end += written
            rest = rest[written:]

    def _is_disk_short(self) -> bool:
        try:
            found = os.statvfs(self._folder.rpartition("/")[0])  # it is made with the first output
        except OSError:
            return False
        return found.f_bavail * found.f_frsize < self.reserve_bytes

    def _next_segment(self) -> None:
        path = self._path(self._end)
        try:
            file = self._create(path)
        except FileNotFoundError:
            self._make_folder()
            file = self._create(path)
        older, self._older = self._older, self._begin if self._file >= 0 else None
        closing, self._file = self._file, file
        self._begin = self._end
        self._times.begin(self._times_path(self._begin))
        if closing >= 0:
            os.close(closing)
        if older is not None:
            time_index.remove(self._times_path(older))  # first: none is left without its segment
            os.unlink(self._path(older))

    def _make_folder(self) -> None:
        try:
            os.mkdir(self._folder, 0o700)
        except FileExistsError:  # made meanwhile by the agent, which keeps something else there
            return

    def _create(self, path: str) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def _path(self, offset: int) -> str:
        return f"{self._folder}/{self._name}.{offset}"

    def _times_path(self, offset: int) -> str:
        return f"{self._folder}/{self._name}{time_index.TIMES}.{offset}"
