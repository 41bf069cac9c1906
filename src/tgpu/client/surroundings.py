"""What a job gets of its caller's surroundings: the directory, and of the environment what programs need, not
what ties them to this session."""

from __future__ import annotations

import os
import re
from pathlib import Path

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Of the terminal, the desktop or the login that will be gone when the job starts, or of another job.
_SESSION_PREFIXES = (
    "SSH_",
    "TGPU_",
    "SLURM_",
    "DBUS_",
    "TMUX",
    "STY",
    "VSCODE_",
    "KITTY_",
    "ITERM_",
    "WAYLAND_",
)
_SESSION_NAMES = frozenset(
    {
        "_",
        "COLUMNS",
        "CUDA_VISIBLE_DEVICES",
        "DISPLAY",
        "LINES",
        "NVIDIA_VISIBLE_DEVICES",
        "OLDPWD",
        "PWD",
        "SHLVL",
        "TERM",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "WINDOWID",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "XDG_SEAT",
        "XDG_SESSION_ID",
        "XDG_SESSION_TYPE",
        "XDG_VTNR",
    }
)
# Inside a task of a gang: where that meets the others, which is no place for another job.
_OF_A_GANG = frozenset(
    {
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NNODES",
        "NODE_RANK",
        "RANK",
        "WORLD_SIZE",
    }
)


def here(environ: Mapping[str, str]) -> str:
    """The current directory as the shell names it: behind a link or an automount the physical path may exist
    on this host only. Raises OSError if it is gone."""
    physical = Path.cwd()
    said = Path(environ.get("PWD", ""))
    return str(said if said.is_absolute() and said.exists() and said.samefile(physical) else physical)


def host() -> str:
    """As jobs name the one that has their directory."""
    return os.uname().nodename


def exported(environ: Mapping[str, str]) -> dict[str, str]:
    """As Slurm does it: all but the session, since PATH, conda and virtual environments live there."""
    not_these = _OF_A_GANG if "TGPU_NODELIST" in environ else frozenset[str]()
    return {
        name: value for name, value in environ.items() if name not in not_these and _is_exported(name, value)
    }


def _is_exported(name: str, value: str) -> bool:
    return (
        name not in _SESSION_NAMES
        and not name.startswith(_SESSION_PREFIXES)
        and _NAME.fullmatch(name) is not None  # exported shell functions have other names
        and _is_text(value)
    )


def _is_text(value: str) -> bool:
    """Bytes that are not UTF-8 cannot travel in JSON."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
