"""A server's door on a real port, with the real hub, API and TLS behind it; only the scheduler is made up."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import uvicorn
import uvloop

from tests.api.conftest import FakeLive, FakeLogs, FakeShells
from tgpu.api.app import create_app
from tgpu.api.feed import Feed
from tgpu.api.services import Services
from tgpu.api.websocket import PeerCredWebSocket
from tgpu.config.settings import Settings
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox, NodeEvent, NodeSaidHello
from tgpu.observe.metrics import Metrics
from tgpu.protocol import join_tokens, node_keys, server_proof
from tgpu.store.cluster_port import JoinToken
from tgpu.store.memory import MemoryStore
from tgpu.wiring.connection_limits import ConnectionLimits
from tgpu.wiring.dialing import TcpDial, node_credential
from tgpu.wiring.entrance import Entrance, agent_links, open_entrance
from tgpu.wiring.one_port import ApiServer, http_protocol
from tgpu.wiring.prover import Prover
from tgpu.wiring.trust import client_context

T = TypeVar("T")


class Echo(asyncio.Protocol):
    """What another server's stream would be."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"peer:" + data)  # type: ignore[attr-defined]


class ClusterServer:
    def __init__(self, home: Path, store: MemoryStore | None = None, **settings: Any) -> None:
        self.settings = Settings(home=home, **{"listen": "127.0.0.1:0", "tls": "auto", **settings})
        self.store = store or MemoryStore()
        self.now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        self.hub: Hub
        self.inbox: Inbox
        self.entrance: Entrance
        self.said: list[NodeEvent] = []
        self.limits = ConnectionLimits.of_this_process(self.settings)
        self.loop = uvloop.new_event_loop()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(60)
        if self._failure is not None:
            raise self._failure

    def _serve(self) -> None:
        try:
            self.loop.run_until_complete(self._main())
        except BaseException as failure:  # noqa: BLE001  told to whoever started it
            self._failure = failure
        finally:
            self._ready.set()
            self.loop.run_until_complete(_end_the_rest())
            self.loop.close()

    async def _main(self) -> None:
        entrance = await open_entrance(self.settings, self.store)
        assert entrance is not None
        self.entrance, self.inbox = entrance, Inbox()
        self.hub = Hub(self.inbox)
        self.hub.lead(self.store.cluster_id, 1)
        feed = Feed()
        services = Services(
            store=self.store,
            live=FakeLive(),
            logs=FakeLogs(),
            shells=FakeShells(),
            settings=self.settings,
            metrics=Metrics(),
            feed=feed,
            now_ms=self.now_ms,
            version="0.0-test",
            names=entrance.names,
            ca_pem=entrance.ca_pem,
            servers=lambda: [entrance.url],
        )
        config = uvicorn.Config(
            create_app(services),
            http=http_protocol(
                agent_links(self.hub, self.store, self.now_ms),
                lambda _visit: Echo(),
                self.limits,
                None if entrance.tls else Prover(self.store, server_proof.digest_of("peers")),
            ),
            ws=PeerCredWebSocket,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._api = ApiServer(config, entrance.listeners, entrance.context)
        serving = asyncio.create_task(self._api.serve([]))
        while not self._api.started:  # noqa: ASYNC110  uvicorn offers nothing else to wait for
            await asyncio.sleep(0.005)
        self._ready.set()
        settling = asyncio.create_task(self._settle())
        await serving
        settling.cancel()  # with the rest of what still waits, it is heard out at the end

    async def _settle(self) -> None:
        """What the control loop does with a hello: from then on heartbeats are answered."""
        while True:
            await self.inbox.wait()
            events, _ = self.inbox.take()
            self.said += events
            for event in events:
                if isinstance(event, NodeSaidHello):
                    self.hub.settle(event.hello.node_id, event.session)

    def stop(self) -> None:
        self._api.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    @property
    def url(self) -> str:
        return self.entrance.local_url

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    def http(self) -> httpx.Client:
        verify = client_context(self.entrance.ca_pem) if self.entrance.tls else False
        return httpx.Client(base_url=self.url, verify=verify, timeout=20)

    def connect(self) -> socket.socket:
        """A stream as a node would have it, or as near to it as a stranger comes."""
        sock = socket.create_connection(self.address, 10)
        context = self.entrance.dialing()
        return sock if context is None else context.wrap_socket(sock, server_hostname=self.address[0])

    def join_token(self, **asked: Any) -> str:
        secret = join_tokens.new_secret()
        token = JoinToken(
            **{
                "token_id": 0,
                "digest": join_tokens.digest_of(secret),
                "note": "",
                "created_by": "root",
                "created_ms": self.now_ms(),
                "expires_ms": self.now_ms() + 60_000,
                **asked,
            }
        )
        self.run(self.store.create_join_token(token))
        return join_tokens.written(secret, self.entrance.ca_pem)

    def key_of(self, node_id: str) -> str:
        """Of a node that has joined."""
        key = node_keys.new_key()
        secret, _ = join_tokens.parse(self.join_token())
        digest = join_tokens.digest_of(secret)
        self.run(self.store.enrol(digest, node_id, node_keys.digest_of(key), self.now_ms()))
        return key

    def dial(self, node_id: str, key: str) -> TcpDial:
        return TcpDial([self.url], self.entrance.ca_pem, Random(0), credential=node_credential(node_id, key))

    def wait_until(self, is_so: Callable[[], bool], what: str, within_s: float = 60) -> None:
        deadline = time.monotonic() + within_s
        while not is_so():
            assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
            time.sleep(0.01)


async def _end_the_rest() -> None:
    """Streams that nobody closed, and whoever reads them: a loop that is closed over them complains."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


@contextmanager
def cluster(home: Path, store: MemoryStore | None = None, **settings: Any) -> Iterator[ClusterServer]:
    server = ClusterServer(home, store, **settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()
