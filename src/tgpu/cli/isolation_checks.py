"""What `tgpu doctor` says of isolation: what tasks of this machine are held to, and what is only counted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli.findings import OK, WARN, Finding
from tgpu.config import settings as config
from tgpu.config.home_path import home_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tgpu.runner.abilities import Ability

_ADVICE = "docs/isolation.md tells what each needs"


def of_isolation() -> Iterator[Finding]:
    """By the agent's own word; where none runs, what one would find that is started here."""
    from tgpu.wiring import agent_status  # noqa: PLC0415  slow to load

    home = Path(home_path(os.environ))
    try:
        settings = config.load(os.environ)
    except config.SettingsError:
        return  # said before
    status = agent_status.read(config.Settings(home=home))
    said = status.abilities if status is not None and status.is_connected else {}
    found = said or {ability.name: ability.why_not for ability in _here(settings)}
    for name, why_not in found.items():
        if why_not:
            yield Finding(name, WARN, f"advisory: {why_not}", _ADVICE)
        else:
            yield Finding(name, OK, "enforced")


def _here(settings: config.Settings) -> list[Ability]:
    from tgpu.runner import abilities, private_tmp  # noqa: PLC0415
    from tgpu.runner.cgroups.detect import Detected, detect  # noqa: PLC0415
    from tgpu.runner.cgroups.scope import Scope  # noqa: PLC0415

    forbidden = "the setting cgroups is off" if settings.cgroups == "off" else ""
    scope = Scope(f"tgpu-doctor-{os.getpid()}.scope") if settings.systemd_scope == "auto" else None
    detected = Detected(None) if forbidden else detect("doctor", scope=scope)
    if detected.cgroups is not None:
        detected.cgroups.close()
    no_tmp = abilities.why_no_tmp(wanted=settings.private_tmp == "auto")
    return abilities.abilities(detected, no_tmp or private_tmp.why_not(), forbidden)
