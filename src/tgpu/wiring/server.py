"""The parts of one server and the wires between them."""

import asyncio
import random
import secrets
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from tgpu import __version__
from tgpu.api.app import create_app
from tgpu.api.auth.browser_access import BrowserAccess
from tgpu.api.auth.web_session import end_sessions_of_earlier_processes
from tgpu.api.feed import Feed
from tgpu.api.services import Services
from tgpu.api.websocket import LONGEST_MESSAGE, PeerCredWebSocket
from tgpu.config.settings import Settings
from tgpu.control.alerts import SETTINGS_DIFFER
from tgpu.control.answers import Answers
from tgpu.control.directory import Directory
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.control.leadership import Leadership, LeaseTimers
from tgpu.control.loop import Control, Timers
from tgpu.control.snapshot_use import SnapshotUse
from tgpu.domain.job import Event
from tgpu.observe.logs import logger
from tgpu.observe.metrics import Metrics
from tgpu.protocol import server_proof
from tgpu.protocol.job_keys import SECRET_NAME, JobKeys
from tgpu.store.cluster_port import ServerRow
from tgpu.store.port import Store, StoreUnavailableError
from tgpu.wiring import home, other_servers
from tgpu.wiring.agent_link import AgentLink
from tgpu.wiring.connection_limits import ConnectionLimits
from tgpu.wiring.crowd import Crowd
from tgpu.wiring.disk_watch import persistently
from tgpu.wiring.entrance import Entrance, agent_links, open_entrance
from tgpu.wiring.home_link import HomeLink, HomeRing
from tgpu.wiring.kernel_keeper import KernelKeeper
from tgpu.wiring.known_nodes import KnownNodes
from tgpu.wiring.live import LiveAnswers, OwnDesk
from tgpu.wiring.one_port import ApiServer, http_protocol
from tgpu.wiring.peers import AskedLink, Asking, desk_of
from tgpu.wiring.policy_of_settings import policy_of
from tgpu.wiring.prover import Prover
from tgpu.wiring.settings_digest import digest_of
from tgpu.wiring.snapshots import EachOther, Introduced, ServerSnapshots, SnapshotSweeper, shelf_of
from tgpu.wiring.store_disk import StoreDisk
from tgpu.wiring.tls import keep_certificate

GOODBYE_S = 2
ESTIMATE_S = 2.0
"""Between two estimates of when pending jobs start; on a large cluster it is longer."""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Server:
    def __init__(self, settings: Settings, store: Store, *, shared: bool) -> None:
        """`shared`: other servers may use the same store."""
        self._settings = settings
        self._shared = shared
        self._store = store
        self._feed = Feed()
        self._metrics = Metrics()
        self._log = logger("server")
        self._inbox = Inbox()
        self._shelf = shelf_of(settings)
        self._policy = policy_of(settings)
        self._disk = StoreDisk(settings, store)
        self._hub = Hub(self._inbox, self._policy.cluster_generic)
        self._hub.refusals.count = self._metrics.count_invalid_message
        self._term: Control | None = None
        self._kernel = KernelKeeper(settings.kernel, lambda: self._term, self._count_nodes)
        store.subscribe(self._inbox.store_changed)

    def _begin_term(self, directory: Directory) -> Control:
        self._term = Control(
            store=self._store,
            inbox=self._inbox,
            hub=self._hub,
            policy=self._policy,
            timers=Timers(
                self._settings.node_silent_s,
                self._settings.reconcile_s,
                gang_start_s=self._settings.gang_start_s,
                estimate_s=ESTIMATE_S,
            ),
            now_ms=wall_clock_ms,
            observer=self._metrics,
            publish=self._publish,
            complaints=lambda: {SETTINGS_DIFFER: directory.complaint},
        )
        self._term.engine = self._kernel.engine
        return self._term

    def _end_term(self) -> None:
        self._term = None

    async def _count_nodes(self) -> int:
        return len(await self._store.nodes())

    def _publish(self, events: Sequence[Event]) -> None:
        self._feed.publish(events)

    async def run(self) -> None:
        """Until told to stop, or until a part fails: then the whole process ends and says why."""
        settings = self._settings
        entrance = await open_entrance(settings, self._store)  # first: it is the one that may fail
        url = entrance.url if entrance else ""
        local = entrance.local_url if entrance else ""
        home.write_address(settings, local)
        directory = Directory(self._store, self._own_row(url))
        with suppress(StoreUnavailableError):
            await directory.refresh()
            await end_sessions_of_earlier_processes(self._store, directory.own.server_id, wall_clock_ms())
        leadership = self._leadership(directory)
        secret = (await self._store.secret("peers", secrets.token_urlsafe(32).encode())).decode()
        tls = entrance.dialing if entrance else lambda: None
        who = Introduced(cluster_id=self._store.cluster_id, secret=secret, tls=tls)
        asking = Asking(leader=lambda: self._hub.leader, **who)
        others = EachOther(lambda: [each for each in directory.urls if each != url], who)
        snapshots = ServerSnapshots(self._shelf, others.all)
        self._hub.snapshots.source = snapshots.read
        self._hub.snapshots.is_used = SnapshotUse(lambda: self._term, self._store)
        self._hub.job_keys = await self._job_keys()
        answers = Answers(lambda: self._term, self._hub)
        desk = OwnDesk(answers, self._hub, snapshots, self._metrics.decisions)
        protocol = http_protocol(
            agents=agent_links(self._hub, self._store, wall_clock_ms),
            peers=lambda visit: AskedLink(desk_of(desk), self._store.cluster_id, secret, visit),
            limits=ConnectionLimits.of_this_process(settings),
            prove=self._prover(entrance, secret),
        )
        known = KnownNodes(self._store, self._policy)
        live = LiveAnswers(desk, asking, lambda: self._term is not None, self._store.leader, known)
        shared, owned = self._unix_listeners()
        api = ApiServer(
            _http(self._app(live, snapshots, entrance, directory), protocol),
            tcp=entrance.listeners if entrance else (),
            tls=entrance.context if entrance else None,
            shared=shared,
        )
        loop = asyncio.get_running_loop()
        agents = await loop.create_unix_server(
            self._home_links(), sock=home.unix_listener(settings.agents_socket, 0o600)
        )
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        beside = [
            asyncio.create_task(persistently(name, work, (OSError, StoreUnavailableError)))
            for name, work in self._beside(entrance, directory).items()
        ]
        leading = asyncio.create_task(leadership.run())
        serving = asyncio.create_task(api.serve(owned))
        stop = asyncio.create_task(_until(stopping))
        self._log.info("ready", socket=str(settings.socket), api=local or None)
        done, _ = await asyncio.wait({leading, serving, stop}, return_when=asyncio.FIRST_COMPLETED)
        agents.close()
        self._feed.close()
        api.should_exit = True
        await asyncio.wait({serving}, timeout=2 * GOODBYE_S)
        self._remove_sockets()
        asking.close()
        others.close()
        for task in (leading, *beside):
            task.cancel()
        await asyncio.wait({leading})
        with suppress(StoreUnavailableError):
            await directory.leave()
        for task in done:
            await task

    async def _job_keys(self) -> JobKeys | None:
        if self._settings.job_keys == "off":
            return None
        return JobKeys(await self._store.secret(SECRET_NAME, secrets.token_bytes(32)))

    def _prover(self, entrance: Entrance | None, secret: str) -> Prover | None:
        """Of a plain port; a certificate proves another one."""
        if entrance is None or entrance.tls is not None:
            return None
        return Prover(self._store, server_proof.digest_of(secret))

    def _home_links(self) -> Callable[[], asyncio.Protocol]:
        """The ends of streams of the agent beside this server. Elsewhere, somebody has to vouch for it."""
        if not self._shared:
            return lambda: AgentLink(self._hub)
        ring, crowd = HomeRing(self._store, wall_clock_ms), Crowd()
        return lambda: HomeLink(self._hub, ring, crowd, wall_clock_ms)

    def _own_row(self, url: str) -> ServerRow:
        return ServerRow(
            server_id=home.server_id(self._settings),
            url=url,
            version=__version__,
            config_digest=digest_of(self._settings),
            started_ms=wall_clock_ms(),
        )

    def _beside(
        self, entrance: Entrance | None, directory: Directory
    ) -> dict[str, Callable[[], Awaitable[None]]]:
        """What goes on beside serving and leading, by name."""
        sweeper = SnapshotSweeper(self._shelf, self._store, self._settings, wall_clock_ms)
        duties: dict[str, Callable[[], Awaitable[None]]] = {
            "kernel": self._kernel.keep,
            "snapshots": sweeper.go_on,
            "disk": self._disk.keep_reserve,
        }
        if self._shared:
            duties["directory"] = directory.keep
            known = (directory.own.url, lambda: directory.urls, entrance.ca_pem if entrance else None)
            duties["servers"] = partial(other_servers.keep_written, self._settings, *known)
        if entrance is not None and entrance.tls is not None:
            duties["tls"] = partial(keep_certificate, entrance.tls)
        return duties

    def _unix_listeners(self) -> tuple[list[socket.socket], list[socket.socket]]:
        """Those for all users, and those for the server's own user."""
        settings, public = self._settings, home.public_socket(self._settings)
        shared = [] if public is None else [home.unix_listener(public, 0o666)]
        if not home.serves_everybody():
            return shared, [home.unix_listener(settings.socket, 0o600)]
        shared.append(home.unix_listener(settings.socket, 0o666))
        return shared, [home.unix_listener(settings.owner_socket, 0o600)]

    def _remove_sockets(self) -> None:
        settings = self._settings
        own = (settings.socket, settings.owner_socket, settings.agents_socket)
        for path in (*own, home.public_socket(settings)):
            if path is not None:
                path.unlink(missing_ok=True)

    def _leadership(self, directory: Directory) -> Leadership:
        return Leadership(
            store=self._store,
            server_id=directory.own.server_id,
            hub=self._hub,
            directory=directory,
            begin_term=lambda: self._begin_term(directory),
            end_term=self._end_term,
            timers=LeaseTimers(),
            random=random.Random(),  # noqa: S311  jitter, not a secret
            shared=self._shared,
        )

    def _app(
        self,
        live: LiveAnswers,
        snapshots: ServerSnapshots,
        entrance: Entrance | None,
        directory: Directory,
    ) -> ASGIApp:
        return create_app(
            Services(
                store=self._store,
                live=live,
                logs=live,
                shells=live,
                snapshots=snapshots,
                settings=self._settings,
                metrics=self._metrics,
                feed=self._feed,
                now_ms=wall_clock_ms,
                version=__version__,
                names=entrance.names if entrance else frozenset(),
                browser=entrance.browser if entrance else BrowserAccess(),
                ca_pem=entrance.ca_pem if entrance else None,
                servers=lambda: directory.urls,
                is_cut_off=lambda: directory.is_cut_off,
                job_keys=self._hub.job_keys,
                disk_shortage=self._disk.shortage,
                alone=None if self._shared else directory.own,
            )
        )


def _http(app: ASGIApp, protocol: type[asyncio.Protocol]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol,
        ws=PeerCredWebSocket,
        ws_max_size=LONGEST_MESSAGE,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GOODBYE_S,
    )


async def _until(event: asyncio.Event) -> None:
    await event.wait()
