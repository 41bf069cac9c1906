"""What this machine is for tgpu: which of its parts belong here, and how they are started."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tgpu.wiring import pidfile, service_unit
from tgpu.wiring.service_unit import Service

if TYPE_CHECKING:
    from pathlib import Path


def has_server(home: Path) -> bool:
    """Whether one was started here before."""
    return _is_seen(home / "server-id")


def has_agent(home: Path) -> bool:
    """Whether one was started here before."""
    try:
        return any((home / "agent").iterdir())
    except OSError:
        return False


def has_joined(home: Path) -> bool:
    """Whether it is a node of a cluster whose servers are elsewhere."""
    return _is_seen(home / "agent" / "identity.json")


def _is_seen(path: Path) -> bool:
    """Not where this user may not look: then it is another's."""
    try:
        return path.exists()
    except PermissionError:
        return False


def pid_of(part: str, home: Path) -> int | None:
    try:
        return pidfile.holder(home / "run" / f"{part}.pid")
    except OSError:
        return None


def how_to_start(part: str, home: Path) -> str:
    """In words for whoever has to: `server` or `agent`, as it was started before."""
    control = "systemctl" if os.geteuid() == 0 else "systemctl --user"
    for service in (Service(part), Service.UP):
        if service_unit.path(service).exists():
            return f"`{control} start {service.unit}`"
    alone = not has_agent(home) if part == "server" else not has_server(home)
    known = has_server(home) if part == "server" else has_agent(home)
    return f"`tgpu {part}`" if alone and known else "`tgpu up`"
