"""Unix sockets that many users connect to at once: clients wait in line, and the owner has a socket alone."""

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tgpu.aio.means import LoopMeans
from tgpu.aio.switching import on_a_stack
from tgpu.client.locate import OWNER_SOCKET, Address
from tgpu.client.means import Means
from tgpu.config.settings import Settings


def _listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(0)
    return listener


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[tuple[Path, socket.socket]]:
    """A socket whose queue is full."""
    path = tmp_path / "tgpu.sock"
    with _listener(path) as listener:
        crowd: list[socket.socket] = []
        while True:
            crowd.append(socket.socket(socket.AF_UNIX))
            crowd[-1].setblocking(False)
            try:
                crowd[-1].connect(str(path))
            except BlockingIOError:
                break
        yield path, listener
        for each in crowd:
            each.close()


def _open(address: Address, timeout: float) -> None:
    Means().open(address, timeout).close()


def _open_on_a_loop(address: Address, timeout: float) -> None:
    async def opened() -> None:
        (await on_a_stack(LoopMeans().open, address, timeout)).close()

    asyncio.run(opened())


both_clients = pytest.mark.parametrize("connect", [_open, _open_on_a_loop])
Connect = Callable[[Address, float], None]


@both_clients
def test_client_waits_in_line_at_a_crowded_socket(
    crowded: tuple[Path, socket.socket], connect: Connect
) -> None:
    path, listener = crowded
    accepting = threading.Timer(0.1, listener.accept)
    accepting.start()
    connect(Address("unix", path=str(path)), 60.0)
    accepting.join()


def test_signal_while_a_client_waits_in_line_does_not_end_the_wait(
    crowded: tuple[Path, socket.socket],
) -> None:
    path, listener = crowded
    caught = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: caught.set())

    def disturb_and_accept() -> None:
        while not caught.wait(0.05):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        listener.accept()

    disturbing = threading.Timer(0.1, disturb_and_accept)
    disturbing.start()
    try:
        _open(Address("unix", path=str(path)), 60.0)
    finally:
        disturbing.join()
        signal.signal(signal.SIGUSR1, before)


@both_clients
def test_client_that_waited_too_long_gets_a_timeout(
    crowded: tuple[Path, socket.socket], connect: Connect
) -> None:
    with pytest.raises(TimeoutError):
        connect(Address("unix", path=str(crowded[0])), 0.01)


def test_timeout_says_that_the_socket_is_crowded(crowded: tuple[Path, socket.socket]) -> None:
    with pytest.raises(TimeoutError, match="too many clients"):
        _open(Address("unix", path=str(crowded[0])), 0.01)


@both_clients
def test_owner_passes_the_crowd(crowded: tuple[Path, socket.socket], connect: Connect) -> None:
    path, _ = crowded
    owners = Settings(home=path.parent).owner_socket.name
    assert owners == OWNER_SOCKET
    with _listener(path.with_name(owners)) as listener:
        connect(Address("unix", path=str(path)), 60.0)
        listener.accept()[0].close()


@both_clients
def test_owner_socket_of_a_dead_server_is_not_insisted_on(tmp_path: Path, connect: Connect) -> None:
    _listener(tmp_path / OWNER_SOCKET).close()
    with _listener(tmp_path / "tgpu.sock") as listener:
        connect(Address("unix", path=str(tmp_path / "tgpu.sock")), 60.0)
        listener.accept()[0].close()
