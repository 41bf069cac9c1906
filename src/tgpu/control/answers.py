"""What the live picture can tell: why a task waits, who holds what, how the queues stand."""

import asyncio
from collections.abc import Sequence

from tgpu.control.hub import Hub
from tgpu.control.loop import Control
from tgpu.core.explain import explain, never_fits
from tgpu.core.picture import Picture, Place
from tgpu.core.queue_line import task_of
from tgpu.core.room import WHOLE_GPU
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.priority import PriorityClass
from tgpu.domain.tenant import Amounts
from tgpu.domain.views import DeviceView, NodeView, QueueView, Why
from tgpu.store.port import Store


class NotLeadingError(Exception):
    """There is no picture to ask yet."""


class Answers:
    def __init__(self, control: Control, hub: Hub, store: Store) -> None:
        self._control = control
        self._hub = hub
        self._store = store

    @property
    def _picture(self) -> Picture:
        if not self._control.leads:
            raise NotLeadingError("the scheduler is starting: try again shortly")
        return self._control.picture

    async def why(self, job_id: int) -> Why | None:
        return explain(self._picture, self._control.policy, TaskId(job_id, 0))

    async def never_fits(self, requests: Sequence[Request]) -> list[str | None]:
        """Judged once per kind of request: a bulk of 10,000 alike costs one look."""
        picture = self._picture
        if len(requests) == 1:
            return [never_fits(requests[0], picture)]
        verdicts = {request: never_fits(request, picture) for request in set(requests)}
        return [verdicts[request] for request in requests]

    async def nodes(self) -> list[NodeView]:
        now = asyncio.get_running_loop().time()
        return [self._node(place, now) for place in self._picture.places.values()]

    def _node(self, place: Place, now: float) -> NodeView:
        node_id = place.node.node_id
        use = self._hub.use.get(node_id)
        requests = [placed.task.request for placed in place.attempts.values()]
        return NodeView(
            node=place.node,
            allocated=_amounts(requests),
            devices=tuple(self._device(place, position) for position in range(len(place.room.gpu_free))),
            running=tuple(place.attempts),
            silent_s=None if place.reachable else round(now - self._hub.heard.get(node_id, now), 1),
            used_cpu_milli=use.cpu_milli if use else None,
            used_memory_mib=use.memory_mib if use else None,
        )

    def _device(self, place: Place, position: int) -> DeviceView:
        index = place.node.capacity.devices[position].index
        use = self._hub.use.get(place.node.node_id)
        holders = [
            (placed.task.task_id.job_id, placed.task.user)
            for placed in place.attempts.values()
            if index in placed.devices
        ]
        measured = use is not None and position < len(use.gpu_percent)
        return DeviceView(
            index=index,
            allocated_milli=WHOLE_GPU - place.room.gpu_free[position],
            holders=tuple(holders),
            busy_percent=use.gpu_percent[position] if use and measured else None,
            memory_used_mib=use.gpu_memory_mib[position] if use and measured else None,
        )

    async def queues(self) -> list[QueueView]:
        """Every tenant and class with somebody waiting; the head is the one served first."""
        picture = self._picture
        weights = {tenant.tenant_id: tenant.weight for tenant in await self._store.tenants()}
        groups: dict[tuple[str, PriorityClass], list[TaskBrief]] = {}
        for task in picture.waiting.values():
            groups.setdefault((task.tenant_id, task.priority_class), []).append(task)
        views = []
        for (tenant_id, priority_class), tasks in sorted(groups.items()):
            head = task_of(min(map(picture.key, tasks)))
            share = _dominant_share(picture, tenant_id) / weights.get(tenant_id, 1)
            views.append(QueueView(tenant_id, priority_class, len(tasks), head.job_id, round(share, 6)))
        return views


def _amounts(requests: Sequence[Request]) -> Amounts:
    return Amounts(
        cpu_milli=sum(request.cpu_milli for request in requests),
        memory_mib=sum(request.memory_mib for request in requests),
        disk_mib=sum(request.disk_mib for request in requests),
        gpu_milli=sum(request.gpu_milli for request in requests),
    )


def _dominant_share(picture: Picture, tenant_id: str) -> float:
    """The largest of the tenant's parts of all CPUs, memory, disk and GPUs."""
    used = _amounts([p.task.request for p in picture.placed.values() if p.task.tenant_id == tenant_id])
    capacities = [place.node.capacity for place in picture.places.values()]
    pairs = (
        (used.cpu_milli, sum(capacity.cpu_milli for capacity in capacities)),
        (used.memory_mib, sum(capacity.memory_mib for capacity in capacities)),
        (used.disk_mib, sum(capacity.disk_mib for capacity in capacities)),
        (used.gpu_milli, sum(capacity.gpu_milli for capacity in capacities)),
    )
    return max(part / whole if whole else 0.0 for part, whole in pairs)
