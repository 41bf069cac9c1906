"""What users asked for, brought into the picture: new tasks wait, cancelled ones are closed or stopped."""

from dataclasses import replace

from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import AttemptState, Cause, Happening
from tgpu.store.port import Changes, StopOrdered, TaskClosed


def take_in(picture: Picture, changes: Changes, turn: Turn) -> None:
    for tenant in changes.tenants:
        picture.set_tenant(tenant)
    for task in changes.submitted:
        if task.task_id not in picture.waiting and task.task_id not in picture.placed:
            picture.add_waiting(task)
            if task.cancel_by is not None:
                cancel(picture, task.task_id, task.cancel_by, turn)
    for asked in changes.cancels:
        for index in range(asked.tasks):
            cancel(picture, TaskId(asked.job_id, index), asked.by, turn, now=asked.now)


def cancel(picture: Picture, task_id: TaskId, by: str, turn: Turn, *, now: bool = False) -> None:
    """A waiting task is closed at once; a placed one is stopped, and closed when its node says so. `now`: it
    has no grace any more; a stop that was ordered already is said again with that."""
    if task_id in picture.waiting:
        picture.closed(picture.remove_waiting(task_id))
        turn.batch.closed.append(
            TaskClosed(task_id, Happening.CANCELLED, Cause.CANCELLED, f"cancelled by {by}")
        )
        return
    placed = picture.placed.get(task_id)
    if placed is None:
        return
    task = placed.task
    placed.task = replace(task, cancel_by=task.cancel_by or by, grace_s=0 if now else task.grace_s)
    if placed.state is AttemptState.STOPPING:
        if now and placed.stop_cause is not None:
            picture.stopping(placed, placed.stop_cause)
    else:
        picture.stopping(placed, Cause.CANCELLED)
        turn.batch.stop_ordered.append(StopOrdered(placed.attempt_id, Cause.CANCELLED, by))
