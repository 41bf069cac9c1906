"""Plain ports on one machine: a process that took a server's port learns no secret and gives no orders."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from tests.wiring.cluster_server import ClusterServer, cluster
from tests.wiring.test_dialing import Ear, agent_of
from tgpu.agent.shell import AgentRefusedError
from tgpu.config.settings import Settings
from tgpu.protocol import door, server_proof
from tgpu.protocol.framing import encode
from tgpu.protocol.messages import PROTOCOL, Greeting, Launch, Orders
from tgpu.protocol.server_proof import Role, Unknown, Vouched
from tgpu.store.memory import MemoryStore
from tgpu.store.port import StoreUnavailableError
from tgpu.wiring import dialing, joined_node, proof_check, prover
from tgpu.wiring.dialing import TcpDial, node_credential
from tgpu.wiring.enrolment import EnrolmentError, join
from tgpu.wiring.joined_node import JoinedNode
from tgpu.wiring.membership import identity_path, membership
from tgpu.wiring.peers import Asking, UnansweredError

LAUNCH = Launch(
    attempt="1.0.1", job_name="", user="root", command="id", cwd="/", env={}, devices=(),
    cpu_milli=0, memory_mib=0, gpu_milli=0, time_limit_s=None, grace_s=1,
)  # fmt: skip
Answer = Callable[[bytes], bytes]


class Impostor:
    """A process on a server's port. It keeps all that it hears, and answers each connection's first bytes."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.heard = b""
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._talk(self._listener.accept()[0])

    def _talk(self, sock: socket.socket) -> None:
        sock.settimeout(10)
        with sock, contextlib.suppress(OSError):
            first = sock.recv(65536)
            self.heard += first
            if not (answer := self._answer(first)):
                return
            sock.sendall(answer)
            while data := sock.recv(65536):
                self.heard += data

    def close(self) -> None:
        self._listener.close()


def greets(_first: bytes) -> bytes:
    """As servers did before they proved themselves, with a command for the node."""
    greeting = Greeting(protocol=PROTOCOL, cluster_id="c", epoch=9, session=1)
    return encode(greeting) + encode(Orders(session=1, launches=(LAUNCH,)))


def hangs_up(_first: bytes) -> bytes:
    """As a server does that does not know the word."""
    return b""


def guesses(_first: bytes) -> bytes:
    return encode(Vouched(ca_pem="", mac=bytes(32)))


def answers_http(_first: bytes) -> bytes:
    return b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(params=[greets, hangs_up, guesses, answers_http])
def impostor(request: pytest.FixtureRequest) -> Iterator[Impostor]:
    running = Impostor(request.param)
    yield running
    running.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterServer]:
    """A plain one."""
    with cluster(tmp_path_factory.mktemp("server"), tls="off") as running:
        yield running


def joined(home: Path, url: str, key: str) -> Settings:
    """The home of a node that has joined by that server."""
    settings = Settings(home=home)
    settings.agent_dir.mkdir(parents=True, exist_ok=True)
    node = JoinedNode(
        cluster_id="c", node_id="n1", key=key, ca_pem=None, servers=(url,), pool=None, token_digest=""
    )
    joined_node.save(identity_path(settings), node)
    return settings


def test_joined_agent_neither_obeys_an_impostor_nor_sends_its_key(tmp_path: Path, impostor: Impostor) -> None:
    member = membership(joined(tmp_path, impostor.url, "tgpunode_secret"), None, "n1", Random(0))
    ear = Ear()

    async def story() -> None:
        with pytest.raises(OSError, match="did not prove that it is a server of this cluster"):
            await member.dial(ear)

    asyncio.run(story())
    assert ear.heard.empty()
    assert b"tgpunode_secret" not in impostor.heard


def test_join_token_is_not_shown_to_an_impostor(impostor: Impostor) -> None:
    with pytest.raises(EnrolmentError, match="did not prove that it is a server of this cluster"):
        join([impostor.url], "tgpujoin_secret", "n1")
    assert impostor.heard
    assert b"tgpujoin_secret" not in impostor.heard


def test_cluster_secret_is_not_sent_to_an_impostor_of_the_leader(impostor: Impostor) -> None:
    async def story() -> None:
        asking = Asking(
            leader=lambda: impostor.url, cluster_id="c", secret="the-secret", tls=lambda: None
        )  # fmt: skip
        with pytest.raises(UnansweredError, match="did not prove that it is a server"):
            await asking.ask("queues", patience_s=1)

    asyncio.run(story())
    assert b"the-secret" not in impostor.heard


class Relay(Impostor):
    """Passes everything on to the real server, and back."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        super().__init__(hangs_up)

    def _talk(self, sock: socket.socket) -> None:
        onward = socket.create_connection(self._to, 10)
        threading.Thread(target=self._pass_on, args=(onward, sock), daemon=True).start()
        self._pass_on(sock, onward)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.heard += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_agent_works_on_a_plain_port_and_a_relay_learns_no_key(server: ClusterServer) -> None:
    key, relay = server.key_of("n1"), Relay(server.address)

    async def story() -> None:
        dial = TcpDial([relay.url], None, Random(0), credential=node_credential("n1", key))
        agent = agent_of(dial, key, server.store.cluster_id)
        working = asyncio.create_task(agent.run())
        async with asyncio.timeout(30):
            while not agent.is_connected:
                assert not working.done()
                await asyncio.sleep(0.01)
        working.cancel()

    asyncio.run(story())
    relay.close()
    assert door.PROVE in relay.heard
    assert key.encode() not in relay.heard


class StoreThatIsAway(MemoryStore):
    """For whoever asks for keys."""

    def __init__(self) -> None:
        super().__init__()
        self.is_back = threading.Event()
        self.asked = 0

    async def node_key_digests(self, node_ids: Sequence[str]) -> list[str | None]:
        self.asked += 1
        if not self.is_back.is_set():
            raise StoreUnavailableError("away")
        return await super().node_key_digests(node_ids)


def test_node_that_calls_while_the_store_is_away_is_kept_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that is cut off instead comes again too late, and counts as lost."""
    monkeypatch.setattr(prover, "STORE_RETRY_S", 0.01)
    monkeypatch.setattr(dialing, "FIRST_PATIENCE_S", 60.0)
    store = StoreThatIsAway()
    with cluster(tmp_path, store, tls="off") as server:
        dial = server.dial("n1", server.key_of("n1"))

        async def story() -> None:
            ear = Ear()
            calling = asyncio.create_task(dial(ear))
            async with asyncio.timeout(60):
                while store.asked < 3 and not calling.done():  # noqa: ASYNC110  it is asked in another thread
                    await asyncio.sleep(0.01)
                assert not calling.done(), "the server hung up"
                store.is_back.set()
                link = await calling
                assert isinstance(await ear.heard.get(), Greeting)
            link.close()
            await link.closed()

        asyncio.run(story())


def test_machine_joins_over_a_plain_port_without_showing_its_token(server: ClusterServer) -> None:
    token, relay = server.join_token(pool="training"), Relay(server.address)
    node = join([relay.url], token, "n2")
    relay.close()
    assert (node.node_id, node.pool) == ("n2", "training")
    assert token.encode() not in relay.heard
    assert node.key.encode() not in relay.heard


def test_token_that_the_server_does_not_know_is_refused_in_words(server: ClusterServer) -> None:
    with pytest.raises(EnrolmentError, match="is not known here, or was revoked; an administrator makes one"):
        join([server.url], "tgpujoin_unknown", "n3")


def test_agent_of_a_removed_node_ends_if_a_trusted_process_says_so(
    server: ClusterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dial = TcpDial([server.url], None, Random(0), credential=node_credential("gone", "tgpunode_x"))
    with pytest.raises(AgentRefusedError, match="node gone has not joined this cluster, or was removed"):
        asyncio.run(_call(dial))
    monkeypatch.setattr(proof_check, "distrust_of", lambda _sock: "is a process of mallory")
    with pytest.raises(OSError, match="did not prove"):
        asyncio.run(_call(dial))


async def _call(dial: TcpDial) -> None:
    await dial(Ear())


def test_older_agent_still_connects_to_a_plain_port(server: ClusterServer) -> None:
    with server.connect() as sock:
        sock.sendall(door.AGENT)
        assert b"greeting" in sock.recv(65536)


def test_proof_holds_for_one_role_name_and_nonce_only() -> None:
    digest = server_proof.digest_of("secret")
    asked = server_proof.opening(Role.NODE, "n1")
    answer = Vouched(ca_pem="pem", mac=server_proof.mac(digest, asked, "pem"))
    assert server_proof.is_proven(digest, asked, answer)
    for other in (
        server_proof.opening(Role.NODE, "n1"),
        server_proof.Opening(role=Role.PEER, name="n1", nonce=asked.nonce),
        server_proof.Opening(role=Role.NODE, name="n2", nonce=asked.nonce),
    ):
        assert not server_proof.is_proven(digest, other, answer)
    assert not server_proof.is_proven(digest, asked, Vouched(ca_pem="another", mac=answer.mac))
    assert not server_proof.is_proven(server_proof.digest_of("other"), asked, answer)


def test_unknown_role_is_answered_in_words(server: ClusterServer) -> None:
    with server.connect() as sock:
        sock.sendall(door.PROVE + encode(server_proof.Opening(role="visitor", name="x", nonce=b"n")))
        data = sock.recv(65536)
    assert encode(Unknown(why="this server belongs to another cluster, or knows no such callers")) == data
