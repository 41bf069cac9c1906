"""Busy processes beside a run of the tests."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

_BUSY = """
import ctypes, os, signal
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with the process that started it
while os.getppid() == {parent}:
    for _ in range(10_000_000):
        pass
"""


@contextlib.contextmanager
def busy(count: int) -> Iterator[list[int]]:
    """The process ids of so many processes that each keep one core busy."""
    program = _BUSY.format(parent=os.getpid())
    started = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(count)]
    try:
        yield [one.pid for one in started]
    finally:
        for one in started:
            one.kill()
        for one in started:
            one.wait()
