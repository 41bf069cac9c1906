"""The thread that hears what other servers have written, and wakes whoever subscribed.

A notification carries nothing but its kind: who is woken reads the store from where they stood. While the
line is cut some may be missed, so everybody is woken once after each time it was made again.
"""

import asyncio
import os
import select
from collections.abc import Callable
from threading import Thread

import psycopg

from tgpu.store.postgres_address import Patience, PostgresAddress
from tgpu.store.postgres_connection import BoundedConnection
from tgpu.store.postgres_driver import CHANNEL, HAPPENED, WISHED
from tgpu.store.postgres_line import Contact, Line

_PING_S = 15.0

_Wake = tuple[asyncio.AbstractEventLoop, Callable[[], None]]


class PostgresListener:
    def __init__(
        self,
        address: PostgresAddress,
        patience: Patience,
        contact: Contact,
        own_pid: Callable[[], int | None],
    ) -> None:
        """`own_pid`: whose notifications are left out, for the writer of this process wakes by itself. It
        listens when this returns. Raises psycopg.Error."""
        self._line = Line(address, patience, contact, {}, "tgpu listener")
        self._line.on_connected = self._listen
        self._own_pid = own_pid
        self._wakes: dict[str, list[_Wake]] = {WISHED: [], HAPPENED: []}
        self._line.connected()
        self._close_seen, self._closing = os.pipe()
        self._closed = False
        self._thread = Thread(target=self._run, name="store-listener", daemon=True)
        self._thread.start()

    def subscribe(self, kind: str, wake: Callable[[], None]) -> None:
        """It is called on the loop that runs now."""
        self._wakes[kind].append((asyncio.get_running_loop(), wake))

    def close(self) -> None:
        self._closed = True
        os.write(self._closing, b"x")
        self._thread.join()
        self._line.cut()
        os.close(self._closing)
        os.close(self._close_seen)

    def _run(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._line.connected()
                self._hear(connection)
            except psycopg.Error:
                self._line.cut()
                self._wait_for(self._line.pause_s)

    def _listen(self, connection: BoundedConnection) -> None:
        connection.execute(f"LISTEN {CHANNEL}".encode())
        self._wake({WISHED, HAPPENED})

    def _hear(self, connection: BoundedConnection) -> None:
        """Waits for something to be said, or for the time to ask whether anybody is still there."""
        if not self._wait_for(_PING_S, connection.fileno()):
            connection.execute("SELECT 1")
        heard = {said.payload for said in connection.notifies(timeout=0) if said.pid != self._own_pid()}
        self._wake(heard)

    def _wait_for(self, seconds: float, *descriptors: int) -> bool:
        """Whether something came to be read before the time was up; the end of this store cuts it short."""
        waiting = select.poll()
        for descriptor in (self._close_seen, *descriptors):
            waiting.register(descriptor, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))

    def _wake(self, heard: set[str]) -> None:
        if WISHED in heard:
            heard = heard | {HAPPENED}
        for kind in heard & self._wakes.keys():
            for loop, wake in self._wakes[kind]:
                try:
                    loop.call_soon_threadsafe(wake)
                except RuntimeError:
                    continue  # the loop was closed: nobody is left to be woken
