"""The agent: this machine's runner and its stream to the server, in one process."""

import asyncio
import os
import pwd
import random
import signal
import socket
import sys
from pathlib import Path

import uvloop

from tgpu.agent.inventory import Inventory
from tgpu.agent.shell import Agent, AgentRefusedError, NodeIdentity
from tgpu.config.settings import Settings, SettingsError
from tgpu.domain.node_terms import labels
from tgpu.domain.quantities import BadQuantityError, mib
from tgpu.observe.logs import configure, logger
from tgpu.runner.process import ProcessRunner
from tgpu.wiring import home, pidfile
from tgpu.wiring.links import UnixDial
from tgpu.wiring.log_sweeper import sweep_for_ever


def main(settings: Settings) -> int:
    configure(settings.log_level)
    try:
        home.prepare(settings)
        lock = pidfile.claim(settings.run_dir / "agent.pid", "agent")
        uvloop.run(_run(settings))
    except (
        pidfile.AlreadyRunningError,
        home.HomeError,
        SettingsError,
        BadQuantityError,
        AgentRefusedError,
    ) as error:
        print(f"tgpu: {error}", file=sys.stderr)
        return 1
    pidfile.release(lock)
    return 0


def node_name(settings: Settings) -> str:
    return settings.node_name or socket.gethostname().split(".")[0] or "localhost"


def _identity(settings: Settings) -> NodeIdentity:
    return NodeIdentity(
        node_id=node_name(settings),
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        pool=settings.node_pool,
        labels=labels("node_labels", settings.node_labels),
        serves="*" if home.serves_everybody() else pwd.getpwuid(os.geteuid()).pw_name,
        taints=settings.node_taints,
    )


async def _run(settings: Settings) -> None:
    inventory = Inventory(settings)

    runners: list[ProcessRunner] = []

    def runner_for(cluster_id: str) -> ProcessRunner:
        runner = ProcessRunner(
            records_dir=settings.agent_dir / cluster_id,
            logs_dir=settings.logs_dir / cluster_id,
            cluster_id=cluster_id,
            cgroups=settings.cgroups == "auto",
        )
        runners.append(runner)
        return runner

    agent = Agent(
        identity=_identity(settings),
        dial=UnixDial(settings.agents_socket),
        runner_for=runner_for,
        discover=lambda: asyncio.to_thread(inventory.capacity),
        measure=lambda: asyncio.to_thread(inventory.measure),
        heartbeat_s=settings.heartbeat_s,
        log_cap_bytes=mib("log_cap", settings.log_cap) * 1024 * 1024,
        everybodys_env={"TGPU_SERVER": f"unix://{settings.socket}"},
        random=random.Random(),  # noqa: S311  jitter, not a secret
    )
    working = asyncio.create_task(agent.run())
    sweeping = asyncio.create_task(sweep_for_ever(runners, settings.log_keep_days))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, working.cancel)
    try:
        await working
    except asyncio.CancelledError:
        logger("agent").info("stopped; what runs here runs on")
    finally:
        sweeping.cancel()
