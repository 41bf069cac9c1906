"""A process of another account in a server's place, on a port or at a path, is told nothing."""

import asyncio
import os
import pwd
import selectors
import signal
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tgpu.aio import AsyncClient
from tgpu.client import Client, UnreachableError, locate
from tgpu.client.server_account import SERVER_USER, distrust_of
from tgpu.wiring.server_link import UnixDial

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
NOBODY = pwd.getpwnam("nobody")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account, too")


class Squatter:
    """A process of the account nobody: answers on two ports and at a path, accepts no call on a third."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o777)
        self.path = folder / "squatted" / "tgpu.sock"
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._squat(theirs)
            finally:
                os._exit(1)
        theirs.close()  # if it fails, nothing comes
        ports = struct.unpack("3H", ours.recv(6))
        self.url, self.slow_url, self.both_url = (f"http://127.0.0.1:{port}" for port in ports)

    def _squat(self, told: socket.socket) -> None:
        os.setgid(NOBODY.pw_gid)
        os.setuid(NOBODY.pw_uid)
        self.path.parent.mkdir()
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(str(self.path))
        self.path.chmod(0o666)
        unix.listen()
        quick, slow = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
        both = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        told.send(struct.pack("3H", *(each.getsockname()[1] for each in (quick, slow, both))))
        watch = selectors.DefaultSelector()
        for listener in (unix, quick, both):
            watch.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in watch.select():
                assert isinstance(key.fileobj, socket.socket)
                taken, _ = key.fileobj.accept()
                if taken.recv(65536):
                    taken.sendall(ANSWER)
                taken.close()

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture(scope="module")
def squatter() -> Iterator[Squatter]:
    """In a directory that other accounts reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="tgpu-squatter-") as folder:
        running = Squatter(Path(folder))
        yield running
        running.end()


@as_root
@pytest.mark.parametrize("where", ["url", "slow_url", "both_url", "path"])
def test_client_sends_nothing_to_a_process_of_another_account(squatter: Squatter, where: str) -> None:
    server = str(getattr(squatter, where))
    refused = pytest.raises(UnreachableError, match="is a process of nobody, which is neither root nor your")
    with Client(server, token="tgpu_secret", timeout=5) as client, refused:
        client.whoami()

    async def story() -> None:
        async with AsyncClient(server, token="tgpu_secret", timeout=5) as other:
            with pytest.raises(UnreachableError, match="set TGPU_SERVER_USER to its name"):
                await other.whoami()

    asyncio.run(story())


@as_root
@pytest.mark.parametrize("where", ["url", "both_url", "path"])
@pytest.mark.parametrize("account", ["nobody", str(NOBODY.pw_uid)])
def test_account_of_the_server_can_be_named(
    squatter: Squatter, monkeypatch: pytest.MonkeyPatch, where: str, account: str
) -> None:
    monkeypatch.setenv(SERVER_USER, account)
    with Client(str(getattr(squatter, where)), token="tgpu_secret", timeout=5) as client:
        assert client.whoami() == {}


@as_root
def test_agent_does_not_obey_a_process_of_another_account(squatter: Squatter) -> None:
    class Nothing:
        def received(self, message: object) -> None:
            pytest.fail(f"it heard {message}")

    async def story() -> None:
        with pytest.raises(OSError, match="is a process of nobody"):
            await UnixDial(squatter.path)(Nothing())

    asyncio.run(story())


def test_unknown_account_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_USER, "no-such-account")
    ours, _theirs = socket.socketpair()
    with pytest.raises(UnreachableError, match="TGPU_SERVER_USER is 'no-such-account', and there is no such"):
        distrust_of(ours)


def test_connection_that_the_server_closed_is_not_trusted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        listener.accept()[0].close()
        with ours, pytest.raises(ConnectionResetError):
            distrust_of(ours)


def test_socket_of_an_installation_is_preferred_to_its_plain_port(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "address").write_text("http://127.0.0.1:7480\n")
    (run / "tgpu.sock").touch()
    (tmp_path / "token").write_text("tgpu_x")
    (tmp_path / "token").chmod(0o600)
    environ = {"TGPU_HOME": str(tmp_path), "TGPU_SERVER": "http://127.0.0.1:7480"}
    found = locate.candidates(environ)
    assert [str(each) for each in found] == [str(run / "tgpu.sock"), "http://127.0.0.1:7480"]
    assert [locate.token(environ, each) for each in found] == ["tgpu_x", "tgpu_x"]
    for other in ("http://127.0.0.1:7481", "https://127.0.0.1:7480"):
        assert [str(each) for each in locate.candidates({**environ, "TGPU_SERVER": other})] == [other]
