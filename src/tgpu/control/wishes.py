"""What users asked for, brought into the picture: new tasks wait, cancelled ones are closed or stopped."""

from dataclasses import replace

from tgpu.control.containment import about_job
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import AttemptState, Cause, Happening
from tgpu.store.port import Changes, StopOrdered, TaskClosed


def take_in(picture: Picture, changes: Changes, turn: Turn) -> None:
    for tenant in changes.tenants:
        picture.set_tenant(tenant)
    for task in changes.submitted:
        with about_job(task.task_id.job_id):
            _submitted(picture, task, turn)
    for task in changes.altered:
        with about_job(task.task_id.job_id):
            alter(picture, task)
    turn.series.begin(changes.series, changes.submitted)
    for asked in changes.cancels:
        for task_id in turn.series.tasks_of(asked.job_id, asked.tasks):
            cancel(picture, task_id, asked.by, turn, now=asked.now)


def _submitted(picture: Picture, task: TaskBrief, turn: Turn) -> None:
    if not is_known(picture, task.task_id):
        picture.add_waiting(task)
        if task.cancel_by is not None:
            cancel(picture, task.task_id, task.cancel_by, turn)


def is_known(picture: Picture, task_id: TaskId) -> bool:
    return task_id in picture.waiting or task_id in picture.placed or task_id in picture.parked


def alter(picture: Picture, task: TaskBrief) -> None:
    """Its job was held, released or edited. What runs goes on as it was begun, and is held once it waits."""
    placed = picture.placed.get(task.task_id)
    if placed is not None:
        placed.task = replace(placed.task, timing=_as_met(task, placed.task).timing)
    elif task.task_id in picture.parked:
        picture.add_waiting(_as_met(task, picture.parked.take(task.task_id)))
    elif task.task_id in picture.waiting:
        picture.add_waiting(_as_met(task, picture.remove_waiting(task.task_id)))


def _as_met(task: TaskBrief, before: TaskBrief) -> TaskBrief:
    """Once met, a need stays met: index by index, the leader knows it of tasks, the store only of jobs."""
    timing, was = task.timing, before.timing
    if timing is None or not timing.unmet or (was is not None and was.unmet):
        return task
    return replace(task, timing=replace(timing, unmet=False))


def take_out(picture: Picture, task_id: TaskId) -> bool:
    """A task that waits is over; False: it does not wait."""
    if task_id in picture.waiting:
        picture.closed(picture.remove_waiting(task_id))
        return True
    if task_id not in picture.parked:
        return False
    task = picture.parked.take(task_id)
    if picture.gangs.get(task_id.job_id) is not None:  # others of it run on
        picture.closed(task)
    return True


def cancel(picture: Picture, task_id: TaskId, by: str, turn: Turn, *, now: bool = False) -> None:
    """A waiting task is closed at once; a placed one is stopped, and closed when its node says so. `now`: it
    has no grace any more; a stop that was ordered already is said again with that."""
    if take_out(picture, task_id):
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
