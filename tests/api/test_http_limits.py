"""Limits of one HTTP connection: size of heads, trailers and chunk framing, time, and pipelining."""

import json
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest

from tests.api.conftest import ServerUnderTest
from tgpu.api import bounded_http

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = GET + b"Connection: close\r\n\r\n"


class Wire:
    """A client that sends what no library would."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, data: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def flood(self, data: bytes, most: int = 4 << 20) -> bool:
        """Again and again; returns whether the server has closed before it was `most` bytes."""
        piece = data * ((1 << 16) // len(data))
        try:
            for _ in range(most // len(piece)):
                self._socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            return True
        return False

    def drip(self, data: bytes) -> bytes:
        """A little again and again, until the server answers."""
        self._socket.settimeout(0.02)
        while True:
            self.send(data)
            with suppress(TimeoutError):
                return self._socket.recv(65536)

    def read(self) -> bytes:
        """Until the server has closed; raises TimeoutError if it never does."""
        received = b""
        with suppress(ConnectionResetError):
            while part := self._socket.recv(65536):
                received += part
        return received

    def status(self) -> int:
        return int(self.read()[9:12] or b"0")


@contextmanager
def wire(server: ServerUnderTest, *, unix: bool = True) -> Iterator[Wire]:
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as sock:
        sock.settimeout(20)
        sock.connect(str(server.socket_path) if unix else ("127.0.0.1", server.port))
        yield Wire(sock)


def test_head_of_64_kib_is_refused_with_431(quiet: ServerUnderTest) -> None:
    with wire(quiet) as client:
        client.send(GET + b"X-Long: " + b"a" * 70_000 + b"\r\n\r\n")
        answer = client.read()
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    problem = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert "at most 64 KiB" in problem["detail"]


@pytest.mark.parametrize("target", [b"/", b"/?a="], ids=["path", "query"])
def test_endless_target_is_refused(quiet: ServerUnderTest, target: bytes) -> None:
    with wire(quiet) as client:
        client.send(b"GET " + target)
        client.flood(b"a")
        assert client.status() in (0, 431)


def test_endless_header_is_refused_before_it_is_buffered(quiet: ServerUnderTest) -> None:
    with wire(quiet) as client:
        client.send(GET + b"X-Long: ")
        client.flood(b"a")
        assert client.status() in (0, 431)  # 0: reset, because the client was still sending


def test_more_than_100_headers_are_refused(quiet: ServerUnderTest) -> None:
    for count, status in ((98, 200), (101, 431)):
        with wire(quiet) as client:
            client.send(GET + b"Connection: close\r\n" + b"X: y\r\n" * count + b"\r\n")
            assert client.status() == status


def test_endless_header_lines_are_refused(quiet: ServerUnderTest) -> None:
    with wire(quiet) as client:
        client.send(GET)
        client.flood(b"X: y\r\n")
        assert client.status() in (0, 431)


def test_head_of_a_later_request_on_a_connection_is_limited_too(quiet: ServerUnderTest) -> None:
    with wire(quiet) as client:
        client.send(GET + b"\r\n" + GET + b"X-Long: ")
        client.flood(b"a")
        assert client.read().count(b"HTTP/1.1 200") <= 1


@pytest.mark.parametrize(
    "endless",
    [b"0\r\nX: ", b"0\r\n", b"1;x=", b"1\r\nx\r\n0;"],
    ids=["trailer", "trailers", "extension", "last extension"],
)
def test_endless_chunk_framing_is_refused(quiet: ServerUnderTest, endless: bytes) -> None:
    with wire(quiet) as client:
        client.send(CHUNKED + endless)
        client.flood(b"X: y\r\n" if endless == b"0\r\n" else b"a")
        client.read()  # and not TimeoutError: the server has closed


def test_trailers_are_no_headers(quiet: ServerUnderTest) -> None:
    """The caller was judged by the head; what follows the body changes nothing."""
    with wire(quiet, unix=False) as client:
        request = POST.replace(b"/jobs", b"/agents/join") + b"Transfer-Encoding: chunked\r\n"
        client.send(request + b"Connection: close\r\n\r\n2\r\n{}\r\n0\r\nHost: evil.example\r\n\r\n")
        assert client.status() == 422


def test_many_small_chunks_are_a_body_like_any_other(quiet: ServerUnderTest) -> None:
    body = b'{"command": "x", "cwd": "/", "gpu_request": 99}' + b" " * 20_000
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    with wire(quiet) as client:
        client.send(CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + chunks + b"0\r\n\r\n")
        assert client.status() == 422


@pytest.mark.parametrize("unix", [True, False], ids=["socket", "tcp"])
@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"\r\n",
        GET,
        POST + b"Content-Length: 100\r\n\r\n{",
        POST + b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n",
        CHUNKED + b"5\r\n{",
        CHUNKED,
        LAST.replace(b"close", b"keep-alive") + b"GET /",
        GET + b"Content-Length: 100\r\n\r\nx",
    ],
    ids=[
        "nothing",
        "blank line",
        "head",
        "body",
        "continue",
        "chunk",
        "chunks",
        "second head",
        "unread body",
    ],
)
def test_half_sent_request_is_closed(
    quiet: ServerUnderTest, monkeypatch: pytest.MonkeyPatch, begun: bytes, unix: bool
) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_S", 0.1)
    monkeypatch.setattr(bounded_http, "BODY_IDLE_S", 0.1)
    with wire(quiet, unix=unix) as client:
        client.send(begun)
        client.read()


def test_body_that_comes_byte_by_byte_is_closed(
    quiet: ServerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "BODY_S", 0.2)
    with wire(quiet) as client:
        client.send(POST + b"Content-Length: 1000000\r\n\r\n")
        answer = client.drip(b" ")
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        client.read()


def test_answer_to_a_slow_body_says_so(quiet: ServerUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "BODY_IDLE_S", 0.1)
    with wire(quiet) as client:
        client.send(POST + b"Content-Length: 100\r\n\r\n{")
        answer = client.read()
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert "body of the request did not arrive in time" in answer.decode()


def test_client_that_reads_no_answers_is_cut_off(
    quiet: ServerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "STALLED_S", 0.1)
    with wire(quiet) as client:
        assert client.flood(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 1 << 30)


def test_thousands_of_pipelined_requests_are_answered_in_order(quiet: ServerUnderTest) -> None:
    with wire(quiet) as client:
        client.send((GET + b"\r\n") * 1500 + LAST)
        answer = client.read()
    assert answer.count(b"HTTP/1.1 200") == 1501
    assert answer.count(b"connection: close") == 1


def test_broken_request_behind_another_is_not_taken_for_its_answer(quiet: ServerUnderTest) -> None:
    with wire(quiet) as client:
        client.send(GET + b"\r\n" + b"nonsense\r\n\r\n")
        assert client.read()[:12] in (b"", b"HTTP/1.1 200")


def test_upgrade_to_another_protocol_is_ignored(quiet: ServerUnderTest) -> None:
    with wire(quiet) as client:
        client.send(GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\nPRI * HTTP/2.0\r\n\r\n")
        assert client.status() == 200


def test_body_of_a_refused_request_is_not_read_for_long(quiet: ServerUnderTest) -> None:
    with wire(quiet, unix=False) as client:
        client.send(POST + b"Content-Length: 100000000\r\n\r\n")
        client.flood(b"x", 16 << 20)
        assert client.status() in (0, 401)


def test_large_body_still_arrives_whole(quiet_client: httpx.Client) -> None:
    body = {"jobs": [{"command": "x", "cwd": "/", "env": {"A": "y" * 10_000}, "gpu_request": 99}] * 300}
    answer = quiet_client.post("/jobs", json=body)
    assert answer.status_code == 422
    assert "can never run here" in answer.json()["detail"]


UPGRADE = (
    b"GET /whoami HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n" * 100,
        GET + b"X: " + b"a" * 70_000,
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        UPGRADE,
        UPGRADE.replace(b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b""),
        UPGRADE.replace(b"Version: 13", b"Version: 1"),
        UPGRADE.replace(b"GET", b"POST"),
        b"GET /whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://localhost HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_requests_of_strangers_write_no_log_lines(
    quiet: ServerUnderTest,
    request_bytes: bytes,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with wire(quiet, unix=False) as client:
        client.send(request_bytes)
        assert client.status() in (0, 200, 400, 401, 405, 426, 431)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "request" not in capfd.readouterr().err
