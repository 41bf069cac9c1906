"""The wire: what a server may send, and what it may do to us."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tgpu.client import transport
from tgpu.client.errors import DroppedError, ReadTimeoutError, UnreachableError
from tgpu.client.locate import Address
from tgpu.client.means import Means
from tgpu.client.transport import Connection, Response, Wire

Script = Callable[[socket.socket], None]


def answering(*pieces: bytes) -> Response:
    """A response whose bytes come in these pieces, and then the end of the stream."""
    ours, theirs = socket.socketpair()
    ours.settimeout(2)

    def send() -> None:
        with theirs, suppress(BrokenPipeError):  # the client may have seen enough
            for piece in pieces:
                theirs.sendall(piece)

    threading.Thread(target=send, daemon=True).start()
    return Response(Wire(ours), "GET")


def listening(path: Path, *scripts: Script) -> Connection:
    """A server that treats its first connection by the first script, its second by the second, and so on."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        for script in scripts:
            connection, _ = listener.accept()
            with connection:
                script(connection)

    threading.Thread(target=serve, daemon=True).start()
    return Connection([Address("unix", path=str(path))], timeout=2, means=Means())


def _silence() -> None:
    threading.Event().wait(2)


def say(connection: socket.socket, text: bytes = b"hello") -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))


def test_a_body_of_known_length_is_read_whole_and_leaves_the_connection_usable() -> None:
    response = answering(b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: 5\r\n\r\nhel", b"lo")
    assert (response.read(), response.reusable) == (b"hello", True)


def test_chunks_are_joined_wherever_the_network_cuts_them() -> None:
    whole = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n"
    )
    response = answering(*(whole[at : at + 1] for at in range(len(whole))))
    assert (response.read(), response.reusable) == (b"abc0123456789", True)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    response = answering(b"HTTP/1.1 200 OK\r\n\r\nall of it")
    assert (response.read(), response.reusable) == (b"all of it", False)


def test_an_answer_without_a_body_needs_no_length() -> None:
    response = answering(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (response.read(), response.reusable) == (b"", True)


@pytest.mark.parametrize(
    "cut",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    ],
)
def test_an_answer_cut_short_is_never_taken_for_a_whole_one(cut: bytes) -> None:
    response = answering(cut)
    with pytest.raises(DroppedError):
        response.read()


def test_what_is_not_http_is_said_to_be_so() -> None:
    with pytest.raises(DroppedError, match="not HTTP"):
        answering(b"SSH-2.0-OpenSSH_9.6\r\n")


def test_a_timeout_loses_nothing_of_a_stream() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(0.05)
    theirs.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5")
    response = Response(Wire(ours), "GET")
    assert response.read_some() == b"abc"
    with pytest.raises(ReadTimeoutError):
        response.read_some()
    theirs.sendall(b"\r\nhello\r\n0\r\n\r\n")
    assert (response.read_some(), response.read_some()) == (b"hello", b"")
    theirs.close()


def test_a_kept_connection_that_was_closed_meanwhile_is_opened_anew(tmp_path: Path) -> None:
    connection = listening(tmp_path / "s", say, lambda peer: say(peer, b"again"))
    assert connection.request("GET", "/", {}).read() == b"hello"
    assert connection.request("GET", "/", {}).read() == b"again"
    connection.close()


def test_a_first_request_that_is_dropped_is_not_repeated(tmp_path: Path) -> None:
    connection = listening(tmp_path / "s", lambda peer: peer.close(), say)
    with pytest.raises(DroppedError):
        connection.request("GET", "/", {})
    connection.close()


def test_no_socket_means_start_the_server(tmp_path: Path) -> None:
    connection = Connection([Address("unix", path=f"{tmp_path}/none")], timeout=1, means=Means())
    with pytest.raises(UnreachableError, match=r"no server at .*/none: start it with `tgpu up`"):
        connection.request("GET", "/", {})


def test_a_dead_socket_is_passed_over_for_the_next_candidate(tmp_path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(f"{tmp_path}/dead")
    listening(tmp_path / "alive", say)
    candidates = [Address("unix", path=f"{tmp_path}/{name}") for name in ("dead", "alive")]
    connection = Connection(candidates, timeout=1, means=Means())
    assert connection.request("GET", "/", {}).read() == b"hello"
    assert connection.address.path.endswith("alive")
    connection.close()


def test_tcp_works_as_the_socket_does() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            say(peer)

    threading.Thread(target=serve, daemon=True).start()
    connection = Connection(
        [Address("http", host="127.0.0.1", port=listener.getsockname()[1])], timeout=2, means=Means()
    )
    assert connection.request("GET", "/", {}).read() == b"hello"
    connection.close()
    listener.close()


def test_a_silent_server_is_given_up_after_the_timeout(tmp_path: Path) -> None:
    connection = listening(tmp_path / "s", lambda _: _silence())
    connection._timeout = 0.1
    with pytest.raises(UnreachableError, match=r"did not answer within 0\.1 s"):
        connection.request("GET", "/", {})


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "hostile",
    [
        [b"HTTP/1.1 100 Continue\r\n\r\n"] * 20,
        [OK, *[b"X: y\r\n"] * 300],
        [OK, b"X: ", b"y" * 200_000],
        [OK, b"Content-Length: ", b"9" * 5000, b"\r\n\r\n"],
        [OK, b"Content-Length: -1\r\n\r\n"],
        [OK, b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabcde\r\n0\r\n\r\n"],
        [OK, b"Transfer-Encoding: chunked\r\n\r\n", b"f" * 100, b"\r\n"],
        [OK, b"Transfer-Encoding: chunked\r\n\r\n1_0\r\n", b"a" * 16, b"\r\n0\r\n\r\n"],
        [OK, b"Transfer-Encoding: chunked\r\n\r\n0\r\n", *[b"X: y\r\n"] * 300],
        [b"HTTP/1.1 " + b"2" * 5000 + b" OK\r\n\r\n"],
    ],
    ids=[
        "interim answers",
        "headers",
        "line",
        "length",
        "negative length",
        "negative chunk",
        "huge chunk",
        "underscore",
        "trailers",
        "status",
    ],
)
def test_answer_without_end_is_given_up(hostile: list[bytes]) -> None:
    response = b"".join(hostile)
    with pytest.raises(DroppedError, match=r"not HTTP|headers|broken|never came"):
        answering(response).read()


def test_body_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_MAX_BODY", 100_000)
    response = answering(OK + b"\r\n", b"x" * 300_000)
    with pytest.raises(DroppedError, match="more than"):
        response.read()
