"""The store's facts as a picture: at take-over, and whenever the two must be brought together again."""

from tgpu.control.returns import Origins
from tgpu.core.holdings import Holding, hold
from tgpu.core.picture import Picture, Placed
from tgpu.core.policy import Policy
from tgpu.core.populating import populate
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt
from tgpu.domain.lifecycle import AttemptState, Cause
from tgpu.store.port import World

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


def picture_of(world: World, policy: Policy, now_ms: int, origins: Origins) -> Picture:
    """`origins`: those of the attempts that were left behind."""
    picture = Picture(policy)
    picture.now_ms = now_ms
    for tenant in sorted(world.tenants, key=lambda tenant: tenant.tenant_id):
        picture.set_tenant(tenant)
    populate(picture, world.nodes)
    for attempt_id in left_behind(world):
        attempt, spec = origins[attempt_id].attempt, origins[attempt_id].spec
        request = spec.group_of(attempt_id.task_index).request
        hold(picture, Holding(attempt_id, attempt.node_id, attempt.devices, request, attempt.state))
    live = {it.attempt_id.task_id: it for it in world.attempts if it.attempt_id not in origins}
    for task in world.tasks:
        if task.status.waits:
            picture.add_waiting(task)
            continue
        found = live.get(task.task_id)
        if found is None:
            raise InconsistentWorldError(f"task {task.task_id} is {task.status} without a live attempt")
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
    return picture
