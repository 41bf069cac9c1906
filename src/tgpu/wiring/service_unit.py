"""The systemd units of `tgpu up`, `tgpu server` and `tgpu agent`: a restart leaves jobs running."""

import os
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from tgpu.wiring.private_file import write_private


class Service(StrEnum):
    UP = "up"
    SERVER = "server"
    AGENT = "agent"

    @property
    def unit(self) -> str:
        return "tgpu" if self is Service.UP else f"tgpu-{self}"


_DESCRIPTIONS = {
    Service.UP: "tgpu, a job scheduler for GPUs",
    Service.SERVER: "tgpu, a server of a cluster",
    Service.AGENT: "tgpu, the agent of this node",
}
_AFTER = {
    Service.UP: "After=network.target",
    # An address to listen on, and those of databases and servers, may be there only once the network is.
    Service.SERVER: "Wants=network-online.target\nAfter=network-online.target postgresql.service",
    Service.AGENT: "Wants=network-online.target\nAfter=network-online.target",
}
_RUNS_TASKS = """\
# Only the main process is stopped: the tasks' supervisors live on.
KillMode=process
Delegate=yes
# The agent itself stands in a leaf, so that its tasks' groups can have limits (systemd 254).
DelegateSubgroup=tgpu-agent
TasksMax=infinity
"""
_UNIT = """\
[Unit]
Description={description}
{after}

[Service]
ExecStart={command} {service}
Environment=TGPU_HOME={home}
EnvironmentFile=-{flags}
Restart=always
RestartSec=1
{tasks}LimitNOFILE=1048576
TimeoutStopSec=30
{runtime}
[Install]
WantedBy={target}
"""


def path(service: Service) -> Path:
    if os.geteuid() == 0:
        return Path(f"/etc/systemd/system/{service.unit}.service")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  may be unset
    return Path(base) / "systemd" / "user" / f"{service.unit}.service"


def text(service: Service, home: Path) -> str:
    root = os.geteuid() == 0
    public = root and service is not Service.AGENT
    return _UNIT.format(
        description=_DESCRIPTIONS[service],
        after=_AFTER[service],
        command=Path(sys.executable).with_name("tgpu"),
        service=service,
        home=home,
        flags=_flags_file(service, home),
        tasks="" if service is Service.SERVER else _RUNS_TASKS,
        runtime="RuntimeDirectory=tgpu\nRuntimeDirectoryMode=0755\nRuntimeDirectoryPreserve=yes\n"
        if public
        else "",
        target="multi-user.target" if root else "default.target",
    )


def install(service: Service, home: Path, *, flags: Mapping[str, str]) -> list[str]:
    """Writes the unit and returns what to type next. The service continues the installation in `home`.
    `flags`, as TGPU_… variables, are kept beside the home's other secrets: a database's address may hold a
    password, and units are for all to read."""
    root = os.geteuid() == 0
    target = path(service)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text(service, home), encoding="utf-8")
    lines = [f"Wrote {target}"]
    if flags:
        lines.append(f"Wrote {_write_flags(_flags_file(service, home), flags)}: what the flags said")
    control = "systemctl" if root else "systemctl --user"
    lines += [
        "",
        "Start it now and at every boot:",
        f"  {control} daemon-reload && {control} enable --now {service.unit}",
    ]
    if not root:
        lines.append("  loginctl enable-linger    # so that it runs while you are logged out")
    return lines


def _flags_file(service: Service, home: Path) -> Path:
    return home / f"{service.unit}.env"


def _write_flags(file: Path, flags: Mapping[str, str]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, "".join(f"{name}={_quoted(value)}\n" for name, value in flags.items()))
    return file


def _quoted(value: str) -> str:
    """As systemd reads it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return f'"{escaped}"'
