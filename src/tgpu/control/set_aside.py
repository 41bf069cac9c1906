"""The store's facts without the jobs that are set aside, and the room that these keep on their nodes."""

from collections.abc import Collection
from dataclasses import replace

from tgpu.core import edge
from tgpu.core.holdings import Holding, hold
from tgpu.core.picture import Picture
from tgpu.domain.job import Attempt, Request, TaskBrief
from tgpu.store.port import Changes, World

_WHOLE = 1000


def world_without(world: World, jobs: Collection[int]) -> World:
    if not jobs:
        return world
    return replace(
        world,
        tasks=[task for task in world.tasks if task.task_id.job_id not in jobs],
        attempts=[attempt for attempt in world.attempts if attempt.attempt_id.job_id not in jobs],
        needs=[need for need in world.needs if need.job_id not in jobs],
        series=[job for job in world.series if job.job_id not in jobs],
        restarts=[asked for asked in world.restarts if asked.job_id not in jobs],
    )


def changes_without(changes: Changes, jobs: Collection[int]) -> Changes:
    if not jobs:
        return changes
    return replace(
        changes,
        submitted=[task for task in changes.submitted if task.task_id.job_id not in jobs],
        altered=[task for task in changes.altered if task.task_id.job_id not in jobs],
        needs=[need for need in changes.needs if need.job_id not in jobs],
        series=[job for job in changes.series if job.job_id not in jobs],
        restarts=[asked for asked in changes.restarts if asked.job_id not in jobs],
        cancels=[asked for asked in changes.cancels if asked.job_id not in jobs],
        tasks_cancelled=[asked for asked in changes.tasks_cancelled if asked.job_id not in jobs],
        suspended=[job_id for job_id in changes.suspended if job_id not in jobs],
    )


def keep_room(picture: Picture, world: World, jobs: Collection[int]) -> None:
    """What runs of these jobs runs on: nothing else is given its room."""
    tasks = {task.task_id: task for task in world.tasks if task.task_id.job_id in jobs}
    for attempt in world.attempts:
        if attempt.attempt_id.job_id in jobs and attempt.node_id in picture.places:
            request = _request(attempt, tasks.get(attempt.attempt_id.task_id))
            name, node_id, devices = attempt.attempt_id, attempt.node_id, attempt.devices
            hold(picture, Holding(name, node_id, devices, request, attempt.state, stays=True))


def _request(attempt: Attempt, task: TaskBrief | None) -> Request:
    """Its devices as a whole, if nothing else can be read of it."""
    if task is not None:
        try:
            edge.check_task(task)
        except edge.BadPictureError:
            pass
        else:
            return task.request
    return Request(0, 0, 0, _WHOLE * len(attempt.devices))
