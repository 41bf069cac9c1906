"""Writes to files that may hang, in a thread of its own, so that who has it written goes on.

A network drive whose server is away holds up whoever writes to it, and nothing ends that but an answer. As
long as the drive takes something, however slowly, it is waited for; once it has taken nothing for a while,
what comes is counted as lost until it takes something again. So little is kept in memory, too.

Several tasks may share a file, and a program may print a line in pieces. Whole lines are written, so that no
other task's output comes between: the beginning of a line waits for its end, but not for long.
"""

import os
from _queue import Empty, SimpleQueue  # `queue` and `threading` load far more
from _thread import start_new_thread

AHEAD = 1 << 20
"""How many bytes may wait to be written,"""
PATIENCE_S = 2.0
"""and how long, while nothing is."""
HANGS = "its drive does not answer"
LINE_MAX = 1 << 16
"""How much of a line is held back at most,"""
LINE_S = 1.0
"""and how long after its last piece."""
_LINE_END, _REDRAWN = b"\n", b"\r"

TYPE_CHECKING = False  # `typing` is too heavy for a supervisor
if TYPE_CHECKING:
    Todo = SimpleQueue[tuple[int, bytes] | None]
    Done = SimpleQueue[tuple[int, int, str]]


class Writer:
    __slots__ = ("_ahead", "_done", "_is_stuck", "_runs", "_todo", "lost", "why")

    def __init__(self) -> None:
        self._todo: Todo = SimpleQueue()
        self._done: Done = SimpleQueue()
        self._ahead = 0
        self._is_stuck = False
        self._runs = False
        self.lost = 0
        """How many bytes were not written,"""
        self.why = ""
        """and the reason of the last of them."""

    def write(self, file: int, data: bytes) -> None:
        if not self._runs:
            start_new_thread(_write_all, (self._todo, self._done))
            self._runs = True
        while self._took(0):
            pass
        while self._ahead > AHEAD and not self._is_stuck:
            self._is_stuck = not self._took(PATIENCE_S)
        if self._is_stuck:
            self.lost += len(data)
            self.why = HANGS
        else:
            self._ahead += len(data)
            self._todo.put((file, data))

    def close(self) -> bool:
        """Nothing more will come. False: it hangs, and the files are still its own."""
        self._todo.put(None)
        while self._ahead:
            if not self._took(0 if self._is_stuck else PATIENCE_S):
                self.lost += self._ahead
                self.why = HANGS
                return False
        return True

    def _took(self, within_s: float) -> bool:
        """Whether something was written, or could not be, by then."""
        try:
            size, lost, why = self._done.get(within_s > 0, within_s)
        except Empty:
            return False
        self._is_stuck = False
        self._ahead -= size
        self.lost += lost
        self.why = why or self.why
        return True


def _write_all(
    todo: "SimpleQueue[tuple[int, bytes] | None]", done: "SimpleQueue[tuple[int, int, str]]"
) -> None:
    """The thread. It ends with its process, even in the middle of a write."""
    begun: dict[int, bytes] = {}
    while True:
        try:
            piece = todo.get(timeout=LINE_S) if begun else todo.get()
        except Empty:
            _write_begun(begun, done)
            continue
        if piece is None:
            _write_begun(begun, done)
            return
        file, data = piece[0], begun.pop(piece[0], b"") + piece[1]
        whole = max(data.rfind(_LINE_END), data.rfind(_REDRAWN)) + 1
        if len(data) - whole > LINE_MAX:
            whole = len(data)
        if data[whole:]:
            begun[file] = data[whole:]
        if whole:
            _write(file, data[:whole], done)


def _write_begun(begun: dict[int, bytes], done: "SimpleQueue[tuple[int, int, str]]") -> None:
    for file, data in begun.items():
        _write(file, data, done)
    begun.clear()


def _write(file: int, data: bytes, done: "SimpleQueue[tuple[int, int, str]]") -> None:
    rest, why = memoryview(data), ""
    while rest:
        try:
            rest = rest[os.write(file, rest) :]
        except OSError as failure:
            why = str(failure.strerror)
            break
    done.put((len(data), len(rest), why))
