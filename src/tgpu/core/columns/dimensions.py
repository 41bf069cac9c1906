"""What is counted: the columns that amounts have, in the order the kernel knows them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tgpu.domain.job import Request
from tgpu.domain.node import Capacity

BASIC = 3
"""CPU, memory, disk; then the nodes' generic resources."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    generic: tuple[str, ...]
    """Generic resources of nodes, sorted."""
    cluster: tuple[str, ...]
    """Generic resources of the cluster, sorted."""
    devices: int
    """The most devices that a node has."""

    @property
    def of_nodes(self) -> int:
        return BASIC + len(self.generic)

    @property
    def of_tenants(self) -> int:
        return self.of_nodes + 1 + len(self.cluster)

    @property
    def gpu(self) -> int:
        """Where a tenant's GPUs are counted."""
        return self.of_nodes

    def need(self, request: Request) -> list[int]:
        basic = [request.cpu_milli, request.memory_mib, request.disk_mib]
        if not self.generic:
            return basic
        asked = dict(request.generic)
        return basic + [asked.get(name, 0) for name in self.generic]

    def cluster_need(self, request: Request) -> list[int]:
        asked = dict(request.generic)
        return [asked.get(name, 0) for name in self.cluster]

    def capacity(self, capacity: Capacity, cpu_factor: int, memory_factor: int) -> list[int]:
        """`factor`s are overcommitment, in thousandths."""
        basic = [
            capacity.cpu_milli * cpu_factor // 1000,
            capacity.memory_mib * memory_factor // 1000,
            capacity.disk_mib,
        ]
        return basic + [capacity.generic.get(name, 0) for name in self.generic]


def dimensions_of(
    capacities: Iterable[Capacity], requests: Iterable[Request], cluster_generic: Mapping[str, int]
) -> Dimensions:
    names: set[str] = set()
    devices = 0
    for capacity in capacities:
        names.update(capacity.generic)
        devices = max(devices, len(capacity.devices))
    for request in requests:
        if request.generic:
            names.update(name for name, _ in request.generic)
    return Dimensions(tuple(sorted(names - cluster_generic.keys())), tuple(sorted(cluster_generic)), devices)
