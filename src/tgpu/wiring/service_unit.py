"""The systemd unit: a restart of the service leaves jobs running."""

import os
import sys
from pathlib import Path

from tgpu.wiring.home import SYSTEM_HOME

UNIT = """\
[Unit]
Description=tgpu, a job scheduler for GPUs
After=network.target

[Service]
ExecStart={command} up
Environment=TGPU_HOME={home}
Restart=always
RestartSec=1
# Only the main process is stopped: it stops server and agent, and the tasks' supervisors live on.
KillMode=process
Delegate=yes
TasksMax=infinity
LimitNOFILE=1048576
TimeoutStopSec=30
{runtime}
[Install]
WantedBy={target}
"""


def path() -> Path:
    if os.geteuid() == 0:
        return Path("/etc/systemd/system/tgpu.service")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  may be unset
    return Path(base) / "systemd" / "user" / "tgpu.service"


def text(home: Path) -> str:
    root = os.geteuid() == 0
    return UNIT.format(
        command=Path(sys.executable).with_name("tgpu"),
        home=home,
        runtime="RuntimeDirectory=tgpu\nRuntimeDirectoryMode=0755\nRuntimeDirectoryPreserve=yes\n"
        if root
        else "",
        target="multi-user.target" if root else "default.target",
    )


def install(home: Path, *, home_was_given: bool) -> list[str]:
    """Writes the unit and returns what to type next."""
    root = os.geteuid() == 0
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text(home if home_was_given or not root else SYSTEM_HOME), encoding="utf-8")
    control = "systemctl" if root else "systemctl --user"
    lines = [
        f"Wrote {target}",
        "",
        "Start it now and at every boot:",
        f"  {control} daemon-reload && {control} enable --now tgpu",
    ]
    if not root:
        lines.append("  loginctl enable-linger    # so that it runs while you are logged out")
    return lines
