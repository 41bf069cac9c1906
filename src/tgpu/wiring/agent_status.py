"""How the agent of a home fares: written by it to a file now and then, read by `tgpu doctor`."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from tgpu.agent.shell import Agent
from tgpu.config.settings import Settings
from tgpu.domain.node import Capacity
from tgpu.wiring.private_file import write_private

LOOK_EVERY_S = 1.0


class Standing(StrEnum):
    CALLING = "calling"
    """It looks for a server that takes it."""
    CONNECTED = "connected"
    REFUSED = "refused"
    """A server said no, and the agent ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    standing: Standing
    node_id: str
    server: str = ""
    """Who was called last."""
    heard_at: float | None = None
    """When the leader last acknowledged a heartbeat, in seconds since the epoch."""
    why: str = ""
    """It was refused."""
    gpus: int = 0
    ill_gpus: int = 0
    simulated: bool = False
    cpu_milli: int = 0
    memory_mib: int = 0
    abilities: dict[str, str] = field(default_factory=dict)
    """What this node holds its tasks to; by name, why it cannot, or nothing if it can."""

    @property
    def is_connected(self) -> bool:
        return self.standing is Standing.CONNECTED


def _path(settings: Settings) -> Path:
    return settings.run_dir / "agent.json"


def read(settings: Settings) -> AgentStatus | None:
    """None if no agent has written, or what is there cannot be read."""
    try:
        said = json.loads(_path(settings).read_text(encoding="utf-8"))
        return AgentStatus(**{**said, "standing": Standing(said["standing"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(settings: Settings, status: AgentStatus) -> None:
    write_private(_path(settings), json.dumps(asdict(status)), outlives_power_loss=False)


async def keep_written(
    settings: Settings,
    node_id: str,
    agent: Agent,
    called: Callable[[], str],
    abilities: Callable[[], dict[str, str]],
) -> None:
    """Until cancelled."""
    before: AgentStatus | None = None
    while True:
        now = replace(status_of(settings, node_id, agent, called()), abilities=abilities())
        if now != before:
            await asyncio.to_thread(write, settings, now)
            before = now
        await asyncio.sleep(LOOK_EVERY_S)


def status_of(settings: Settings, node_id: str, agent: Agent, server: str, why: str = "") -> AgentStatus:
    offers = agent.capacity or Capacity(0, 0, 0)
    standing = Standing.CONNECTED if agent.is_connected else Standing.CALLING
    ago_s = None if agent.last_heard is None else asyncio.get_running_loop().time() - agent.last_heard
    return AgentStatus(
        standing=Standing.REFUSED if why else standing,
        node_id=node_id,
        server=server,
        heard_at=None if ago_s is None else round(time.time() - ago_s),
        why=why,
        gpus=len(offers.devices),
        ill_gpus=sum(not device.healthy for device in offers.devices),
        simulated=settings.simulate_gpus > 0,
        cpu_milli=offers.cpu_milli,
        memory_mib=offers.memory_mib,
    )
