# ruff: noqa: PTH103, PTH120  pathlib is too heavy for a supervisor
"""Files of the user's own that a task's output is written to as well.

They are opened by the task's own process once it has become its user, and only then: whatever its user may
not write, nobody writes for them, and a link leads nowhere that they could not go themselves. What was opened
is handed to the supervisor, which keeps the task's output anyway and writes it twice.
"""

import os
import stat
import sys
from _socket import AF_UNIX, MSG_DONTWAIT, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET
from _socket import socketpair as raw_socketpair  # `socket` loads three times as much

from tgpu.runner import task

_INT = 4
_OPEN = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_NULL = os.makedev(1, 3)


class UserFiles:
    """Of one attempt: its output's, and its errors', which may be the same."""

    def __init__(self, output: str, error: str, append: int) -> None:
        self._paths = (output, error)
        self._append = bool(append)
        self._here, self._there = raw_socketpair(AF_UNIX, SOCK_SEQPACKET)
        self._files: list[int] | None = None
        self._why = ""
        self.lost = 0
        """How many bytes could not be written."""

    # In the task's process

    def open(self) -> None:
        """As the task's user, just before it becomes their program. Raises Refusal."""
        output, error = self._paths
        opened = [self._opened(path) for path in dict.fromkeys((output, error)) if path]
        packed = b"".join(file.to_bytes(_INT, sys.byteorder) for file in opened)
        self._there.sendmsg([b"."], [(SOL_SOCKET, SCM_RIGHTS, packed)])

    def _opened(self, path: str) -> int:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = os.open(path, _OPEN, 0o666)
        except (OSError, ValueError) as error:
            raise task.Refusal(f"cannot write its output to {path}: {task.why(error, '/')}") from None
        about = os.fstat(file)
        if stat.S_ISREG(about.st_mode):
            if not self._append:
                os.ftruncate(file, 0)
        elif about.st_rdev != _NULL:
            raise task.Refusal(f"cannot write its output to {path}: it is not a file")
        return file

    # In the supervisor

    def copy(self, data: bytes, *, is_error: bool) -> None:
        """The task must not suffer from a full disk of its user's: what cannot be written is counted."""
        if self._files is None:
            self._files = self._taken()
        output, error = self._paths
        if not self._files or not (error if is_error else output):
            return
        file = self._files[-1] if is_error else self._files[0]
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(file, rest) :]
            except OSError as failure:
                self.lost += len(rest)
                self._why = str(failure.strerror)
                return

    def _taken(self) -> list[int]:
        """Whoever prints has opened them before; of one that never became a program there are none."""
        try:
            _, ancillary, _, _ = self._here.recvmsg(1, 4096, MSG_DONTWAIT)
        except OSError:
            return []
        packed = b"".join(
            data for level, kind, data in ancillary if (level, kind) == (SOL_SOCKET, SCM_RIGHTS)
        )
        whole = range(0, len(packed) - len(packed) % _INT, _INT)
        return [int.from_bytes(packed[at : at + _INT], sys.byteorder) for at in whole]

    def last_words(self) -> str:
        """What its user should know; empty: nothing."""
        if not self.lost:
            return ""
        path = self._paths[0] or self._paths[1]
        return f"{self.lost} bytes of output could not be written to {path}: {self._why}"

    def close(self) -> None:
        for file in self._taken() if self._files is None else self._files:
            os.close(file)
        self._files = []
        self._here.close()
        self._there.close()
