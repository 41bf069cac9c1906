"""Somebody at a real terminal, who starts a command there, types, reads, and drags the window larger."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.end_to_end.whole_tgpu import TGPU, Installation

DETACH = b"\x10\x11"


class AtTerminal:
    def __init__(self, installation: Installation, words: tuple[str, ...], rows: int, cols: int) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(installation.files)
            os.execve(TGPU, [TGPU, *words], {**installation.environ, "TERM": "xterm"})
        self.resize(rows, cols)
        self.seen = b""
        self._code: int | None = None

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, data: bytes) -> None:
        os.write(self._terminal, data)

    def until(self, text: bytes, within_s: float = 60) -> None:
        """From the end of what was looked for before."""
        deadline = time.monotonic() + within_s
        while text not in self.seen:
            assert self._read(deadline), f"{text!r} was not seen; {self.seen!r} was"
        self.seen = self.seen.partition(text)[2]

    def ends(self, within_s: float = 60) -> int:
        """The exit code; what was said last is in `seen`."""
        deadline = time.monotonic() + within_s
        while self._read(deadline):
            pass
        if self._code is None:
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def close_window(self) -> None:
        os.close(self._terminal)
        self._terminal = -1

    def leave(self) -> None:
        if self._code is None:
            if self._terminal >= 0:
                self.close_window()
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        elif self._terminal >= 0:
            self.close_window()

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"it says nothing more, and does not end; {self.seen!r} was seen"
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # nobody has the other end any more
            return False
        self.seen += data
        return bool(data)


@contextmanager
def at_terminal(
    installation: Installation, *words: str, rows: int = 30, cols: int = 100
) -> Iterator[AtTerminal]:
    """`tgpu WORDS` at a terminal of its own."""
    person = AtTerminal(installation, words, rows, cols)
    try:
        yield person
    finally:
        person.leave()
