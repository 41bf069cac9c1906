"""Where a supervisor gets its orders, as long as it may get any."""

import os

from tgpu.runner.place import take_frame

FREE = b"f"
READ = 1 << 18
ORDERS_MAX = 1000
"""After so many a supervisor has done its part, so nothing in it can grow for ever."""


class Desk:
    """A connection to the spawner, and a share of its lock: who may claim attempts holds the lock, so a
    new agent that has got it knows that no claim is made behind its back."""

    __slots__ = ("_channel", "_lock", "_orders", "is_open")

    def __init__(self, channel: int, lock: int) -> None:
        self._channel = channel
        self._lock = lock
        self._orders = 1
        self.is_open = True

    def leave(self) -> None:
        """For good: this supervisor has a task that will take its time."""
        if self.is_open:
            self.is_open = False
            os.close(self._channel)
            os.close(self._lock)

    def say_free(self) -> None:
        self._orders += 1
        if self._orders > ORDERS_MAX:
            self.leave()
        if self.is_open:
            try:
                os.write(self._channel, FREE)
            except OSError:  # the spawner is gone, and so will we be
                self.leave()

    def next_order(self) -> bytes | None:
        """Waits for it; None if none will come."""
        buffer = bytearray()
        while self.is_open:
            taken = take_frame(buffer)
            if taken is not None:
                return taken[1]
            try:
                data = os.read(self._channel, READ)
            except OSError:
                data = b""
            if not data:
                self.leave()
            buffer += data
        return None
