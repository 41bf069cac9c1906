"""Writes to files that may hang, in a thread of its own, so that who has it written goes on.

A network drive whose server is away holds up whoever writes to it, and nothing ends that but an answer. As
long as the drive takes something, however slowly, it is waited for; once it has taken nothing for a while,
what comes is counted as lost until it takes something again. So little is kept in memory, too.

Several tasks may share a file, and a program may print a line in pieces. Whole lines are written, so that no
other task's output comes between: the beginning of a line waits for its end, but not for long.

The thread can write as another user. Many files of the kernel judge a write by whoever writes, and a disk
keeps a reserve for root and does not hold root to quotas: so the thread has none of root's rights. It keeps
root's real user, without which its user could end it, and with it the whole process.
"""

import ctypes
import os
import sys
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

_CAPABILITIES_V3 = 0x20080522
_NO_CAPABILITIES = bytes(24)
_libc = ctypes.PyDLL(None, use_errno=True)  # quick calls, during which the interpreter's lock is kept

TYPE_CHECKING = False  # `typing` is too heavy for a supervisor
if TYPE_CHECKING:
    Todo = SimpleQueue[tuple[int, bytes] | list[int]]
    """Something to write, or the files to close at the end."""
    Done = SimpleQueue[tuple[int, int, str]]


class Writer:
    __slots__ = ("_ahead", "_done", "_is_stuck", "_runs", "_todo", "_user", "lost", "why")

    def __init__(self) -> None:
        self._todo: Todo = SimpleQueue()
        self._done: Done = SimpleQueue()
        self._ahead = 0
        self._is_stuck = False
        self._runs = False
        self._user: tuple[int, int] | None = None
        self.lost = 0
        """How many bytes were not written,"""
        self.why = ""
        """and the reason of the last of them."""

    def write_as(self, uid: int, gid: int) -> None:
        """From the first write on, with that user's rights alone."""
        self._user = uid, gid

    def write(self, file: int, data: bytes) -> None:
        self._run()
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

    def close(self, *files: int) -> bool:
        """Nothing more will come. The thread closes the files: a drive may take what it was given only then,
        and hang, or refuse it. False: it hangs."""
        if not self._runs and not files:
            return True
        self._run()
        self._todo.put(list(files))
        while self._ahead:
            if not self._took(0 if self._is_stuck else PATIENCE_S):
                self.lost += self._ahead
                self.why = HANGS
                return False
        if not self._took(PATIENCE_S):
            self.why = HANGS
            return False
        return True

    def _run(self) -> None:
        if not self._runs:
            start_new_thread(_write_all, (self._todo, self._done, self._user))
            self._runs = True

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
    todo: "Todo",
    done: "Done",
    user: tuple[int, int] | None,
) -> None:
    """The thread. It ends with its process, even in the middle of a write."""
    pen = _Pen(done, "" if user is None else _confined(*user))
    while True:
        try:
            piece = todo.get(timeout=LINE_S) if pen.begun else todo.get()
        except Empty:
            pen.finish()
            continue
        if isinstance(piece, list):
            pen.finish()
            pen.close(piece)
            return
        pen.add(*piece)


class _Pen:
    """Of the thread: holds back the beginning of a line."""

    __slots__ = ("_done", "_refusal", "begun")

    def __init__(self, done: "SimpleQueue[tuple[int, int, str]]", refusal: str) -> None:
        """`refusal`: why nothing may be written at all, if that is so."""
        self._done = done
        self._refusal = refusal
        self.begun: dict[int, bytes] = {}
        """By file."""

    def add(self, file: int, data: bytes) -> None:
        data = self.begun.pop(file, b"") + data
        whole = max(data.rfind(_LINE_END), data.rfind(_REDRAWN)) + 1
        if len(data) - whole > LINE_MAX:
            whole = len(data)
        if data[whole:]:
            self.begun[file] = data[whole:]
        if whole:
            self._write(file, data[:whole])

    def finish(self) -> None:
        for file, data in self.begun.items():
            self._write(file, data)
        self.begun.clear()

    def close(self, files: list[int]) -> None:
        why = ""
        for file in files:
            try:
                os.close(file)
            except OSError as failure:
                why = str(failure.strerror)
        self._done.put((0, 0, why))

    def _write(self, file: int, data: bytes) -> None:
        rest, why = memoryview(data), self._refusal
        while rest and not self._refusal:
            try:
                rest = rest[os.write(file, rest) :]
            except OSError as failure:
                why = str(failure.strerror)
                break
        self._done.put((len(data), len(rest), why))


def _confined(uid: int, gid: int) -> str:
    """Gives up this thread's rights, and not those of the others: unlike `setresuid`, these calls are about
    the calling thread alone. Empty, or why it could not be done."""
    header = _CAPABILITIES_V3.to_bytes(4, sys.byteorder) + bytes(4)
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    if _libc.setfsgid(-1) != gid or _libc.setfsuid(-1) != uid:
        return "its user cannot be assumed"
    if _libc.capset(header, _NO_CAPABILITIES) != 0:
        return os.strerror(ctypes.get_errno())
    return ""
