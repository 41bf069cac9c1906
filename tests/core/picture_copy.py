"""The same world once more, in which some tasks ask for something else."""

from collections.abc import Mapping
from dataclasses import replace

from tgpu.core.advice import advised
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.tenant import Tenant, is_within
from tgpu.domain.views import Advice


def copied(picture: Picture, changed: Mapping[TaskId, TaskBrief]) -> Picture:
    copy = Picture(picture.policy)
    copy.now_ms = picture.now_ms
    for place in picture.places.values():
        copy.set_node(place.node)
        copy.set_reachable(place.node.node_id, place.reachable)
    for tenant in picture.tenants.values():
        copy.set_tenant(replace(tenant, job_use=replace(tenant.job_use, gpu_ms=_gpu_ms(picture, tenant))))
    copy.set_windows(picture.windows)
    for placed in picture.placed.values():
        copy.restore(replace(placed))
    for task_id, task in picture.waiting.items():
        copy.add_waiting(changed.get(task_id, task))
    for preempt in picture.preempts:
        copy.preempt(preempt)
    copy.settle(Plan(copy.version, reservations=picture.reservations))
    return copy


def _gpu_ms(picture: Picture, tenant: Tenant) -> int:
    """As the store would say: it does not know of claims."""
    claimed = [picture.waiting[task_id] for task_id in picture.claims]
    below = [task for task in claimed if is_within(task.tenant_id, tenant.tenant_id)]
    return picture.hours.used.get(tenant.tenant_id, 0) - sum(map(picture.policy.gpu_ms, below))


def as_advised(picture: Picture, task_id: TaskId, advice: Advice) -> Picture:
    """The task, or every task of its gang, has taken the advice."""
    task = picture.waiting[task_id]
    whole = [task_id] if task.gang is None else list(picture.gangs.of(task_id.job_id).waiting)
    return copied(picture, {each: advised(picture.waiting[each], advice) for each in whole})
