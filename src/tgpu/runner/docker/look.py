"""Looks at containers: by their cgroups, to which the engine leads, or else by what the engine counts."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tgpu.runner.cgroups import files
from tgpu.runner.cgroups.detect import groups_of, mounts_of
from tgpu.runner.docker.engine import Engine, EngineAwayError, EngineRefusedError, Json
from tgpu.runner.docker.keeper import Keeper, NoEngineError
from tgpu.runner.look import Look
from tgpu.runner.look_groups import NS_IN_US, look_at_group
from tgpu.runner.look_tree import completed, members_of
from tgpu.runner.records import birth_of

PROC = "/proc"
ENGINE_S = 5.0
"""So long an engine may take to answer for all containers of one round."""
_CONTROLLERS = ("cpu", "cpuacct", "memory")
_RECEIVED, _SENT = 0, 8
"""In a line of /proc/net/dev, behind the name."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a container's first process is, and the groups around it."""

    pid: int
    birth: int | None
    version: int
    folders: dict[str, str]
    own_network: bool

    def is_there(self) -> bool:
        return birth_of(self.pid) == self.birth


class ContainerLooks:
    """The engine is asked once for each container, if that leads to its cgroup, and not at every look."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._places: dict[str, _Place] = {}
        """By the container's name."""

    async def look(self, names: Mapping[str, str]) -> dict[str, Look]:
        """`names`: of the containers, by attempt. One that is over, or whose engine is away, is left out."""
        known = {attempt: self._places[name] for attempt, name in names.items() if name in self._places}
        looks = await asyncio.to_thread(_look_at, known) if known else {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ENGINE_S):
                for attempt, name in names.items():
                    if attempt not in looks and self._keeper.is_present:
                        self._places.pop(name, None)
                        if (found := await self._first_look(name)) is not None:
                            looks[attempt] = found
        return looks

    def first_process(self, name: str) -> int:
        """As it was found at a look; 0: it has not been looked at, or is not of this machine."""
        place = self._places.get(name)
        return place.pid if place is not None and place.is_there() else 0

    def forget(self, name: str) -> None:
        self._places.pop(name, None)

    async def _first_look(self, name: str) -> Look | None:
        try:
            engine, _ = await self._keeper.engine(0)
            place = await _place(engine, name)
            if place is None:
                return look_in_words(await engine.stats(name))
        except (EngineAwayError, EngineRefusedError, NoEngineError):
            return None
        self._places[name] = place
        return (await asyncio.to_thread(_look_at, {name: place})).get(name)


async def _place(engine: Engine, name: str) -> _Place | None:
    """None: its processes are not of this machine, or their groups are out of our sight."""
    inspected = await engine.inspect(name)
    pid = 0 if inspected is None else int(inspected["State"].get("Pid") or 0)
    return await asyncio.to_thread(place_of, pid) if pid and engine.is_local else None


def place_of(pid: int, proc: str = PROC) -> _Place | None:
    try:
        groups, mounts = groups_of(f"{proc}/{pid}/cgroup"), list(mounts_of(f"{proc}/self/mounts"))
        own_network = not _same_network(pid, proc)
    except OSError:
        return None
    folders = {
        name: f"{mount.folder}{groups[name]}"
        for mount in mounts
        for name in _CONTROLLERS
        if mount.kind == "cgroup" and name in mount.options and name in groups
    }
    version = 1 if "memory" in folders else 2
    if version == 2:  # noqa: PLR2004  as its name says
        unified = [mount.folder for mount in mounts if mount.kind == "cgroup2"]
        folders = {"": f"{unified[0]}{groups['']}"} if unified and "" in groups else {}
    if not folders or pid not in files.members(_tracker(version, folders)):
        return None
    return _Place(pid, birth_of(pid), version, folders, own_network)


def _tracker(version: int, folders: dict[str, str]) -> str:
    return folders["memory" if version == 1 else ""]


def _same_network(pid: int, proc: str) -> bool:
    ours, theirs = Path(f"{proc}/self/ns/net"), Path(f"{proc}/{pid}/ns/net")
    return ours.readlink() == theirs.readlink()


def _look_at(places: Mapping[str, _Place]) -> dict[str, Look]:
    looks = {}
    for name, place in places.items():
        if not place.is_there():
            continue
        look = look_at_group(place.version, place.folders)
        look = completed(look, members_of(_tracker(place.version, place.folders)))
        if place.own_network:
            received, sent = traffic(files.read(f"{PROC}/{place.pid}/net/dev"))
            look = look._replace(net_received_bytes=received, net_sent_bytes=sent)
        looks[name] = look
    return looks


def traffic(text: str) -> tuple[int, int]:
    """Received and sent, over all its interfaces but the one to itself."""
    received = sent = 0
    for line in text.split("\n"):
        name, colon, rest = line.partition(":")
        if colon and name.strip() != "lo":
            numbers = rest.split()
            received += int(numbers[_RECEIVED])
            sent += int(numbers[_SENT])
    return received, sent


def look_in_words(stats: Json) -> Look | None:
    """Of the engine's own count, in whichever version of cgroups it counts; None: it does not run."""
    cpu, memory = stats.get("cpu_stats") or {}, stats.get("memory_stats") or {}
    used = (cpu.get("cpu_usage") or {}).get("total_usage")
    if not used or "usage" not in memory:
        return None
    held, kept = cpu.get("throttling_data") or {}, memory.get("stats") or {}
    spare = int(kept.get("total_inactive_file", kept.get("inactive_file", 0)))
    networks = list((stats.get("networks") or {}).values())
    return Look(
        cpu_us=int(used) // NS_IN_US,
        periods=held.get("periods"),
        throttled=held.get("throttled_periods"),
        memory_bytes=max(0, int(memory["usage"]) - spare),
        cache_bytes=kept.get("total_cache", kept.get("file")),
        disk_read_bytes=_blocks(stats, "read"),
        disk_written_bytes=_blocks(stats, "write"),
        net_received_bytes=sum(int(each["rx_bytes"]) for each in networks) if networks else None,
        net_sent_bytes=sum(int(each["tx_bytes"]) for each in networks) if networks else None,
    )


def _blocks(stats: Json, op: str) -> int | None:
    told: list[dict[str, Any]] | None = (stats.get("blkio_stats") or {}).get("io_service_bytes_recursive")
    if told is None:
        return None
    return sum(int(each["value"]) for each in told if str(each.get("op", "")).lower() == op)
