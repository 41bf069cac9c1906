"""Signals to processes that were found by their numbers: never to another process that has the number by now.

A process is opened first and looked at afterwards. If it is still the one that is meant, the signal goes to
what was opened.
"""

import os

from tgpu.runner.light import signal

TYPE_CHECKING = False  # `typing` is too heavy for a supervisor
if TYPE_CHECKING:
    from collections.abc import Callable


def send(pid: int, number: int, is_meant: "Callable[[int], bool]") -> bool:
    """`is_meant` looks at the process of that number. False: this process may not send it a signal."""
    try:
        process = _opened(pid)
    except ProcessLookupError:
        return True
    try:
        if not is_meant(pid):
            return True
        if process >= 0:
            signal.pidfd_send_signal(process, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        if process >= 0:
            os.close(process)
    return True


def _opened(pid: int) -> int:
    """-1 where the kernel is older than 5.3 or a container forbids it, and when no descriptor is to be had:
    then the time between looking and sending is short, and that is all. Raises ProcessLookupError."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return -1
