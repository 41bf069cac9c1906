"""Finds the attempts that a process of this machine belongs to: by its cgroup, and by its ancestors.

A task can shed neither. Its cgroups are root's, so its processes cannot leave them; and its supervisor
adopts every process of the task that loses its parent, so it stays an ancestor where there are no cgroups.
"""

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from tgpu.runner import records

_GROUP = re.compile(r"/tgpu-([^/]+)/(\d+\.\d+\.\d+)(?=/|$)", re.MULTILINE)
_CLAIM = re.compile(rb'"attempt":"(\d+\.\d+\.\d+)"')
MOST_ANCESTORS = 64
"""A server reads all of them, twice, before it serves a connection: a user who nests processes must not make
that long. It takes some 20 µs for each."""
_TRIES = 5
_STAT_MAX = 4096
_LOOK = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_JOURNAL = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_WRITE = 0o022


class Origin(NamedTuple):
    cluster_id: str
    attempt: str


def origins_of(pid: int) -> list[Origin]:
    """Of each cluster that it is a job of, the innermost last. Raises ProcessLookupError if it is gone, if it
    has more than MOST_ANCESTORS, or if these change faster than they can be read."""
    supervised = (_supervised_by(*ancestor) for ancestor in reversed(_ancestors(pid)))
    return [*(origin for origin in supervised if origin is not None), *_by_groups(pid)]


def _by_groups(pid: int) -> list[Origin]:
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(pid) from None
    return [Origin(*found) for found in _GROUP.findall(groups)]


def _ancestors(pid: int) -> list[tuple[int, int]]:
    """Pid and birth of each, parents first. Read until it is the same twice: one that ends meanwhile leaves
    its pid to another process."""
    before = _ancestors_once(pid)
    for _ in range(_TRIES):
        again = _ancestors_once(pid)
        if again is not None and again == before:
            return again
        before = again
    raise ProcessLookupError(pid)


def _ancestors_once(pid: int) -> list[tuple[int, int]] | None:
    """None: one of them ended meanwhile. Raises ProcessLookupError if there are too many."""
    found: list[tuple[int, int]] = []
    parent = _parent_and_birth(pid)
    while parent is not None and (pid := parent[0]) > 1:
        if len(found) == MOST_ANCESTORS:
            raise ProcessLookupError(pid)
        parent = _parent_and_birth(pid)
        found.append((pid, parent[1] if parent is not None else 0))
    return None if parent is None else found


def _parent_and_birth(pid: int) -> tuple[int, int] | None:
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)  # pathlib takes twice as long
    except FileNotFoundError:
        return None
    try:
        text = os.read(file, _STAT_MAX)
    except ProcessLookupError:
        return None
    finally:
        os.close(file)
    fields = text[text.rindex(b")") + 2 :].split(None, 20)
    return int(fields[1]), int(fields[19])


def _supervised_by(pid: int, birth: int) -> Origin | None:
    """What that process supervises now, if it is a supervisor: these stand in their agent's records, which
    only the agent's user can enter. So does no process that has root's rights and stands in a user's folder,
    such as `su`: what that folder holds is the user's invention."""
    try:
        if os.stat(f"/proc/{pid}").st_uid not in {0, os.geteuid()}:  # noqa: PTH116  as the line below
            return None
        folder = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115  a name that the kernel makes up
        here = os.open(f"/proc/{pid}/cwd", _LOOK)  # also if it has mounts of its own
    except OSError:  # another user's, or it has just ended
        return None
    try:
        attempt = _claimed_by(pid, birth, here) if _is_agents(here) else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(here)
    return None if attempt is None else Origin(Path(folder).name, attempt)


def _is_agents(folder: int) -> bool:
    about = os.fstat(folder)
    return about.st_uid in {0, os.geteuid()} and not about.st_mode & _OTHERS_WRITE


def _claimed_by(pid: int, birth: int, folder: int) -> str | None:
    """According to the journals in that folder, newest first. Raises OSError or ValueError."""
    names = os.listdir(f"/proc/self/fd/{folder}")  # noqa: PTH208  a descriptor
    if records.CLAIMS not in names:
        return None
    journals = (name for name in names if name.startswith("exits."))
    for name in sorted(journals, key=lambda name: -int(name.partition(".")[2])):
        data = _read(name, folder)
        at = data.rfind(b'"claim":[%d,%d,' % (pid, birth))
        claim = _CLAIM.search(data, data.rfind(b"\n", 0, at) + 1, at) if at >= 0 else None
        if claim is not None:
            return claim[1].decode()
    return None


def _read(name: str, folder: int) -> bytes:
    with open(os.open(name, _JOURNAL, dir_fd=folder), "rb") as file:  # noqa: PTH123  a descriptor
        return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
