"""The server's process: its settings checked, its home and store opened, the server run in it."""

import asyncio
import gc
import os
import sys

import uvloop

from tgpu.config.secret_file import check_settings_file, store_url
from tgpu.config.settings import Settings, SettingsError
from tgpu.core.policy import UnknownPolicyError
from tgpu.observe.logs import configure, logger
from tgpu.store.opening import open_store
from tgpu.store.port import Store, StoreUnavailableError, StoreUnusableError
from tgpu.wiring import home, pidfile, processes
from tgpu.wiring.addresses import check_listen
from tgpu.wiring.server import Server

GC_THRESHOLDS = (20_000, 20, 50)
STORE_RETRY_S = 2.0
SWITCH_S = 0.0005
"""How long a busy thread may keep others waiting; the writer lets the interpreter go at every statement."""


def main(settings: Settings) -> int:
    configure(settings.log_level, processes.log_rotation(settings, "server"))
    sys.setswitchinterval(SWITCH_S)
    try:
        check_listen(settings.listen, encrypted=settings.encrypted)
        home.prepare(settings)
        check_settings_file(os.environ, settings.home)
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
    store = await _open(settings)
    # What is here now stays: the collector need not look at it again, nor after every few hundred objects.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        await Server(settings, store, shared=bool(settings.store)).run()
    finally:
        await store.close()


async def _open(settings: Settings) -> Store:
    """A database that is away is waited for: after a power cut everything starts at the same time."""
    said, where = "", store_url(settings) or settings.database
    while True:
        try:
            return await open_store(where)
        except StoreUnavailableError as error:
            if str(error) != said:
                logger("server").error("waits for its store, and tries again", why=str(error))
            said = str(error)
            await asyncio.sleep(STORE_RETRY_S)
