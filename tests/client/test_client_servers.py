"""Several servers and TLS: the client finds one that answers, and believes only whom it was told to."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tgpu.aio import AsyncClient
from tgpu.client import Client, TgpuError, UnreachableError
from tgpu.client.locate import candidates
from tgpu.wiring import cluster_ca
from tgpu.wiring.tls import OwnTls

AUTHORITY = cluster_ca.load(cluster_ca.found("c", cluster_ca.utc_now()))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def _serve(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.headers.get("Idempotency-Key")))
        if self.server.deaf:
            self.server.released.wait(20)
            return
        if self.server.cuts:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        body = b'{"user_id": "ann", "job_id": 1, "tokens": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815  the library finds them by these names

    def log_message(self, *_: object) -> None:
        return


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *, tls: bool = False, deaf: bool = False, cuts: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.deaf, self.cuts = deaf, cuts
        self.released = threading.Event()
        self._tls = tls
        if tls:
            own = OwnTls(AUTHORITY, ["localhost", "127.0.0.1"], cluster_ca.utc_now)
            self.socket = own.context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        return  # a client that does not believe us goes away

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.server_address[1]}"

    def close(self) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    for name in ("TGPU_SERVER", "TGPU_TOKEN", "TGPU_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TGPU_HOME", str(tmp_path))
    started: list[_Server] = []

    def start(**how: bool) -> _Server:
        started.append(_Server(**how))
        return started[-1]

    yield start
    for server in started:
        server.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_servers_are_named_with_commas_between_them() -> None:
    found = candidates({"TGPU_SERVER": "https://a:1, https://b:2,"})
    assert [str(address) for address in found] == ["https://a:1", "https://b:2"]
    with pytest.raises(UnreachableError, match="it must look like"):
        candidates({"TGPU_SERVER": "https://a:1,b:2"})


def test_the_next_server_is_asked_if_one_is_not_there(starting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = starting()
    monkeypatch.setenv("TGPU_SERVER", f"http://127.0.0.1:{free_port()},{there.url}")
    with Client() as client:
        assert client.whoami()["user_id"] == "ann"
        assert str(client.session.address) == there.url
        client.cancel(1)
    assert [method for method, _ in there.asked] == ["GET", "DELETE"]


@pytest.mark.parametrize("how", ["deaf", "cuts"])
def test_what_may_be_asked_twice_is_asked_of_the_next(starting: Any, how: str) -> None:
    bad, good = starting(**{how: True}), starting()
    with Client(f"{bad.url},{good.url}", timeout=1.0) as client:
        assert client.whoami()["user_id"] == "ann"
        assert client.submit(["true"])["job_id"] == 1
    assert [method for method, _ in bad.asked] == ["GET"]
    assert [method for method, _ in good.asked] == ["GET", "POST"]
    with Client(f"{bad.url},{good.url}", timeout=1.0) as client:
        client.submit(["true"])
    assert bad.asked[-1] == good.asked[-1], "by its key a server knows a job again"


def test_what_may_not_be_asked_twice_is_not(starting: Any) -> None:
    bad, good = starting(deaf=True), starting()
    with (
        Client(f"{bad.url},{good.url}", timeout=0.3) as client,
        pytest.raises(UnreachableError, match="did not"),
    ):
        client.cancel(1)
    assert good.asked == []


@pytest.mark.parametrize("how", ["deaf", "cuts"])
def test_what_would_be_made_twice_is_asked_for_once(starting: Any, how: str) -> None:
    bad, good = starting(**{how: True}), starting()
    for make in (Client.create_join_token, Client.create_token, lambda client: client.remove_nodes(["n1"])):
        with (
            Client(f"{bad.url},{good.url}", timeout=0.3) as client,
            pytest.raises(UnreachableError, match="whether it was done is not known: look before"),
        ):
            make(client)
    assert [method for method, _ in bad.asked] == ["POST"] * 3
    assert good.asked == []


Whoami = Callable[[str], dict[str, Any]]


@pytest.fixture(params=["plain", "asyncio"])
def whoami(request: pytest.FixtureRequest) -> Whoami:
    """What a server says to each of the two clients."""

    def plain(url: str) -> dict[str, Any]:
        with Client(url) as client:
            return client.whoami()

    async def on_a_loop(url: str) -> dict[str, Any]:
        async with AsyncClient(url) as client:
            return await client.whoami()

    return plain if request.param == "plain" else lambda url: asyncio.run(on_a_loop(url))


def test_if_none_answers_all_are_named(whoami: Whoami) -> None:
    first, second = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UnreachableError) as error:
        whoami(f"{first},{second}")
    assert str(error.value).startswith("none of ")
    assert first in str(error.value)
    assert second in str(error.value)


@pytest.mark.parametrize("where", ["TGPU_CA", "TGPU_HOME", "itself"])
def test_a_server_is_believed_by_the_authority_s_certificate(
    whoami: Whoami, starting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    server = starting(tls=True)
    path = tmp_path / ("ca.pem" if where == "TGPU_HOME" else "other.pem")
    path.write_text(AUTHORITY.pem)
    if where == "TGPU_CA":
        monkeypatch.setenv("TGPU_CA", str(path))
    elif where == "itself":
        monkeypatch.setenv("TGPU_CA", AUTHORITY.pem)
    assert whoami(server.url)["user_id"] == "ann"


def test_a_server_that_nobody_vouches_for_is_not_told_the_token(
    whoami: Whoami, starting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = starting(tls=True)
    monkeypatch.setenv("TGPU_TOKEN", "tgpu_secret")
    with pytest.raises(UnreachableError) as error:
        whoami(server.url)
    assert "is not trusted on this machine" in str(error.value)
    assert "tgpu server-ca" in str(error.value)
    (tmp_path / "ca.pem").write_text(cluster_ca.load(cluster_ca.found("d", cluster_ca.utc_now())).pem)
    with pytest.raises(UnreachableError, match=r"is not trusted by .*ca\.pem"):
        whoami(server.url)
    monkeypatch.setenv("TGPU_CA", (tmp_path / "ca.pem").read_text())
    with pytest.raises(UnreachableError, match=r"is not trusted by TGPU_CA "):
        whoami(server.url)
    assert server.asked == []


def test_an_authority_that_cannot_be_read_is_named(
    whoami: Whoami, starting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = starting(tls=True)
    monkeypatch.setenv("TGPU_CA", str(tmp_path / "none.pem"))
    with pytest.raises(UnreachableError, match=r"the authority in .*none\.pem"):
        whoami(server.url)
    monkeypatch.setenv("TGPU_CA", "-----BEGIN CERTIFICATE-----")
    with pytest.raises(UnreachableError, match=r"the authority in TGPU_CA "):
        whoami(server.url)


def test_a_server_that_speaks_tls_is_not_spoken_to_in_the_clear(whoami: Whoami, starting: Any) -> None:
    server = starting(tls=True)
    with pytest.raises(UnreachableError, match="speaks TLS: write https in place of http"):
        whoami(server.url.replace("https:", "http:"))


def test_tls_is_not_spoken_with_a_server_that_does_not(whoami: Whoami, starting: Any, tmp_path: Path) -> None:
    server = starting()
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem)
    with pytest.raises(TgpuError) as error:
        whoami(server.url.replace("http:", "https:"))
    assert isinstance(error.value.__cause__, OSError | ssl.SSLError)
