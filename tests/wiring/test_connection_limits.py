"""Limits on open connections: per user, per address and in all, and who makes way for whom."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wiring.cluster_server import cluster
from tests.wiring.test_one_port import AgentStream, hello
from tgpu.protocol import door
from tgpu.protocol.messages import Greeting, Heard, Heartbeat, NodeUse
from tgpu.wiring.connection_limits import (
    ConnectionLimits,
    Kind,
    TooManyConnectionsError,
    Visit,
    source_of,
)


class Callers:
    """Connections by name; those in `busy` do not make way."""

    def __init__(self, **most: int) -> None:
        self.limits = ConnectionLimits(**{"per_user": 3, "per_address": 3, "total": 100, **most})
        self.busy: set[str] = set()
        self.closed: list[str] = []

    def enter(self, name: str, kind: Kind, source: object) -> Visit:
        return self.limits.enter(kind, source, self._make_way(name))

    def _make_way(self, name: str) -> Callable[[], bool]:
        def make_way() -> bool:
            if name not in self.busy:
                self.closed.append(name)
            return name not in self.busy

        return make_way


def test_oldest_idle_connection_of_a_user_makes_way_for_a_new_one() -> None:
    callers = Callers()
    callers.busy = {"a"}
    for name in "abcde":
        callers.enter(name, Kind.USER, 1000)
    assert callers.closed == ["b", "c"]


def test_user_whose_connections_are_all_in_use_is_refused_and_others_are_not() -> None:
    callers = Callers()
    callers.busy = {"a", "b", "c"}
    for name in "abc":
        callers.enter(name, Kind.USER, 1000)
    with pytest.raises(TooManyConnectionsError, match="3 connections of uid 1000 are in use"):
        callers.enter("d", Kind.USER, 1000)
    callers.enter("e", Kind.USER, 1001)
    assert callers.limits.count == 4


def test_when_all_are_too_many_the_source_with_most_makes_way() -> None:
    callers = Callers(total=4)
    for number in range(3):
        callers.enter(f"attacker {number}", Kind.HTTP, "192.0.2.1")
    callers.enter("first", Kind.HTTP, "192.0.2.2")
    callers.enter("second", Kind.HTTP, "192.0.2.3")
    assert callers.closed == ["attacker 0"]
    assert callers.limits.count == 4


def test_connection_that_has_left_is_not_counted() -> None:
    callers = Callers()
    for name in "abc":
        visit = callers.enter(name, Kind.HTTP, "192.0.2.1")
        visit.leave()
        visit.leave()
    assert callers.limits.count == 0
    assert not callers.limits.visits


def test_connection_is_counted_as_one_kind_at_a_time() -> None:
    callers = Callers()
    visits = [callers.enter(name, Kind.UNDECIDED, "192.0.2.1") for name in "abcd"]
    for visit in visits:
        visit.count_as(Kind.HTTP, "192.0.2.1")
    assert (callers.closed, callers.limits.count) == (["a"], 3)


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_address_is_counted_by_its_network(host: str, source: str) -> None:
    assert source_of(host) == source


@pytest.mark.parametrize("tls", ["auto", "off"])
def test_idle_connections_of_one_address_do_not_lock_out_others_there(tmp_path: Path, tls: str) -> None:
    with cluster(tmp_path, tls=tls, connections_per_address=16) as server:
        idle = [server.connect() for _ in range(20)]
        for sock in idle:
            sock.sendall(b"GET /healthz HTTP/1.1\r\n")
        with server.http() as client:
            assert client.get("/healthz").status_code == 200
        assert server.limits.count <= 17
        for sock in idle:
            sock.close()
        server.wait_until(lambda: server.limits.count == 0, "all connections have left")


def test_agent_that_has_shown_its_key_is_no_stranger(tmp_path: Path) -> None:
    with cluster(tmp_path, tls="off") as server:
        stream = AgentStream(server)
        assert isinstance(stream.hear(), Greeting)
        assert server.limits.count == 1
        stream.say(hello(key=server.key_of("n1")))
        stream.say(Heartbeat(use=NodeUse(), sent=1.0))
        assert stream.hear() == Heard(sent=1.0)
        assert server.limits.count == 0


def test_mute_connections_make_way_when_all_are_too_many(tmp_path: Path) -> None:
    with cluster(tmp_path) as server:
        server.limits._total = 4
        mute = [socket.create_connection(server.address, 10) for _ in range(8)]
        with server.http() as client:
            assert client.get("/healthz").status_code == 200
        for sock in mute:
            sock.close()
        server.wait_until(lambda: server.limits.count == 0, "all connections have left")


def test_connection_of_an_unknown_language_leaves(tmp_path: Path) -> None:
    with cluster(tmp_path, tls="off") as server:
        with server.connect() as sock:
            sock.sendall(b"\0" * door.LENGTH)
            assert sock.recv(100) == b""
        server.wait_until(lambda: server.limits.count == 0, "the connection has left")
