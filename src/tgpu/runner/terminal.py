"""A task's own terminal: what it prints goes to its log and to whoever looks on, what they type to the task.

The job waits for those who look on, as a program waits for a slow terminal, but not for one who has not
taken anything for a while: they are told how much they missed. So nobody's dead connection holds up a job,
and a job that prints without end costs no memory.
"""

import os
import select
import sys
import time
from _socket import socket as raw_socket

from tgpu.runner import calls
from tgpu.runner.output import Stream

TYPE_CHECKING = False  # `typing` is too heavy for a supervisor
if TYPE_CHECKING:
    from tgpu.runner.user_files import UserFiles

SCREENFUL = 64 * 1024
"""What somebody who comes is shown first,"""
AHEAD = 64 * 1024
"""how far the job may be ahead of who looks on,"""
KEPT = 192 * 1024
"""and what is kept for both."""
PATIENCE_S = 2.0
CHUNK = 32 * 1024
GOODBYE_S = 1.0
ROWS, COLS = 24, 80


class Viewer:
    """Somebody who looks on."""

    __slots__ = ("at", "conn", "is_slow", "moved", "unsent")

    def __init__(self, conn: raw_socket, at: int) -> None:
        self.conn = conn
        self.at = at
        """How much of all output it was given."""
        self.unsent = bytearray()
        self.moved = time.monotonic()
        """When it last took anything."""
        self.is_slow = False


class Terminal(Stream):
    """The supervisor's end of it, which it reads as it would the task's stdout."""

    __slots__ = ("_is_over", "_poller", "_recent", "_seen", "_typed", "_viewers", "slave")

    def __init__(self, folder: str, cap_bytes: int, files: "UserFiles | None" = None) -> None:
        master, self.slave = os.openpty()
        os.set_blocking(master, False)
        super().__init__(master, folder, "stdout", cap_bytes, files)
        self._poller: select.poll | None = None
        self._is_over = False
        self._recent = bytearray()
        self._seen = 0
        """How much was printed in all; `_recent` is the end of it."""
        self._typed = bytearray()
        self._viewers: list[Viewer] = []
        self.resize(ROWS, COLS)

    def watch(self, poller: select.poll) -> None:
        self._poller = poller

    def resize(self, rows: int, cols: int) -> None:
        """The task's foreground programs get SIGWINCH."""
        set_size(self.pipe, rows, cols)

    # What the task prints

    def pump(self) -> bool:
        self._pass_typed()
        if not self._is_held_up() and not super().pump():
            self._is_over = True
            return False
        self._mind()
        return True

    def _keep(self, data: bytes) -> None:
        super()._keep(data)
        self._recent += data
        self._seen += len(data)
        if len(self._recent) > 2 * KEPT:
            del self._recent[:-KEPT]
        for viewer in self._viewers:
            self._show(viewer)

    def _show(self, viewer: Viewer) -> None:
        """As much as its socket takes now."""
        while viewer.unsent or viewer.at < self._seen:
            if not viewer.unsent:
                self._cut(viewer)
            try:
                sent = viewer.conn.send(viewer.unsent)
            except BlockingIOError:
                return
            except OSError:  # it is gone, and whoever reads its socket sees that, too
                viewer.at = self._seen
                viewer.unsent.clear()
                return
            del viewer.unsent[:sent]
            viewer.moved, viewer.is_slow = time.monotonic(), False

    def _cut(self, viewer: Viewer) -> None:
        """Its next piece."""
        first = self._seen - len(self._recent)
        if viewer.at < first:
            missed = f"\r\n[tgpu: {first - viewer.at} bytes were not shown]\r\n".encode("ascii")
            viewer.unsent += calls.packed(calls.OUTPUT, missed)
            viewer.at = first
        begin = viewer.at - first
        piece = bytes(self._recent[begin : begin + CHUNK])
        viewer.unsent += calls.packed(calls.OUTPUT, piece)
        viewer.at += len(piece)

    def _is_held_up(self) -> bool:
        return any(not viewer.is_slow and self._seen - viewer.at > AHEAD for viewer in self._viewers)

    # Who looks on

    def attach(self, conn: raw_socket) -> Viewer:
        viewer = Viewer(conn, self._seen - len(self._recent) + self._screenful())
        self._viewers.append(viewer)
        self.go_on(viewer)
        return viewer

    def _screenful(self) -> int:
        """Where it begins: behind the end of a line, if something is left out, and so in no character."""
        begin = max(0, len(self._recent) - SCREENFUL)
        if begin == 0 and self._seen == len(self._recent):
            return 0
        line_end = self._recent.find(b"\n", begin)
        return line_end + 1 if line_end >= 0 else begin

    def go_on(self, viewer: Viewer) -> None:
        """Its socket takes more, or it is new."""
        self._show(viewer)
        self._mind()

    def type(self, data: bytes) -> None:
        self._typed += data
        self._pass_typed()
        self._mind()

    def _pass_typed(self) -> None:
        while self._typed:
            try:
                written = os.write(self.pipe, self._typed)
            except BlockingIOError:
                return
            except OSError:  # nobody is there to read it
                written = len(self._typed)
            del self._typed[:written]

    def detach(self, viewer: Viewer) -> None:
        self._viewers.remove(viewer)
        self._mind()

    def until_next_ms(self) -> float | None:
        """How long it is waited for who is slow; None: nobody is."""
        if not self._is_held_up():
            return None
        now = time.monotonic()
        for viewer in self._viewers:
            viewer.is_slow = viewer.is_slow or now - viewer.moved > PATIENCE_S
        self._mind()
        return PATIENCE_S * 1000 / 4

    def _mind(self) -> None:
        """What is waited for: nothing more is typed while the task has not read what was, and nothing more
        is printed while somebody is behind."""
        if self._poller is None:
            return
        if not self._is_over:
            reading = 0 if self._is_held_up() else select.POLLIN
            self._poller.modify(self.pipe, reading | (select.POLLOUT if self._typed else 0))
        for viewer in self._viewers:
            behind = viewer.unsent or viewer.at < self._seen
            listening = 0 if self._typed else select.POLLIN
            self._poller.modify(viewer.conn.fileno(), listening | (select.POLLOUT if behind else 0))

    def close(self) -> None:
        self._poller = None
        super().close()
        for viewer in self._viewers:
            viewer.conn.settimeout(GOODBYE_S)
            self._show(viewer)


def set_size(terminal: int, rows: int, cols: int) -> None:
    import fcntl  # noqa: PLC0415  only who has a terminal needs it
    import termios  # noqa: PLC0415

    numbers = (rows, cols, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, b"".join(n.to_bytes(2, sys.byteorder) for n in numbers))
