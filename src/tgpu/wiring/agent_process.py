"""The agent: this machine's runner and its stream to the server, in one process."""

import asyncio
import os
import pwd
import random
import signal
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import uvloop

from tgpu.agent import pressure
from tgpu.agent.identity import NodeIdentity
from tgpu.agent.inventory import Inventory, host
from tgpu.agent.shell import Agent, AgentRefusedError
from tgpu.agent.spots import NodeSpots
from tgpu.config.settings import Settings, SettingsError
from tgpu.domain.node import NODE_NAME, NOT_NODE_NAMES
from tgpu.domain.node_terms import HOST_LABEL, NODE_LABEL, labels, taints
from tgpu.domain.quantities import BadQuantityError, mib
from tgpu.observe.logs import configure, logger
from tgpu.wiring import agent_status, home, home_in_tmp, pidfile, processes
from tgpu.wiring.disk_watch import persistently
from tgpu.wiring.enrolment import EnrolmentError
from tgpu.wiring.log_sweeper import sweep_for_ever
from tgpu.wiring.membership import Membership, membership
from tgpu.wiring.node_address import node_address
from tgpu.wiring.node_runners import NodeRunners
from tgpu.wiring.session_file import session_record


def main(settings: Settings, join: str | None = None) -> int:
    """`join`: the token with which this machine becomes a node, if it is none yet; `@FILE` names its file."""
    configure(settings.log_level, processes.log_rotation(settings, "agent"))
    chance = random.Random()  # noqa: S311  jitter, not a secret
    try:
        home.prepare(settings)
        lock = pidfile.claim(settings.run_dir / "agent.pid", "agent")
        member = membership(settings, join, node_name(settings), chance)
        if (warning := home_in_tmp.beware(settings)) is not None:
            print(warning, file=sys.stderr)
        uvloop.run(
            _run(settings if member.joined is None else member.joined.applied(settings), member, chance)
        )
    except (
        pidfile.AlreadyRunningError,
        home.HomeError,
        SettingsError,
        BadQuantityError,
        AgentRefusedError,
        EnrolmentError,
    ) as error:
        print(f"tgpu: {error}", file=sys.stderr)
        return 1
    pidfile.release(lock)
    return 0


def node_name(settings: Settings) -> str:
    name = settings.node_name or socket.gethostname().split(".")[0] or "localhost"
    if name in NOT_NODE_NAMES:
        raise SettingsError(f"a node cannot be called {name}, which is an order: give it another --name")
    if not NODE_NAME.fullmatch(name):
        raise SettingsError(
            f"a node cannot be called {name!r}: --name (node_name) must be 1 to 253 letters, digits, dots, "
            "dashes and underscores, the first of them a letter or digit"
        )
    return name


def identity_of(settings: Settings, member: Membership) -> NodeIdentity:
    joined = member.joined
    return NodeIdentity(
        node_id=member.node_id,
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        pool=settings.node_pool if joined is None or joined.pool is None else joined.pool,
        labels={
            **labels("node_labels", settings.node_labels),
            HOST_LABEL: socket.gethostname(),
            NODE_LABEL: member.node_id,
        },
        serves="*" if home.serves_everybody() else pwd.getpwuid(os.geteuid()).pw_name,
        taints=taints("node_taints", settings.node_taints),
        cluster_id=None if joined is None else joined.cluster_id,
        key=member.key,
        instance=uuid.uuid4().hex,
    )


async def _run(settings: Settings, member: Membership, chance: random.Random) -> None:
    inventory = Inventory(settings)
    runners = NodeRunners(
        settings, inventory, lambda: () if agent.capacity is None else agent.capacity.devices
    )
    agent = Agent(
        identity=identity_of(settings, member),
        dial=member.dial,
        guide=member.dial,
        spread_s=member.spread_s,
        clock_ms=lambda: time.time_ns() // 1_000_000,
        runner_for=runners.of_cluster,
        containers=runners.containers,
        discover=lambda: asyncio.to_thread(inventory.capacity),
        measure=lambda: asyncio.to_thread(inventory.measure),
        gpu_failure=inventory.gpu_failure,
        spots=NodeSpots(lambda: node_address(settings, member.dial.called), settings.run_dir / "gangs"),
        checkpoints=runners.checkpoints,
        uses=runners.uses,
        snapshots=runners.snapshots,
        sessions=session_record(settings, member.node_id, member.key),
        disk=runners.disk,
        heartbeat_s=settings.heartbeat_s,
        log_cap_bytes=mib("log_cap", settings.log_cap) * 1024 * 1024,
        everybodys_env=member.jobs_env,
        random=chance,
    )
    working = asyncio.create_task(agent.run())
    duties: dict[str, Callable[[], Awaitable[None]]] = {
        "memory": lambda: pressure.watch_for_ever(
            runners.both, host.memory_left_mib, _memory_reserve(settings)
        ),
        "logs": lambda: sweep_for_ever(runners.both, settings.log_keep_days),
        "failed-tmp": runners.failed_tmp.sweep_forever,
        "tmp-budget": runners.check_tmp,
        "checkpoint-budget": runners.check_checkpoints,
        "use": runners.uses.go_on,
        "status": lambda: agent_status.keep_written(
            settings, member.node_id, agent, lambda: member.dial.called, runners.abilities
        ),
    }
    if runners.checkpoints is not None:
        duties["checkpoints"] = runners.checkpoints.sweep_for_ever
    beside = [asyncio.create_task(persistently(name, work)) for name, work in duties.items()]
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, working.cancel)
    try:
        await working
    except asyncio.CancelledError:
        logger("agent").info("stopped; what runs here runs on")
    except AgentRefusedError as error:
        status = agent_status.status_of(settings, member.node_id, agent, member.dial.called, str(error))
        with suppress(OSError):
            agent_status.write(settings, status)
        raise
    finally:
        for task in beside:
            task.cancel()


def _memory_reserve(settings: Settings) -> int:
    if settings.memory_reserve == "auto":
        return pressure.reserve_of(host.memory_mib())
    return mib("memory_reserve", settings.memory_reserve)
