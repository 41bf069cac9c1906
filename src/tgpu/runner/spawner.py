"""The small warm process from which every supervisor is forked; it ends when its agent does.

It is kept small because a fork costs what there is to copy: started with `-I -S`, no garbage collector,
and only the modules that supervisors use. And because a fork is still the dearest part of a short task, a
supervisor whose task was over at once says that it is free, and is given the next order instead of a
fork being made for it.
"""

import gc
import os
import resource  # noqa: F401  `os.wait4` would load it, once in each supervisor
import select
import sys
from _socket import socketpair

from tgpu.runner import records, supervisor
from tgpu.runner.desk import FREE, Desk
from tgpu.runner.light import signal
from tgpu.runner.place import JOURNAL, LAUNCH, PLACE, Place, take_frame

READ = 1 << 18
FREE_MAX = 4
"""So many free supervisors are kept waiting,"""
FREE_FOR_MS = 10_000
"""and for so long."""
CROWD = 8 * len(os.sched_getaffinity(0))
"""So many supervisors at their beginnings keep the machine busy: more would only be in each other's way.
Whoever becomes free is waited for, instead of forking another,"""
CROWD_FOR_S = 0.02
"""but never for longer: they may all be held up, by a drive that does not answer, say."""
NEVER_S = 3600.0
"""A supervisor's thread that writes files gets the interpreter whenever the other one waits for something,
and never asks for it: who is forked while it does would go on asking, with nobody there to take it."""


def main(pipe: int, lock: int) -> None:
    """Started by the agent with its end of a socket pair, and with the lock that it took for us."""
    os.setsid()
    os.umask(0o022)
    for fd in (pipe, lock):
        os.set_inheritable(fd, False)  # no task may get them
    _quiet_signals()
    _sign(lock)
    gc.disable()
    sys.setswitchinterval(NEVER_S)
    Spawner(pipe, lock).run()


def _quiet_signals() -> None:
    """Supervisors inherit this: they wait for these signals instead of being interrupted by them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries our children
    signal.pthread_sigmask(signal.SIG_SETMASK, supervisor.SIGNALS)


def _sign(lock: int) -> None:
    """Who holds the lock, for an agent that has to end us."""
    pid = os.getpid()
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{pid}:{records.birth_of(pid)}".encode(), 0)
    except OSError as error:  # a full disk: the lock holds all the same
        records.note(f"not signed: {error.strerror}")


class Spawner:
    """Reads orders; each goes to a free supervisor, or a new one is forked for it."""

    def __init__(self, pipe: int, lock: int) -> None:
        self._pipe = pipe
        self._lock = lock
        self._place: Place | None = None
        self._desks: set[int] = set()
        """One connection to each supervisor that may still become free."""
        self._free: list[int] = []
        self._said = select.epoll()
        """Where it shows that one of them has said something."""
        self._poller = select.poll()
        self._poller.register(pipe, select.POLLIN)
        self._poller.register(self._said.fileno(), select.POLLIN)

    def run(self) -> None:
        buffer = bytearray()
        while True:
            ready = [fd for fd, _ in self._poller.poll(FREE_FOR_MS if self._free else None)]
            self._listen(0)  # first: whoever has just become free is better than a fork
            if self._pipe in ready:
                data = os.read(self._pipe, READ)
                if not data:
                    return
                buffer += data
                while (taken := take_frame(buffer)) is not None:
                    self._obey(*taken)
            for desk in self._free[FREE_MAX if ready else 0 :]:
                self._dismiss(desk)

    def _listen(self, timeout_s: float) -> bool:
        """Whether anybody had anything to say."""
        heard = self._said.poll(timeout_s)
        for desk, _ in heard:
            self._hear(desk)
        return bool(heard)

    def _hear(self, desk: int) -> None:
        """A supervisor is free, or its task turned out to be a long one."""
        try:
            said = os.read(desk, 1)
        except OSError:
            said = b""
        if said == FREE:
            self._free.append(desk)
        else:
            self._dismiss(desk)

    def _dismiss(self, desk: int) -> None:
        if desk in self._free:
            self._free.remove(desk)
        self._desks.remove(desk)
        self._said.unregister(desk)
        os.close(desk)

    def _obey(self, kind: bytes, message: bytes) -> None:
        if kind == PLACE:
            self._place = Place.of(message)
            gc.freeze()
        elif self._place is not None and kind == JOURNAL:
            self._place.use_journal(message)
            for desk in list(self._free):  # theirs is the old one
                self._dismiss(desk)
        elif self._place is not None and kind == LAUNCH:
            self._launch(self._place, message)

    def _launch(self, place: Place, message: bytes) -> None:
        while not self._hand_over(message):
            if len(self._desks) < CROWD or not self._listen(CROWD_FOR_S):
                self._fork(place, message)
                return

    def _hand_over(self, message: bytes) -> bool:
        while self._free:
            desk = self._free.pop()
            rest = message
            try:
                while rest:
                    rest = rest[os.write(desk, rest) :]
            except OSError:  # it was killed
                self._dismiss(desk)
            else:
                return True
        return False

    def _fork(self, place: Place, message: bytes) -> None:
        try:
            ours, theirs = (end.detach() for end in socketpair())
            child = os.fork()
        except OSError:  # no room for a process: the agent asks again
            return
        if child:
            os.close(theirs)
            self._desks.add(ours)
            self._said.register(ours, select.POLLIN)
            return
        try:
            self._said.close()
            for fd in (self._pipe, ours, *self._desks):  # else others would not notice our spawner's end
                os.close(fd)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            supervisor.serve(place, Desk(theirs, self._lock), message)
        except BaseException:  # noqa: BLE001  the log is all that is left to tell of a bug
            import traceback  # noqa: PLC0415  heavy, and never needed

            traceback.print_exc()
        finally:
            os._exit(0)  # nothing of the spawner's may run in its child
