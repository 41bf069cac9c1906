"""Handshakes are begun a few at a time, and whoever does not go on with one holds nobody up."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tgpu.wiring import doorman
from tgpu.wiring.connection_limits import ConnectionLimits, Visit
from tgpu.wiring.doorman import Doorman


class Door:
    """A doorman, callers, and handshakes that last until the test ends them."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.begun: list[bytes] = []
        self._ends: dict[bytes, asyncio.Event] = {}
        self.limits = ConnectionLimits(per_user=16, per_address=16, total=1000)
        self.doorman = Doorman(listener, self._shake_hands, self.limits)

    async def _shake_hands(self, sock: socket.socket, _visit: Visit) -> None:
        with sock:
            name = await asyncio.get_running_loop().sock_recv(sock, 1)
            self.begun.append(name)
            self._ends[name] = asyncio.Event()
            await self._ends[name].wait()

    def end(self, name: bytes) -> None:
        self._ends[name].set()

    def call(self, says: bytes = b"") -> socket.socket:
        caller = socket.create_connection(self._listener.getsockname())
        caller.sendall(says)
        return caller

    async def until_begun(self, *names: bytes) -> None:
        async with asyncio.timeout(60):
            while self.begun != list(names):  # noqa: ASYNC110  sockets tell nobody
                await asyncio.sleep(0.01)


@asynccontextmanager
async def a_door() -> AsyncIterator[Door]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        door = Door(listener)
        yield door
        door.doorman.close()
        await door.doorman.wait_closed()


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorman, "MOST_AT_ONCE", 1)


def test_the_next_handshake_is_begun_when_one_is_over_in_the_order_of_the_calls() -> None:
    async def story() -> None:
        async with a_door() as door:
            with door.call(b"a"), door.call(b"b"), door.call(b"c"):
                await door.until_begun(b"a")
                await asyncio.sleep(0.1)
                assert door.begun == [b"a"]
                door.end(b"a")
                await door.until_begun(b"a", b"b")
                door.end(b"b")
                await door.until_begun(b"a", b"b", b"c")

    asyncio.run(story())


def test_who_calls_and_says_nothing_holds_nobody_up() -> None:
    async def story() -> None:
        async with a_door() as door:
            with door.call(), door.call(), door.call(b"a"):
                await door.until_begun(b"a")

    asyncio.run(story())


def test_who_says_nothing_for_long_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorman, "SPEAK_WITHIN_S", 0.05)

    async def story() -> None:
        async with a_door() as door:
            with door.call() as mute:
                mute.setblocking(False)
                async with asyncio.timeout(60):
                    assert await asyncio.get_running_loop().sock_recv(mute, 1) == b""

    asyncio.run(story())


def test_who_does_not_go_on_with_its_handshake_is_not_counted_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doorman, "COUNTED_S", 0.05)

    async def story() -> None:
        async with a_door() as door:
            with door.call(b"a"), door.call(b"b"):
                await door.until_begun(b"a", b"b")
                door.end(b"a")
                with door.call(b"c"):
                    await door.until_begun(b"a", b"b", b"c")

    asyncio.run(story())


def test_no_work_is_done_for_who_has_hung_up() -> None:
    async def story() -> None:
        async with a_door() as door:
            with door.call(b"a"), door.call(b"b") as impatient, door.call(b"c"):
                await door.until_begun(b"a")
                impatient.close()
                await asyncio.sleep(0.05)
                door.end(b"a")
                await door.until_begun(b"a", b"c")

    asyncio.run(story())


def test_a_door_that_is_closed_hangs_up_on_those_who_wait() -> None:
    async def story() -> None:
        async with a_door() as door:
            with door.call(b"a"), door.call(b"b") as waits, door.call() as mute:
                await door.until_begun(b"a")
                await asyncio.sleep(0.05)
                door.doorman.close()
                for caller in (waits, mute):
                    caller.settimeout(5)
                with pytest.raises(ConnectionResetError):
                    waits.recv(1)  # what it said was not read
                assert mute.recv(1) == b""

    asyncio.run(story())
