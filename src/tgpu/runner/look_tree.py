"""What the processes of a task tell one by one, where no cgroup tells it of all together."""

import os
from collections.abc import Mapping, Sequence

from tgpu.runner import tree
from tgpu.runner.cgroups import files
from tgpu.runner.look import Look

MOST_PROCESSES = 256
"""Of one task; of more than these the first ones are looked at: a look must stay cheap."""
KIB = 1024
_US_IN_S = 1_000_000
_TICKS_IN_S = os.sysconf("SC_CLK_TCK")
_TIMES = slice(11, 15)
"""In /proc/PID/stat behind the name: of the process and of the children it has waited for."""


class Families:
    """Who descends from whom: read once for a whole round of looks, where that takes a walk over all."""

    def __init__(self) -> None:
        self._children = tree.families()

    def of(self, supervisor: int) -> list[int]:
        return tree.descendants(supervisor, self._children)[:MOST_PROCESSES]


def members_of(folder: str) -> list[int]:
    """Of a cgroup; the first of them, if they are very many."""
    return [int(word) for word in files.read(f"{folder}/cgroup.procs").split()[:MOST_PROCESSES]]


def completed(look: Look, members: Sequence[int]) -> Look:
    """With what it does not tell yet, added up over these processes. Of CPU and disks, children that were
    waited for count for whoever waited."""
    if look.cpu_us is None:
        look = look._replace(cpu_us=sum(map(_cpu_us, members)))
    if look.disk_read_bytes is None:
        read, written = _disks(members)
        look = look._replace(disk_read_bytes=read, disk_written_bytes=written)
    if look.memory_bytes is None:
        look = _with_memory(look, members)
    return look


def _cpu_us(pid: int) -> int:
    text = files.read(f"/proc/{pid}/stat")
    ticks = text[text.rfind(")") + 2 :].split()[_TIMES]
    return sum(map(int, ticks)) * _US_IN_S // _TICKS_IN_S


def _disks(pids: Sequence[int]) -> tuple[int | None, int | None]:
    """Nothing of those whom we may not ask: another user's, to an agent that is not root."""
    told = [said for said in (_pairs(f"/proc/{pid}/io") for pid in pids) if said]
    if not told:
        return None, None
    return sum(said["read_bytes"] for said in told), sum(said["write_bytes"] for said in told)


def _with_memory(look: Look, pids: Sequence[int]) -> Look:
    """What is shared among processes counts once: as much as the one that has most of it."""
    told = [_pairs(f"/proc/{pid}/status") for pid in pids]
    own = sum(said.get("RssAnon", 0) for said in told)
    shared = max((said.get("RssShmem", 0) for said in told), default=0)
    swap = sum(said.get("VmSwap", 0) for said in told)
    return look._replace(memory_bytes=(own + shared) * KIB, swap_bytes=swap * KIB)


def _pairs(path: str) -> Mapping[str, int]:
    """Of lines `name: number …`."""
    found = {}
    for line in files.read(path).split("\n"):
        name, _, rest = line.partition(":")
        value = rest.split(None, 1)[:1]
        if value and value[0].isdigit():
            found[name] = int(value[0])
    return found
