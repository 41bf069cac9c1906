"""The store's facts as a picture: at take-over, and whenever the two must be brought together again."""

from tgpu.core.picture import Picture, Placed
from tgpu.core.policy import Policy
from tgpu.domain.lifecycle import AttemptState, Cause
from tgpu.store.port import World


class InconsistentWorldError(Exception):
    """The store holds facts that contradict each other; its text names them."""


def picture_of(world: World, policy: Policy, now_ms: int) -> Picture:
    picture = Picture(policy)
    picture.now_ms = now_ms
    for tenant in sorted(world.tenants, key=lambda tenant: tenant.tenant_id):
        picture.set_tenant(tenant)
    for node in world.nodes:
        picture.set_node(node)
    live = {attempt.attempt_id.task_id: attempt for attempt in world.attempts}
    for task in world.tasks:
        if task.status.waits:
            picture.add_waiting(task)
            continue
        attempt = live.get(task.task_id)
        if attempt is None:
            raise InconsistentWorldError(f"task {task.task_id} is {task.status} without a live attempt")
        placed = Placed(
            task,
            attempt.attempt_id,
            attempt.node_id,
            attempt.devices,
            attempt.state,
            attempt.started_ms,
            attempt.assigned_ms,
        )
        picture.restore(placed)
        if attempt.state is AttemptState.STOPPING:
            picture.stopping(placed, attempt.stop_cause or Cause.CANCELLED)
    return picture
