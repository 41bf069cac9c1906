"""Tasks that live at most once: each runs only while the leader is heard, and is frozen while it is not.

The file `heard` holds two numbers: when the newest heartbeat that the leader has acknowledged was sent, in
nanoseconds of CLOCK_BOOTTIME, and for how many more such a task may run. That clock is everybody's on this
machine and goes on while the machine sleeps. The agent writes the file; each supervisor of such a task
reads it and acts alone, so that it does not matter whether an agent is there. What the supervisor promises:
its task does not run after that time, plus one poll. A machine that wakes up from its sleep runs the task
for one poll at the most; one whose clocks stood still with it (a virtual machine that was paused) cannot
know that time has passed, and goes on until its own clock says so.
"""

import os
import sys
import time

from tgpu.runner import records
from tgpu.runner.ending import Ending
from tgpu.runner.light import signal
from tgpu.runner.place import Order

POLL_S = 0.5
"""A leader lets another attempt start more than two of these after the lease is over."""
NS = 1_000_000_000
NUMBER_BYTES = 8


def read_lease(path: str) -> tuple[int, int]:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:  # nobody was ever heard
        return 0, 0
    data = os.read(fd, 2 * NUMBER_BYTES)
    os.close(fd)
    stamp, lease = data[:NUMBER_BYTES], data[NUMBER_BYTES:]
    return int.from_bytes(stamp, sys.byteorder), int.from_bytes(lease, sys.byteorder)


class Lease:
    """One task's. Without `once` there is nothing to it."""

    __slots__ = ("_frozen", "_once")

    def __init__(self, order: Order) -> None:
        self._once = order.once
        self._frozen = False

    def left_s(self) -> float:
        """How long the task may still run."""
        return (sum(read_lease(records.HEARD)) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) / NS

    @property
    def is_over(self) -> bool:
        return self._once and self.left_s() <= 0

    def await_start(self, ending: Ending) -> None:
        """Nothing is started that would have to be frozen at once: the order may be an old one."""
        while self.is_over and ending.reason is None:
            caught = signal.sigtimedwait((signal.SIGTERM, signal.SIGUSR1), POLL_S)
            ending.look_for_stop(shutdown=caught is not None and caught.si_signo == signal.SIGTERM)

    def heed(self, ending: Ending) -> None:
        """Freezes or thaws what is due. A stop that was ordered meanwhile comes first: whoever was replaced
        is not woken up to be told so."""
        if not self._once:
            return
        if self.is_over:
            ending.freeze()  # again at each look: who was born in the last moment is found by the next
            self._frozen = True
        elif self._frozen:
            ending.look_for_stop()
            if not ending.is_superseded:
                self._frozen = False
                ending.thaw()

    def until_next_ms(self) -> float | None:
        """None: this need never be looked at."""
        if not self._once:
            return None
        wait_s = POLL_S if self._frozen else min(POLL_S, max(0.0, self.left_s()))
        return 1000 * wait_s + 1
