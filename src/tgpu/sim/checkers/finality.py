"""A job ends in exactly one final state, and what was said of its end is never said differently."""

from collections.abc import Iterator
from dataclasses import replace

from tgpu.domain.job import Job
from tgpu.domain.lifecycle import AttemptHappening
from tgpu.sim.facts import Watcher
from tgpu.store.memory_state import State
from tgpu.store.port import Batch, Receipt


class FinalIsFinal(Watcher):
    """An attempt that its job left behind may be gone later; the job is not concerned."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._final: dict[int, Job] = {}

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch, batch
        moves = [event for event in receipt.events if event.kind != AttemptHappening.GONE]
        for job_id in dict.fromkeys(event.job_id for event in moves):
            if job_id in self._final:
                yield f"something happened to job {job_id} after its end"
            elif self._state.jobs[job_id].status.is_final:
                self._final[job_id] = self._state.jobs[job_id]

    def now_and_then(self) -> Iterator[str]:
        for job_id, job in self._final.items():
            now = self._state.jobs.get(job_id)
            if now is not job and (now is None or _without_tenant(now) != _without_tenant(job)):
                yield f"job {job_id} was {job.status} and has changed since"


def _without_tenant(job: Job) -> Job:
    """That may get another name, and its jobs with it."""
    return replace(job, spec=replace(job.spec, tenant_id=""))
