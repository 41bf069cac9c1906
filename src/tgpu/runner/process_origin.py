"""Finds the attempts that a process of this machine belongs to: by its cgroup, and by its ancestors.

A task can shed neither. Its cgroups are root's, so its processes cannot leave them; and its supervisor
adopts every process of the task that loses its parent, so it stays an ancestor where there are no cgroups.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from tgpu.runner import records

_GROUP = re.compile(r"/tgpu-([^/]+)/(\d+\.\d+\.\d+)(?=/|$)", re.MULTILINE)
_CLAIM = re.compile(rb'"attempt":"(\d+\.\d+\.\d+)"')
_MOST_ANCESTORS = 10_000
_TRIES = 5


class Origin(NamedTuple):
    cluster_id: str
    attempt: str


def origins_of(pid: int) -> list[Origin]:
    """Of each cluster that it is a job of, the innermost last. Raises ProcessLookupError if it is gone, or if
    its ancestors change faster than they can be read."""
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
    found: list[tuple[int, int]] = []
    while pid > 1 and len(found) < _MOST_ANCESTORS:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        pid = int(text[text.rindex(")") + 2 :].split()[1])
        if pid > 1:
            found.append((pid, records.birth_of(pid) or 0))
    return found


def _supervised_by(pid: int, birth: int) -> Origin | None:
    """What that process supervises now, if it is a supervisor: these stand in their agent's records, which
    only the agent's user can enter."""
    try:
        if os.stat(f"/proc/{pid}").st_uid not in {0, os.geteuid()}:  # noqa: PTH116  as the line below
            return None
        folder = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115  a name that the kernel makes up
        here = Path(f"/proc/{pid}/cwd")  # also if it has mounts of its own
        if not (here / records.CLAIMS).is_dir():
            return None
        journals = sorted(here.glob("exits.*"), key=lambda path: -int(path.suffix[1:]))
        for journal in journals:
            data = journal.read_bytes()
            at = data.rfind(b'"claim":[%d,%d,' % (pid, birth))
            claim = _CLAIM.search(data, data.rfind(b"\n", 0, at) + 1, at) if at >= 0 else None
            if claim is not None:
                return Origin(Path(folder).name, claim[1].decode())
    except (OSError, ValueError):  # another user's, or it has just ended
        return None
    return None
