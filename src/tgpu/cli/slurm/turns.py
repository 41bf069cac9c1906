"""Steps of a job take turns: each has its CPUs for itself, and waits until there are enough.

A name in Linux's abstract namespace can be taken by one process, and is free again when that has ended,
however it ended: nothing is left behind, and nobody has to keep a book.
"""

from __future__ import annotations

import os
import socket
import time

_PAUSE_S = 0.2
_MOST_STEPS = 65_536


class Turn:
    """Held until this process ends."""

    def __init__(self, job: str) -> None:
        self._job = f"tgpu-step/{os.getuid()}/{job}"
        self._held: list[socket.socket] = []

    def number(self) -> int:
        """The smallest that no step of the job has now."""
        for number in range(_MOST_STEPS):
            if self._take(f"id/{number}"):
                return number
        raise OSError("too many steps at once")

    def wait_for_cpus(self, wanted: dict[int, int], each: int) -> None:
        """`wanted`: how many on which of the job's nodes, which have `each`. All of them or none, so that two
        that wait for each other cannot be."""
        base = len(self._held)
        while not all(self._some(node, min(count, each), each) for node, count in wanted.items()):
            for one in self._held[base:]:
                one.close()
            del self._held[base:]
            time.sleep(_PAUSE_S)

    def _some(self, node: int, count: int, of: int) -> bool:
        for cpu in range(of):
            if not count:
                return True
            count -= self._take(f"cpu/{node}/{cpu}")
        return not count

    def _take(self, name: str) -> bool:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            one.bind(f"\0{self._job}/{name}")
        except OSError:
            one.close()
            return False
        self._held.append(one)
        return True
