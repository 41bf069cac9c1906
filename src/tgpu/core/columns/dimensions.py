"""What is counted: the columns that amounts have, in the order the kernel knows them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tgpu.core.kernel.shapes import Ints
from tgpu.domain.job import Request
from tgpu.domain.node import Capacity
from tgpu.domain.tenant import Amounts, Limits

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

    def amounts(self, amounts: Amounts) -> Ints:
        row = np.zeros(self.of_tenants, dtype=np.int64)
        row[:BASIC] = (amounts.cpu_milli, amounts.memory_mib, amounts.disk_mib)
        row[self.gpu] = amounts.gpu_milli
        return row

    def limits(self, limits: Limits) -> Ints:
        row = np.full(self.of_tenants, -1, dtype=np.int64)
        for column, limit in (
            (0, limits.cpu_milli),
            (1, limits.memory_mib),
            (2, limits.disk_mib),
            (self.gpu, limits.gpu_milli),
        ):
            if limit is not None:
                row[column] = limit
        return row


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
