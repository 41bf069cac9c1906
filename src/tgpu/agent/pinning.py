"""Which CPUs are next to a task's GPUs: those of the same NUMA node, where that is known and worth it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tgpu.domain.node import Device

NUMA_NODES = Path("/sys/devices/system/node")


def cpus_next_to(
    given: Sequence[int], devices: Sequence[Device], numa: Mapping[int, frozenset[int]], cpu_milli: int
) -> tuple[int, ...]:
    """None where it would not help, or would hurt: a task may have asked for more CPUs than are there.

    `given`: indices of its GPUs. `numa`: the CPUs that we may use, by NUMA node.
    """
    places = {device.numa_node for device in devices if device.index in given}
    place = places.pop() if len(places) == 1 else None
    if len(numa) <= 1 or place is None:
        return ()
    cpus = numa.get(place, frozenset())
    return tuple(sorted(cpus)) if 1000 * len(cpus) >= cpu_milli else ()


def numa_cpus(allowed: frozenset[int], folder: Path = NUMA_NODES) -> dict[int, frozenset[int]]:
    """Nodes without CPUs that are ours (memory alone, or another's) are left out."""
    found: dict[int, frozenset[int]] = {}
    for path in folder.glob("node[0-9]*"):
        try:
            cpus = listed((path / "cpulist").read_text(encoding="ascii")) & allowed
        except (OSError, ValueError):
            continue
        if cpus:
            found[int(path.name.removeprefix("node"))] = cpus
    return found


def listed(text: str) -> frozenset[int]:
    """`0-3,8` → 0, 1, 2, 3, 8."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)
