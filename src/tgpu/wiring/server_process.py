"""The server: store, control loop, agents' hub and API in one process."""

import asyncio
import gc
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn
import uvloop
from litestar import Litestar

from tgpu import __version__
from tgpu.api.app import create_app
from tgpu.api.feed import Feed
from tgpu.api.peercred import PeerCredProtocol
from tgpu.api.services import Services
from tgpu.config.settings import Settings, SettingsError
from tgpu.control.answers import Answers
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.control.loop import Control, Timers
from tgpu.core.policy import UnknownPolicyError
from tgpu.domain.job import Event
from tgpu.observe.logs import configure, logger
from tgpu.observe.metrics import Metrics
from tgpu.store.port import DeposedError, Store, StoreUnusableError
from tgpu.store.sqlite import SqliteStore
from tgpu.wiring import home, pidfile
from tgpu.wiring.addresses import check_listen, tcp_listener, url_of
from tgpu.wiring.kernel_keeper import keep_kernel
from tgpu.wiring.links import AgentLink
from tgpu.wiring.live import HubLogs, LiveAnswers
from tgpu.wiring.policy_of_settings import policy_of

GOODBYE_S = 2
GC_THRESHOLDS = (20_000, 20, 50)
SWITCH_S = 0.0005
"""How long a busy thread may keep others waiting; the writer lets the interpreter go at every statement."""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def main(settings: Settings) -> int:
    configure(settings.log_level)
    sys.setswitchinterval(SWITCH_S)
    try:
        check_listen(settings.listen)
        home.prepare(settings)
        lock = pidfile.claim(settings.run_dir / "server.pid", "server")
        try:
            uvloop.run(serve(settings))
        finally:
            pidfile.release(lock)
    except (
        pidfile.AlreadyRunningError,
        home.HomeError,
        SettingsError,
        StoreUnusableError,
        UnknownPolicyError,
    ) as error:
        print(f"tgpu: {error}", file=sys.stderr)
        return 1
    return 0


async def serve(settings: Settings) -> None:
    store = await SqliteStore.open(settings.database)
    # What is here now stays: the collector need not look at it again, nor after every few hundred objects.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        await Server(settings, store).run()
    finally:
        await store.close()


class Server:
    """The parts of one server and the wires between them."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._feed = Feed()
        self._metrics = Metrics()
        self._log = logger("server")
        inbox = Inbox()
        self._hub = Hub(inbox)
        self._control = Control(
            store=store,
            inbox=inbox,
            hub=self._hub,
            policy=policy_of(settings),
            timers=Timers(settings.node_silent_s, settings.reconcile_s),
            now_ms=wall_clock_ms,
            observer=self._metrics,
            publish=self._publish,
        )

    def _publish(self, events: Sequence[Event]) -> None:
        self._feed.publish(events)

    async def run(self) -> None:
        """Until told to stop, or until a part fails: then the whole process ends and says why."""
        settings = self._settings
        everybody = home.serves_everybody()
        tcp = tcp_listener(settings.listen)  # first: it is the one that may fail
        sockets = [home.unix_listener(settings.socket, 0o666 if everybody else 0o600)]
        public = home.public_socket(settings)
        if public is not None:
            sockets.append(home.unix_listener(public, 0o666))
        if tcp is not None:
            sockets.append(tcp)
        (settings.run_dir / "address").write_text(url_of(tcp) + "\n" if tcp else "")
        loop = asyncio.get_running_loop()
        agents = await loop.create_unix_server(
            lambda: AgentLink(self._hub), sock=home.unix_listener(settings.agents_socket, 0o600)
        )
        api = _ApiServer(
            uvicorn.Config(
                self._app(),
                http=PeerCredProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GOODBYE_S,
            )
        )
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        control = asyncio.create_task(self._control.run())
        serving = asyncio.create_task(api.serve(sockets))
        keeping = asyncio.create_task(keep_kernel(self._control, settings.kernel))
        stop = asyncio.create_task(stopping.wait())
        self._log.info("ready", socket=str(settings.socket), api=url_of(tcp) if tcp else None)
        done, _ = await asyncio.wait({control, serving, stop}, return_when=asyncio.FIRST_COMPLETED)
        agents.close()
        self._feed.close()
        api.should_exit = True
        await asyncio.wait({serving}, timeout=2 * GOODBYE_S)
        for path in (settings.socket, settings.agents_socket, public):
            if path is not None:
                path.unlink(missing_ok=True)
        control.cancel()
        keeping.cancel()
        for task in done - {stop}:
            _raise_or_explain(task)

    def _app(self) -> Litestar:
        return create_app(
            Services(
                store=self._store,
                live=LiveAnswers(Answers(self._control, self._hub)),
                logs=HubLogs(self._hub),
                settings=self._settings,
                metrics=self._metrics,
                feed=self._feed,
                now_ms=wall_clock_ms,
                version=__version__,
            )
        )


def _raise_or_explain(task: "asyncio.Task[Any]") -> None:
    failure = task.exception()
    if isinstance(failure, DeposedError):
        raise StoreUnusableError("another server leads with this store now; this one stops") from failure
    if failure is not None:
        raise failure


class _ApiServer(uvicorn.Server):
    """One part among several: signals are the whole process's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
