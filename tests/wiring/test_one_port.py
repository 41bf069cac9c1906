"""One port, three languages: HTTP, agents and servers; and what becomes of those who speak none of them."""

import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.wiring.cluster_server import ClusterServer, cluster
from tgpu.api import bounded_http
from tgpu.control.inbox import NodeSaidHello
from tgpu.domain.node import Capacity
from tgpu.protocol import door
from tgpu.protocol.framing import encode, from_server
from tgpu.protocol.messages import (
    PROTOCOL,
    AttemptReport,
    FromAgent,
    FromServer,
    Greeting,
    Heard,
    Heartbeat,
    Hello,
    KnowsNewer,
    NodeUse,
    Phase,
    Refused,
    Report,
)
from tgpu.wiring import keyed_link


@pytest.fixture(params=["auto", "off"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterServer]:
    with cluster(tmp_path, tls=request.param) as running:
        yield running


class AgentStream:
    """An agent's end, spoken by hand."""

    def __init__(self, server: ClusterServer) -> None:
        self._socket = server.connect()
        self._reader = from_server()
        self._heard: list[FromServer] = []
        self._socket.sendall(door.AGENT)

    def say(self, message: FromAgent) -> None:
        self._socket.sendall(encode(message))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hear(self) -> FromServer | None:
        """None when the server has closed."""
        while not self._heard:
            data = received(self._socket)
            if not data:
                return None
            self._heard += self._reader.feed(data)
        return self._heard.pop(0)


def received(sock: socket.socket) -> bytes:
    """Nothing once the server has closed; raises TimeoutError if it keeps the connection and is silent."""
    try:
        return sock.recv(65536)
    except TimeoutError:
        raise
    except OSError:  # a reset, or TLS that was cut without a goodbye
        return b""


def hello(node_id: str = "n1", key: str = "", **changes: Any) -> Hello:
    return Hello(
        **{
            "protocol": PROTOCOL,
            "node_id": node_id,
            "boot_id": "b",
            "version": "1",
            "capacity": Capacity(4000, 1024, 0),
            "pool": "default",
            "labels": {},
            "serves": "*",
            "attempts": (),
            "key": key,
            **changes,
        }
    )


def test_a_server_may_hold_as_many_streams_as_the_machine_allows(server: ClusterServer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert server.url
    assert soft == hard


def test_a_request_is_answered(server: ClusterServer) -> None:
    with server.http() as client:
        assert client.get("/healthz").json()["cluster_id"] == server.store.cluster_id
        assert client.get("/jobs").status_code == 401


def test_a_node_that_shows_its_key_reaches_the_hub(server: ClusterServer) -> None:
    stream = AgentStream(server)
    greeting = stream.hear()
    assert isinstance(greeting, Greeting)
    assert greeting.cluster_id == server.store.cluster_id
    stream.say(hello(key=server.key_of("n1")))
    stream.say(Heartbeat(use=NodeUse(), sent=5.0))
    assert stream.hear() == Heard(sent=5.0)
    assert server.hub.session_of("n1") == greeting.session


def test_a_node_that_knows_a_newer_leader_is_believed_only_with_its_key(server: ClusterServer) -> None:
    for key, believed in (("tgpunode_wrong", []), (server.key_of("n1"), ["n1"])):
        stream = AgentStream(server)
        assert isinstance(stream.hear(), Greeting)
        stream.say(KnowsNewer(node_id="n1", epoch=99, key=key))
        assert isinstance(stream.hear(), Refused if not believed else type(None))
        assert server.hub.disobeyed.names == believed


def test_bytes_may_come_one_by_one(server: ClusterServer) -> None:
    key, sock = server.key_of("n1"), server.connect()
    for byte in door.AGENT + encode(hello(key=key)):
        sock.sendall(bytes([byte]))
    server.wait_until(lambda: server.hub.session_of("n1") is not None, "n1 is connected")


def test_a_node_without_the_right_key_is_told_what_to_do(server: ClusterServer) -> None:
    server.key_of("n1")
    for node_id, why in (
        ("n1", "the key of node n1 is not the one it was given last"),
        ("n2", "node n2 has not joined this cluster, or was removed from it"),
    ):
        stream = AgentStream(server)
        stream.hear()
        stream.say(hello(node_id, key="tgpunode_wrong"))
        refused = stream.hear()
        assert isinstance(refused, Refused)
        assert refused.why.startswith(why)
        assert "tgpu nodes join-token" in refused.why
        assert stream.hear() is None
    assert server.hub.session_of("n1") is None
    assert server.hub.session_of("n2") is None


def test_a_key_that_was_replaced_is_worth_nothing(server: ClusterServer) -> None:
    old = server.key_of("n1")
    stream = AgentStream(server)
    stream.hear()
    stream.say(hello(key=old))
    server.wait_until(lambda: server.hub.session_of("n1") is not None, "n1 is connected")
    new = server.key_of("n1")
    second = AgentStream(server)
    second.hear()
    second.say(hello(key=new))
    server.wait_until(lambda: stream.hear() is None, "the older stream is closed")
    third = AgentStream(server)
    third.hear()
    third.say(hello(key=old))
    assert isinstance(third.hear(), Refused)


def test_an_agent_of_another_version_is_told_so(server: ClusterServer) -> None:
    stream = AgentStream(server)
    stream.hear()
    stream.say(hello(key=server.key_of("n1"), protocol=PROTOCOL + 1))
    refused = stream.hear()
    assert isinstance(refused, Refused)
    assert "install one version" in refused.why


def test_nothing_but_a_hello_is_listened_to_before_it(server: ClusterServer) -> None:
    for message in (Heartbeat(use=NodeUse()), Report(seq=1, attempts=())):
        stream = AgentStream(server)
        stream.hear()
        stream.say(message)
        assert stream.hear() is None


def test_a_stream_speaks_for_one_node(server: ClusterServer) -> None:
    mine, other = server.key_of("n1"), server.key_of("n2")
    stream = AgentStream(server)
    stream.hear()
    stream.say(hello(key=mine))
    stream.say(Heartbeat(use=NodeUse(), sent=1.0))
    assert stream.hear() == Heard(sent=1.0)
    stream.say(hello("n2", key=other))
    assert stream.hear() is None
    assert server.hub.session_of("n2") is None


def test_a_stranger_may_not_say_much(server: ClusterServer) -> None:
    stream = AgentStream(server)
    stream.hear()
    stream.send((5 * 1024 * 1024).to_bytes(4, "big") + bytes(1000))
    assert stream.hear() is None


def test_a_known_node_may(server: ClusterServer) -> None:
    stream = AgentStream(server)
    stream.hear()
    stream.say(hello(key=server.key_of("n1")))
    stream.say(Heartbeat(use=NodeUse(), sent=1.0))
    assert stream.hear() == Heard(sent=1.0)
    many = tuple(AttemptReport(attempt=f"{n}.0.1", phase=Phase.RUNNING) for n in range(1, 150_001))
    assert len(encode(Report(seq=1, attempts=many))) > 4 * 1024 * 1024
    stream.say(Report(seq=1, attempts=many))
    stream.say(Heartbeat(use=NodeUse(), sent=2.0))
    assert stream.hear() == Heard(sent=2.0)


def test_a_node_s_wrong_clock_is_corrected(server: ClusterServer) -> None:
    late_ms = server.now_ms() - 3_600_000
    attempt = AttemptReport(attempt="1.0.1", phase=Phase.RUNNING, started_ms=late_ms - 1000)
    stream = AgentStream(server)
    stream.hear()
    stream.say(hello(key=server.key_of("n1"), clock_ms=late_ms, attempts=(attempt,)))
    server.wait_until(lambda: bool(server.said), "the hello has arrived")
    (said,) = server.said
    assert isinstance(said, NodeSaidHello)
    (report,) = said.hello.attempts
    assert report.started_ms is not None
    assert abs(report.started_ms - (server.now_ms() - 1000)) < 5000


def test_another_server_s_stream_is_handed_over(server: ClusterServer) -> None:
    sock = server.connect()
    sock.sendall(door.PEER + b"question")
    assert received(sock) == b"peer:question"


@pytest.mark.parametrize("first", [b"\x00garbage!!!!\n", b"\x00" * 12, door.AGENT[:-1] + b"\x00"])
def test_who_speaks_an_unknown_language_is_cut_off(server: ClusterServer, first: bytes) -> None:
    sock = server.connect()
    sock.sendall(first)
    assert received(sock) == b""


def test_what_is_no_http_is_refused_as_a_bad_request(server: ClusterServer) -> None:
    sock = server.connect()
    sock.sendall(b"\xff\xfe nonsense\r\n\r\n")
    assert received(sock).startswith(b"HTTP/1.1 400")


def test_garbage_in_place_of_a_handshake_harms_nobody(tmp_path: Path) -> None:
    with cluster(tmp_path, tls="auto") as server:
        for garbage in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", bytes(range(256)), door.AGENT):
            with socket.create_connection(server.address, 10) as sock:
                sock.sendall(garbage)
                while received(sock):
                    pass  # an alert, at most
        with server.http() as client:
            assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "first",
    [
        b"",
        door.AGENT[:5],
        b"GET /healthz HTTP/1.1\r\nHost: local",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he",
    ],
)
def test_who_takes_too_long_to_say_what_they_want_is_cut_off(
    server: ClusterServer, first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_S", 0.3)
    sock = server.connect()
    sock.sendall(first)
    while received(sock):
        pass  # the answer to what was whole
    with server.http() as client:
        assert client.get("/healthz").status_code == 200


def test_a_node_that_never_says_hello_is_cut_off(
    server: ClusterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyed_link, "PROOF_S", 0.3)
    stream = AgentStream(server)
    assert isinstance(stream.hear(), Greeting)
    assert stream.hear() is None


def test_a_connection_that_was_handed_over_outlives_the_patience_at_the_door(
    server: ClusterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_S", 0.2)
    monkeypatch.setattr(keyed_link, "PROOF_S", 0.2)
    stream = AgentStream(server)
    stream.hear()
    stream.say(hello(key=server.key_of("n1")))
    time.sleep(0.6)
    stream.say(Heartbeat(use=NodeUse(), sent=1.0))
    assert stream.hear() == Heard(sent=1.0)
