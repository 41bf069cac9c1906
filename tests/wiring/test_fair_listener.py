"""Connections to a socket of all users: a bounded rate per uid, and no wait because of another uid."""

import asyncio
import os
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tgpu.wiring import fair_listener
from tgpu.wiring.fair_listener import FairListener

OTHER_UID = 65534
GREETING = b"served"
SOON_S = 60.0
CONNECT = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
print(sock.recv(16).decode(), flush=True)
"""


class Door:
    """A listener that greets each connection it serves."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o711)  # other users pass
        self.path = folder / "all.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        self.path.chmod(0o666)
        listener.listen(64)
        self.served: list[socket.socket] = []
        self.fair = FairListener(listener, self._greet, unlimited=frozenset())

    async def _greet(self, sock: socket.socket) -> None:
        self.served.append(sock)
        sock.send(GREETING)

    def call(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(self.path))
        sock.setblocking(False)
        return sock

    async def close(self) -> None:
        self.fair.close()
        await self.fair.wait_closed()
        for sock in self.served:
            sock.close()


async def answer(sock: socket.socket) -> bytes:
    """Empty: it was closed."""
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 16), SOON_S)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not is_so():  # noqa: ASYNC110  the listener tells nobody
            await asyncio.sleep(0.005)


@pytest.fixture
def at_door() -> Callable[[Callable[[Door], Awaitable[None]]], None]:
    def run(story: Callable[[Door], Awaitable[None]]) -> None:
        async def told() -> None:
            with tempfile.TemporaryDirectory(prefix="tgpu-door-") as folder:
                door = Door(Path(folder))
                try:
                    await story(door)
                finally:
                    await door.close()

        asyncio.run(told())

    return run


Run = Callable[[Callable[[Door], Awaitable[None]]], None]


def test_connections_beyond_the_rate_wait_and_beyond_the_line_are_closed(
    at_door: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_listener, "BURST", 2)
    monkeypatch.setattr(fair_listener, "RATE", 0.0)
    monkeypatch.setattr(fair_listener, "MOST_DEFERRED", 3)

    async def story(door: Door) -> None:
        calls = [door.call() for _ in range(7)]
        assert [await answer(call) for call in calls[:2]] == [GREETING] * 2
        assert [await answer(call) for call in calls[5:]] == [b""] * 2
        assert len(door.served) == 2
        monkeypatch.setattr(fair_listener, "RATE", 1000.0)
        assert [await answer(call) for call in calls[2:5]] == [GREETING] * 3
        for call in calls:
            call.close()

    at_door(story)


def test_connection_that_was_closed_again_is_not_served(
    at_door: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_listener, "BURST", 1)
    monkeypatch.setattr(fair_listener, "RATE", 0.0)

    async def story(door: Door) -> None:
        for _ in range(50):
            door.call().close()
        last = door.call()
        assert await answer(last) == GREETING, "the others took nothing of the rate"
        assert len(door.served) == 1
        last.close()

    at_door(story)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can connect as another user")
def test_uid_beyond_its_rate_does_not_delay_another_uid(
    at_door: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_listener, "BURST", 1)
    monkeypatch.setattr(fair_listener, "RATE", 0.0)

    async def story(door: Door) -> None:
        first, waits = door.call(), door.call()
        assert await answer(first) == GREETING
        other = await asyncio.to_thread(
            subprocess.run,
            ["/usr/bin/env", "python3", "-ISc", CONNECT, str(door.path)],
            user=OTHER_UID,
            capture_output=True,
            cwd="/",
            timeout=SOON_S,
            check=False,
        )
        assert (other.stdout, other.stderr) == (GREETING + b"\n", b"")
        with pytest.raises(BlockingIOError):
            waits.recv(1)
        first.close()
        waits.close()

    at_door(story)


def test_full_batch_of_closed_connections_is_followed_by_a_pause(
    at_door: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_listener, "ACCEPT_AT_ONCE", 4)
    rests: list[float] = []
    rest = FairListener._rest

    def counted(self: FairListener, seconds: float) -> None:
        rests.append(seconds)
        rest(self, seconds)

    monkeypatch.setattr(FairListener, "_rest", counted)

    async def story(door: Door) -> None:
        for _ in range(8):
            door.call().close()
        await until(lambda: len(rests) == 2)
        last = door.call()
        assert await answer(last) == GREETING
        last.close()

    at_door(story)
