"""A gang runs whole or not at all."""

from collections.abc import Iterator

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import AttemptState, Status
from tgpu.sim.facts import Run, Watcher
from tgpu.sim.world import World

SOON_S = 20.0
"""Grace, orders that were lost on their way and said again, and a node that comes back."""

_BROKEN = (Status.FAILED, Status.CANCELLED)


class GangsRunWhole(Watcher):
    """None of it starts before all of it is ready. And one that is not repaired is soon stopped where it can
    be reached, once a part of it waits again or has failed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._state = world.store.state
        self._since: dict[int, float] = {}

    def process_started(self, run: Run) -> Iterator[str]:
        job = self._state.jobs[run.attempt_id.job_id]
        attempt = self._state.attempt(run.attempt_id)
        if job.spec.gang is None or attempt is None or attempt.state is not AttemptState.ASSIGNED:
            return  # it was lost, or is being stopped: what becomes of the others does not concern it
        for task_id, task in self._state.tasks_of(job.job_id):
            if task.status.waits:
                yield f"{run.attempt} starts, and {task_id} of its gang has no node"
            elif task.status.holds_resources and not self._was_ready(task_id, task.attempts):
                yield f"{run.attempt} starts, and {task_id} of its gang is not ready"

    def _was_ready(self, task_id: TaskId, number: int) -> bool:
        return str(task_id.attempt(number)) in self._world.facts.prepared

    def now_and_then(self) -> Iterator[str]:
        now, torn = self._world.loop.time(), dict(self._torn())
        self._since = {job_id: self._since.get(job_id, now) for job_id in torn}
        for job_id, since in self._since.items():
            if now - since > SOON_S:
                yield f"{torn[job_id]} runs in part since {since:.1f}"

    def _torn(self) -> Iterator[tuple[int, str]]:
        leader, network = self._world.leader, self._world.network
        for run in self._world.facts.live.values():
            job = self._state.jobs[run.attempt_id.job_id]
            reachable = leader is not None and leader.hub.is_settled(run.node_id)
            if reachable and not network.is_cut_off(run.node_id) and self._is_torn(job):
                yield job.job_id, run.attempt

    def _is_torn(self, job: Job) -> bool:
        if job.spec.gang is None or not job.spec.fail_together:
            return False
        statuses = [task.status for _, task in self._state.tasks_of(job.job_id)]
        return any(status.waits or status in _BROKEN for status in statuses)
