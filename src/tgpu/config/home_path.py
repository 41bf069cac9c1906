"""Home directory of an installation: TGPU_HOME, or /var/lib/tgpu for root and a data directory for others.

Light enough for every start of the command line.
"""

# pathlib costs 7 ms of every start:
# ruff: noqa: PTH100, PTH110, PTH118, PTH120

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping

SYSTEM_HOME = "/var/lib/tgpu"
_MADE_BY_STARTING = ("tgpu.db", "agent", "run")


def home_path(environ: Mapping[str, str], *, uid: int | None = None, system: str = SYSTEM_HOME) -> str:
    """Root's is open to all users, unlike a directory below /root. An installation that root began elsewhere
    is used where it is until it has been moved."""
    if said := environ.get("TGPU_HOME"):
        return os.path.abspath(said)
    if (os.geteuid() if uid is None else uid) != 0:
        return data_home(environ)
    former = former_home(environ)
    return former if former is not None and not is_installation(system) else system


def former_home(environ: Mapping[str, str]) -> str | None:
    """Where root began an installation before there was /var/lib/tgpu. Not if a user could have put it there:
    under sudo, HOME may be another user's."""
    former = data_home(environ)
    return former if is_installation(former) and is_of_root(former) else None


def data_home(environ: Mapping[str, str]) -> str:
    """A user's own; in former versions also root's."""
    base = environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME") or "/", ".local", "share")
    return os.path.join(base, "tgpu")


def is_of_root(path: str) -> bool:
    """Whether nobody but root can change it or any directory above it."""
    while True:
        try:
            state = os.lstat(path)
        except OSError:
            return False
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != 0 or state.st_mode & 0o022:
            return False
        if path == "/":
            return True
        path = os.path.dirname(path)


def is_installation(home: str) -> bool:
    """Whether a server or an agent was ever started there."""
    return any(os.path.exists(os.path.join(home, name)) for name in _MADE_BY_STARTING)
