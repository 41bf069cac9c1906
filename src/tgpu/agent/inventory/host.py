"""Processors, memory and disk, as far as this process may use them: a container's limits count."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20
CGROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
MEMINFO = Path("/proc/meminfo")
NO_LIMIT = 1 << 62


def cpu_milli(cgroups: Path = CGROUPS, own: Path = OWN) -> int:
    """Those we may be scheduled on, or fewer if a cgroup gives us less time than that."""
    allowed = 1000 * len(os.sched_getaffinity(0))
    quotas = [_quota_v2(folder) for folder in _unified(cgroups, own)]
    quotas += [_quota_v1(folder) for folder in _legacy("cpu", cgroups, own)]
    return max(1, min([allowed, *(quota for quota in quotas if quota is not None)]))


def memory_mib(cgroups: Path = CGROUPS, own: Path = OWN) -> int:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [_number(folder / "memory.max") for folder in _unified(cgroups, own)]
    limits += [_number(folder / "memory.limit_in_bytes") for folder in _legacy("memory", cgroups, own)]
    return min([total, *(limit for limit in limits if limit is not None)]) // MIB


def memory_left_mib(cgroups: Path = CGROUPS, own: Path = OWN, meminfo: Path = MEMINFO) -> int:
    """What could be had without anybody's losing something: of the machine, and of groups with a limit."""
    lines = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines())
    left = [int(lines["MemAvailable"].split()[0]) * 1024]
    left += [_left(folder, "memory.max", "memory.current") for folder in _unified(cgroups, own)]
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    left += [_left(folder, *names) for folder in _legacy("memory", cgroups, own)]
    return min(left) // MIB


def _left(folder: Path, limit_file: str, used_file: str) -> int:
    limit, used = _number(folder / limit_file), _number(folder / used_file)
    if limit is None or used is None:
        return NO_LIMIT
    stat = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
    cached = [stat.get(name, "0") for name in ("total_inactive_file", "total_active_file")]
    if not any(map(int, cached)):
        cached = [stat.get(name, "0") for name in ("inactive_file", "active_file")]
    return limit - used + sum(map(int, cached))


def disk_mib(home: Path) -> int:
    """What is free where the home is, or will be."""
    there = next(path for path in (home, *home.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free // MIB


def _own_places(own: Path) -> dict[str, str]:
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    places: dict[str, str] = {}
    for line in lines:
        _, names, place = line.split(":", 2)
        places.update(dict.fromkeys(names.split(","), place))
    return places


def _upwards(mount: Path, place: str | None) -> Iterator[Path]:
    """Our group and all above it; in a container only the mount's root may be visible."""
    if place is not None:
        folder = mount / place.lstrip("/")
        yield from (path for path in (folder, *folder.parents) if path == mount or mount in path.parents)


def _unified(cgroups: Path, own: Path) -> Iterator[Path]:
    return _upwards(cgroups, _own_places(own).get(""))


def _legacy(controller: str, cgroups: Path, own: Path) -> Iterator[Path]:
    return _upwards(cgroups / controller, _own_places(own).get(controller))


def _quota_v2(folder: Path) -> int | None:
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) * 1000 // int(period)


def _quota_v1(folder: Path) -> int | None:
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return None if quota is None or quota < 0 or not period else quota * 1000 // period


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such limit, or `max`
        return None
