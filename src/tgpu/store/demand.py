"""What work asks of each tenant it concerns: its own and every one above."""

from collections.abc import Iterable

from tgpu.domain.job import JobSpec, Request
from tgpu.domain.tenant import Amounts, lineage


def the_request(spec: JobSpec) -> Request:
    """What the one task of a job reserves; jobs of several tasks are not admitted yet."""
    (group,) = spec.groups
    return group.request


def demand_by_tenant(work: Iterable[tuple[str, Request]]) -> dict[str, Amounts]:
    """The sums for (tenant, request) pairs, a parent before its children.

    A request by GPU memory alone adds no GPUs: how much of one it takes depends on the device that it gets,
    and the quota is charged before that is known.
    """
    own: dict[str, tuple[int, int, int, int]] = {}
    for tenant_id, request in work:
        cpu, memory, disk, gpu = own.get(tenant_id, (0, 0, 0, 0))
        own[tenant_id] = (
            cpu + request.cpu_milli,
            memory + request.memory_mib,
            disk + request.disk_mib,
            gpu + request.gpu_milli,
        )
    total: dict[str, Amounts] = {}
    for tenant_id, sums in own.items():
        for ancestor in lineage(tenant_id):
            total[ancestor] = total.get(ancestor, Amounts()).plus(Amounts(*sums))
    return dict(sorted(total.items()))
