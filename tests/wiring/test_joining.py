"""A machine joins a cluster: whom it believes, what it keeps, and what it says when it may not."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from tests.wiring.cluster_server import ClusterServer, cluster
from tgpu.config.settings import Settings, SettingsError
from tgpu.domain.node import Capacity
from tgpu.protocol.join_tokens import new_secret
from tgpu.protocol.server_proof import SERVER_NAME
from tgpu.wiring import enrolment, home
from tgpu.wiring.agent_process import identity_of
from tgpu.wiring.dialing import TcpDial
from tgpu.wiring.enrolment import EnrolmentError, join
from tgpu.wiring.home_dial import HomeDial
from tgpu.wiring.membership import Membership, identity_path, in_a_container, membership

NOWHERE = "https://127.0.0.1:9"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterServer]:
    with cluster(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The home of a machine that may become a node."""
    home.prepare(Settings(home=tmp_path))
    return tmp_path


def member(node: Path, join_with: str | None = None, **settings: object) -> Membership:
    return membership(Settings(home=node, **settings), join_with, "n1", Random(0))  # type: ignore[arg-type]


def test_a_machine_without_any_of_it_belongs_to_the_server_beside_it(node: Path) -> None:
    found = member(node)
    assert isinstance(found.dial, HomeDial)
    assert found.joined is None
    assert found.jobs_env == {"TGPU_SERVER": f"unix://{node}/run/tgpu.sock"}


def test_a_machine_joins_once_and_needs_neither_flag_again(server: ClusterServer, node: Path) -> None:
    token = server.join_token(pool="training")
    first = member(node, token, node_servers=(server.url,))
    path = identity_path(Settings(home=node))
    assert path.stat().st_mode & 0o777 == 0o600
    assert first.joined is not None
    assert (first.joined.node_id, first.joined.pool) == ("n1", "training")
    assert first.joined.cluster_id == server.store.cluster_id
    assert first.joined.ca_pem == server.entrance.ca_pem
    again = member(node)
    assert isinstance(again.dial, TcpDial)
    assert again.joined == first.joined
    assert member(node, token, node_servers=(server.url,)).joined == first.joined, "the same token joins once"


def test_jobs_on_a_node_find_the_cluster(server: ClusterServer, node: Path) -> None:
    found = member(node, server.join_token(), node_servers=(server.url,))
    assert found.jobs_env == {
        "TGPU_SERVER": ",".join(dict.fromkeys([server.url, server.entrance.url])),
        "TGPU_CA": str(node / "ca.pem"),
    }
    assert (node / "ca.pem").read_text() == server.entrance.ca_pem
    told = in_a_container(Settings(home=node), found.jobs_env)
    assert told == {**found.jobs_env, "TGPU_CA": server.entrance.ca_pem}, "it sees no files of its node"
    own = {"TGPU_CA": "/own/ca.pem"}
    assert in_a_container(Settings(home=node), own) == own


def test_only_an_agent_that_has_joined_asks_for_keys(server: ClusterServer, node: Path) -> None:
    def wants_keys(of: Membership) -> bool:
        return identity_of(Settings(home=node), of).hello({}, Capacity(0, 0, 0), (), 0).keys

    assert not wants_keys(member(node))
    assert wants_keys(member(node, server.join_token(), node_servers=(server.url,)))


def test_a_new_token_makes_a_new_key(server: ClusterServer, node: Path) -> None:
    first = member(node, server.join_token(), node_servers=(server.url,)).joined
    second = member(node, server.join_token()).joined
    assert first is not None
    assert second is not None
    assert (first.node_id, first.key != second.key) == (second.node_id, True)


def test_join_token_is_read_from_a_file_that_others_cannot_read(server: ClusterServer, node: Path) -> None:
    file = node / "token"
    file.write_text(server.join_token() + "\n")
    file.chmod(0o644)
    with pytest.raises(SettingsError, match=f"open to other users; run: chmod 600 {file}"):
        member(node, f"@{file}", node_servers=(server.url,))
    file.chmod(0o600)
    joined = member(node, f"@{file}", node_servers=(server.url,)).joined
    assert joined is not None
    with pytest.raises(SettingsError, match="cannot read the join token in /nowhere"):
        member(node, "@/nowhere")
    file.chmod(0o644)
    assert member(node, f"@{file}").joined == joined, "a node that has joined needs no token"


def test_the_first_server_that_answers_is_asked(server: ClusterServer) -> None:
    joined = join([NOWHERE, server.url], server.join_token(), "n7")
    assert joined.servers[:2] == (NOWHERE, server.url)
    with pytest.raises(
        EnrolmentError, match=r"no server answers \(https://127.0.0.1:9: .*\): check --server"
    ):
        join([NOWHERE], server.join_token(), "n7")


def test_a_server_of_another_cluster_is_not_told_the_token(server: ClusterServer, tmp_path: Path) -> None:
    with cluster(tmp_path) as other:
        token = server.join_token()
        with pytest.raises(EnrolmentError, match="its authority has another fingerprint; check --server"):
            join([other.url], token, "n1")
    join([server.url], token, "n1")


def test_a_plain_server_is_no_way_round_the_fingerprint(server: ClusterServer, tmp_path: Path) -> None:
    token = server.join_token()
    with cluster(tmp_path, tls="off") as plain:
        with pytest.raises(
            EnrolmentError, match="of a cluster that speaks TLS: write https in place of http:"
        ):
            join([plain.url], token, "n1")
        with pytest.raises(EnrolmentError, match="no server answers"):
            join([plain.url.replace("http:", "https:")], token, "n1")


def test_on_one_machine_a_cluster_may_do_without_tls(tmp_path: Path) -> None:
    with cluster(tmp_path, tls="off") as plain:
        joined = join([plain.url], plain.join_token(), "n1")
        assert (joined.ca_pem, joined.servers) == (None, (plain.url,))


def test_without_a_fingerprint_only_whom_the_machine_trusts_is_believed(server: ClusterServer) -> None:
    with pytest.raises(EnrolmentError, match=r"is not trusted here \(.*\): use the name that it is made for"):
        join([server.url], server.join_token().partition(".")[0], "n1")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"expires_ms": 1}, "has expired"),
        ({"uses_left": 0}, "has been used"),
        ({"revoked": True}, "is not known"),
    ],
)
def test_a_token_that_is_no_good_is_one_sentence(
    server: ClusterServer, asked: dict[str, object], sentence: str
) -> None:
    with pytest.raises(EnrolmentError, match=f"this join token {sentence}.*tgpu nodes join-token"):
        join([server.url], server.join_token(**asked), "n1")


def test_the_name_of_a_connected_node_is_taken(server: ClusterServer) -> None:
    with pytest.raises(
        EnrolmentError, match="a node of that name is connected; give this one another --name"
    ):
        join([server.url], server.join_token(), "ws1")


@pytest.mark.parametrize(
    ("servers", "join_with", "sentence"),
    [
        ((NOWHERE,), None, "this machine has joined no cluster yet: make a token"),
        ((), "tgpujoin_x", "say which cluster to join: --server"),
        (("gpu1:7480",), None, "a server is named by a URL such as https://gpu1:7480; got 'gpu1:7480'"),
        (("https://gpu1",), None, "a server is named by a URL"),
        (("http://gpu1:7480",), None, "would send this node's key in the clear: use https"),
        ((NOWHERE,), "secret", "a join token looks like tgpujoin_…"),
    ],
)
def test_what_is_missing_is_asked_for(
    node: Path, servers: tuple[str, ...], join_with: str | None, sentence: str
) -> None:
    with pytest.raises(EnrolmentError, match=sentence):
        member(node, join_with, node_servers=servers)


def test_a_node_keeps_the_name_it_has_joined_with(server: ClusterServer, node: Path) -> None:
    member(node, server.join_token(), node_servers=(server.url,))
    with pytest.raises(
        SettingsError, match=r"this machine has joined as n1; to be n2, remove .*identity\.json"
    ):
        member(node, node_name="n2")


def test_an_identity_that_cannot_be_used_is_told_apart_from_none(server: ClusterServer, node: Path) -> None:
    member(node, server.join_token(), node_servers=(server.url,))
    path = identity_path(Settings(home=node))
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="can be read by others; run: chmod 600"):
        member(node)
    path.chmod(0o600)
    for damaged in ("{", "[]", '{"cluster_id": "c"}'):
        path.write_text(damaged)
        with pytest.raises(SettingsError, match=r"is damaged .* join again with a token"):
            member(node)


@contextmanager
def agent(node: Path, *flags: str, token: str = "") -> Iterator["subprocess.Popen[str]"]:
    more = {"TGPU_JOIN_TOKEN": token} if token else {}
    process = subprocess.Popen(
        [sys.executable, "-m", "tgpu.cli", "agent", "--simulate-gpus", "2", *flags],
        env={"PATH": os.environ["PATH"], "TGPU_HOME": str(node), "TGPU_HEARTBEAT_S": "0.2", **more},
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()


def last_words(process: "subprocess.Popen[str]") -> str:
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    return str(said)


def test_a_real_agent_joins_is_known_again_and_is_refused_once_its_key_is_worthless(
    server: ClusterServer, node: Path
) -> None:
    with agent(node, "--server", server.url, "--name", "real", token=server.join_token()):
        server.wait_until(lambda: server.hub.session_of("real") is not None, "real is connected", 30)
    server.wait_until(lambda: server.hub.session_of("real") is None, "real is gone")
    with agent(node):
        server.wait_until(lambda: server.hub.session_of("real") is not None, "real is back", 30)
    server.key_of("real")
    with agent(node) as process:
        said = last_words(process)
    assert "tgpu: the key of node real is not the one it was given last" in said


def test_a_real_agent_says_in_one_line_why_it_may_not_join(server: ClusterServer, node: Path) -> None:
    with agent(node, "--server", server.url, token=server.join_token(uses_left=0)) as process:
        (line,) = last_words(process).splitlines()
    assert line == (
        "tgpu: this join token has been used: it has let in as many nodes as it may; an administrator makes "
        "one with `tgpu nodes join-token`"
    )
    assert not identity_path(Settings(home=node)).exists()


def test_an_identity_of_another_cluster_is_one_sentence(server: ClusterServer, node: Path) -> None:
    member(node, server.join_token(), node_servers=(server.url,))
    path = identity_path(Settings(home=node))
    path.write_text(json.dumps({**json.loads(path.read_text()), "cluster_id": "elsewhere"}))
    with agent(node) as process:
        said = last_words(process)
    theirs = server.store.cluster_id
    assert f"this node has joined cluster elsewhere, but the server belongs to {theirs}" in said


def test_what_was_said_at_joining_is_kept_until_something_else_is_said(
    server: ClusterServer, node: Path
) -> None:
    said = {"node_pool": "training", "node_taints": ("spot",), "simulate_gpus": 4}
    member(node, server.join_token(), node_servers=(server.url,), **said)
    again = member(node).joined
    assert again is not None
    kept = again.applied(Settings(home=node, node_taints=("team=vision",)))
    assert (kept.node_pool, kept.simulate_gpus, kept.node_taints) == ("training", 4, ("team=vision",))


ANSWERED_AT = 3


class Electing(BaseHTTPRequestHandler):
    """A server that knows of no leader at first."""

    tries = 0

    def do_POST(self) -> None:
        Electing.tries += 1
        leads = Electing.tries == ANSWERED_AT
        body = JOINED if leads else {"detail": "nobody leads"}
        self.send_response(HTTPStatus.CREATED if leads else HTTPStatus.SERVICE_UNAVAILABLE)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_words: object) -> None:
        """Not here."""


JOINED = {"cluster_id": "c", "node_id": "n1", "key": "k", "servers": [], "pool": None}


class Unsealed:
    """In place of the TLS that follows a proof."""

    def wrap_socket(self, sock: socket.socket, server_hostname: str) -> socket.socket:
        assert server_hostname == SERVER_NAME
        return sock


def test_while_nobody_leads_a_machine_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrolment, "AGAIN_AFTER_S", 0.01)
    monkeypatch.setattr(enrolment, "prove_and_wait", lambda *_asked: Unsealed())
    with ThreadingHTTPServer(("127.0.0.1", 0), Electing) as electing:
        Thread(target=electing.serve_forever, daemon=True).start()
        joined = join([f"http://127.0.0.1:{electing.server_port}"], new_secret(), "n1")
        electing.shutdown()
    assert (joined.key, Electing.tries) == ("k", ANSWERED_AT)
