"""The store's facts as a picture: at take-over, and whenever the two must be brought together again."""

from dataclasses import replace

from tgpu.control.containment import Containment, JobFaultError, NodeFaultError, about_job, about_node
from tgpu.control.returns import Origins
from tgpu.control.set_aside import keep_room, world_without
from tgpu.core import edge
from tgpu.core.holdings import Holding, hold
from tgpu.core.picture import Picture, Placed
from tgpu.core.policy import Policy
from tgpu.core.populating import populate
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt, TaskBrief
from tgpu.domain.lifecycle import AttemptState, Cause
from tgpu.store.port import Store, World

_TOLD_WHY = (Cause.DEVICE_LOST, Cause.GANG_BROKEN, Cause.GANG_RESTARTED, Cause.DEADLINE, Cause.JOB_FAILED)
"""Causes of which `stop_by` tells what has happened."""


class InconsistentWorldError(Exception):
    """The store holds facts that contradict each other; its text names them."""


def left_behind(world: World) -> list[AttemptId]:
    """Attempts that hold something for a task that goes on without them, or is over: their jobs have to be
    looked up."""
    live = {task.task_id for task in world.tasks}
    return [attempt.attempt_id for attempt in world.attempts if _is_left_behind(attempt, live)]


def _is_left_behind(attempt: Attempt, live: set[TaskId]) -> bool:
    return attempt.stop_cause is Cause.SUPERSEDED or attempt.attempt_id.task_id not in live


async def load(store: Store, policy: Policy, now_ms: int, contained: Containment) -> tuple[World, Picture]:
    """What the store has, without the jobs and nodes that are set aside, also those that turn out to be wrong
    just now: no single row keeps a leader from taking over."""
    world = await store.load()
    contained.set_jobs_aside(world.unreadable.jobs)
    contained.set_nodes_aside(world.unreadable.nodes)
    while True:
        part = world_without(world, contained.jobs)
        try:
            picture = picture_of(part, policy, now_ms, await _origins(store, left_behind(part)))
        except JobFaultError as fault:
            contained.set_jobs_aside({fault.job_id: str(fault.__cause__)})
        except NodeFaultError as fault:
            contained.set_nodes_aside({fault.node_id: str(fault.__cause__)})
            world = replace(world, nodes=[node for node in world.nodes if node.node_id != fault.node_id])
        else:
            keep_room(picture, world, contained.jobs)
            return part, picture


async def _origins(store: Store, names: list[AttemptId]) -> Origins:
    found: Origins = {}
    for job_id in dict.fromkeys(name.job_id for name in names):
        with about_job(job_id):
            found |= await store.origins([name for name in names if name.job_id == job_id])
    return found


def picture_of(world: World, policy: Policy, now_ms: int, origins: Origins) -> Picture:
    """`origins`: those of the attempts that were left behind."""
    picture = Picture(policy)
    picture.now_ms = now_ms
    for tenant in sorted(world.tenants, key=lambda tenant: tenant.tenant_id):
        picture.set_tenant(tenant)
    for node in world.nodes:
        with about_node(node.node_id):
            edge.check_node(node)
    populate(picture, world.nodes)
    for attempt_id in left_behind(world):
        with about_job(attempt_id.job_id):
            attempt, spec = origins[attempt_id].attempt, origins[attempt_id].spec
            request = spec.group_of(attempt_id.task_index).request
            hold(picture, Holding(attempt_id, attempt.node_id, attempt.devices, request, attempt.state))
    live = {it.attempt_id.task_id: it for it in world.attempts if it.attempt_id not in origins}
    for task in world.tasks:
        with about_job(task.task_id.job_id):
            if task.status.waits:
                picture.add_waiting(task)
            else:
                _restore(picture, task, live.get(task.task_id))
    return picture


def _restore(picture: Picture, task: TaskBrief, found: Attempt | None) -> None:
    if found is None:
        raise InconsistentWorldError(f"task {task.task_id} is {task.status} without a live attempt")
    if found.node_id not in picture.places:
        raise InconsistentWorldError(f"task {task.task_id} is on {found.node_id}, which is no node")
    placed = Placed(
        task,
        found.attempt_id,
        found.node_id,
        found.devices,
        found.state,
        found.started_ms,
        found.assigned_ms,
    )
    picture.restore(placed)
    if found.state is AttemptState.STOPPING:
        picture.stopping(placed, found.stop_cause or Cause.CANCELLED)
        if found.stop_cause in _TOLD_WHY:
            placed.stop_detail = found.stop_by or ""
