"""What `tgpu doctor` looks at on a node of a cluster: its agent, the servers it can reach, what it offers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli import place, words
from tgpu.cli.cluster_checks import dialled
from tgpu.cli.findings import FAIL, OK, WARN, Finding
from tgpu.config import settings as config
from tgpu.config.home_path import home_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tgpu.config.settings import Settings
    from tgpu.wiring.agent_status import AgentStatus
    from tgpu.wiring.joined_node import JoinedNode

_LATE_S = 15.0
_START_AGAIN = "correct it, then start the agent again"


def of_node() -> Iterator[Finding]:
    """If this machine has joined a cluster: who it is there, how its agent fares, whom it can reach."""
    from tgpu.wiring import agent_status, joined_node  # noqa: PLC0415  most machines do without
    from tgpu.wiring.membership import identity_path  # noqa: PLC0415

    home = Path(home_path(os.environ))
    try:
        path = identity_path(config.Settings(home=home))
        node = joined_node.load(path) if place.has_joined(home) else None
    except PermissionError:
        return
    except config.SettingsError as error:
        yield Finding("node", FAIL, str(error), _START_AGAIN)
        return
    if node is None:
        return
    yield Finding("node", OK, f"{node.node_id} of cluster {node.cluster_id}")
    try:
        settings = node.applied(config.load(os.environ))
    except config.SettingsError:
        return  # said before
    status = agent_status.read(settings)
    yield _agent(home, status)
    yield from _reached(node)
    yield _offer(settings, status)


def _agent(home: Path, status: AgentStatus | None) -> Finding:
    start = place.how_to_start("agent", home)
    pid = place.pid_of("agent", home)
    if pid is None and status is not None and status.why:
        advice = f"when that is settled, start it again: {start}"
        return Finding("agent", FAIL, f"refused by {status.server}: {status.why}", advice)
    if pid is None:
        return Finding("agent", FAIL, "it does not run", f"start it: {start}")
    if status is None or not status.is_connected:
        whom = status.server if status is not None and status.server else "the servers"
        advice = "see `reach` below: one of them must answer, and one must lead"
        return Finding("agent", FAIL, f"it runs (pid {pid}) and calls {whom}, but nobody takes it in", advice)
    ago = None if status.heard_at is None else max(0.0, time.time() - status.heard_at)
    heard = "not heard yet" if ago is None else f"last heard {words.duration(ago)} ago"
    text = f"connected to {status.server}, {heard}"
    if ago is not None and ago > _LATE_S:
        return Finding("agent", WARN, text, "the server may be busy or the network slow; look again")
    return Finding("agent", OK, text)


def _reached(node: JoinedNode) -> Iterator[Finding]:
    found = [dialled(url, node.ca_pem) for url in node.servers]
    for finding in found:
        # One that is down is the cluster's trouble; only if none is there, it is this node's.
        passing = finding.level == FAIL and any(other.level != FAIL for other in found)
        yield finding._replace(level=WARN) if passing else finding


def _offer(settings: Settings, status: AgentStatus | None) -> Finding:
    """What the agent has said, which its flags decide; if it has said nothing, what it would say."""
    if status is not None and status.is_connected:
        return _offered(
            status.gpus, status.ill_gpus, status.cpu_milli, status.memory_mib, simulated=status.simulated
        )
    from tgpu.agent.inventory import Inventory  # noqa: PLC0415  most machines do without
    from tgpu.domain.quantities import BadQuantityError  # noqa: PLC0415

    try:
        offers = Inventory(settings).capacity()
    except (config.SettingsError, BadQuantityError) as error:
        return Finding("inventory", FAIL, str(error), "correct the setting; the agent does not start with it")
    ill = sum(not device.healthy for device in offers.devices)
    simulated = settings.simulate_gpus > 0
    return _offered(len(offers.devices), ill, offers.cpu_milli, offers.memory_mib, simulated=simulated)


def _offered(gpus: int, ill: int, cpu_milli: int, memory_mib: int, *, simulated: bool) -> Finding:
    counted = words.plural(gpus, "simulated GPU" if simulated else "GPU")
    text = f"{counted}, {words.number(cpu_milli / 1000)} CPUs, {words.size(memory_mib)}"
    if ill:
        return Finding("inventory", WARN, f"{text}; {ill} ill", "look at nvidia-smi there")
    return Finding("inventory", OK, text)
