"""The small warm process from which every supervisor is forked; it ends when its agent does.

It is kept small because a fork costs what there is to copy: started with `-I -S`, no garbage collector,
and only the modules that supervisors use.
"""

import gc
import os
import signal
import sys

from tgpu.runner import records, supervisor
from tgpu.runner.place import Order, Place, frames

READ = 1 << 18


def main(pipe: int, lock: int) -> None:
    """Started by the agent with its end of a socket pair, and with the lock that it took for us."""
    os.setsid()
    _plain_signals()
    _sign(lock)
    buffer = bytearray()
    place: Place | None = None
    while data := os.read(pipe, READ):
        buffer += data
        for kind, *rest in frames(buffer):
            if kind == "place":
                place = Place(lock, *rest)  # type: ignore[arg-type]
                gc.disable()
                gc.freeze()
            elif place is not None and kind == "journal":
                place.use_journal(*rest)  # type: ignore[arg-type]
            elif place is not None:
                _spawn(place, Order(*rest), pipe)  # type: ignore[arg-type]


def _plain_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGXFSZ}:
        if signal.getsignal(number) is not signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries our children
    # Supervisors inherit this: they wait for these two instead of being interrupted by them.
    signal.pthread_sigmask(signal.SIG_SETMASK, supervisor.SIGNALS)


def _sign(lock: int) -> None:
    """Who holds the lock, for an agent that has to end us."""
    pid = os.getpid()
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{pid}:{records.birth_of(pid)}".encode(), 0)


def _spawn(place: Place, order: Order, pipe: int) -> None:
    try:
        child = os.fork()
    except OSError:  # no room for a process: the agent asks again
        return
    if child:
        return
    try:
        os.close(pipe)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        supervisor.supervise(place, order)
    except BaseException:  # noqa: BLE001  the log is all that is left to tell of a bug
        import traceback  # noqa: PLC0415  heavy, and never needed

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)  # noqa: SLF001  nothing of the spawner's may run in its child
