"""A node that is gone for good: its tasks are given up in time, and run elsewhere where there is room."""

from collections.abc import Iterator

from tgpu.domain.job import Job, Request
from tgpu.domain.lifecycle import Status
from tgpu.domain.quota import JobLimits, Limits
from tgpu.domain.tenant import lineage
from tgpu.sim.facts import Watcher
from tgpu.sim.machine import Machine
from tgpu.sim.world import World

GIVEN_UP_S = 24.0
"""Take-over of another server, 7 s; the loss time, 15 s; a tick and a turn."""
REPLACED_S = 30.0
AT_ONCE_S = 3.0
"""A machine is free as soon as its last process has ended; the leader has to hear of it first."""


class LostIsReplaced(Watcher):
    """Judged only where nothing else goes wrong, apart from the leader's death at the same moment."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._state = world.store.state
        self._lost: dict[int, int] = {}
        """By job: the attempt that was on such a node."""
        self._since: dict[str, float] = {}
        """What could be otherwise, and since when."""

    def now_and_then(self) -> Iterator[str]:
        now = self._world.loop.time()
        for node_id, since in self._world.facts.gone.items():
            for attempt in self._state.live_attempts():
                if attempt.node_id == node_id and attempt.assigned_ms < 1000 * since:
                    self._lost[attempt.attempt_id.job_id] = attempt.attempt_id.number
                    if now - since > GIVEN_UP_S and not self._awaits_word(attempt.attempt_id.job_id):
                        late = f"{now - since:.1f} s after {node_id} died"
                        yield f"{attempt.attempt_id} still counts as live {late}"
            waiting = [job for job in self._state.jobs.values() if job.status.waits]
            stuck = self._stuck(waiting[0], node_id) if len(waiting) == 1 else ()
            self._since = {text: self._since.get(text, now) for text in stuck}
            if now - since > REPLACED_S:
                yield from (text for text, at in self._since.items() if now - at > AT_ONCE_S)

    def _awaits_word(self, job_id: int) -> bool:
        """A gang cannot start again once some of it is over: the last word of the others is waited for."""
        return self._state.jobs[job_id].spec.gang is not None and any(
            task.status.is_final for _, task in self._state.tasks_of(job_id)
        )

    def _is_limited(self, job: Job) -> bool:
        tenants = [self._state.tenants[name] for name in lineage(job.spec.tenant_id)]
        return any((each.limits, each.job_limits) != (Limits(), JobLimits()) for each in tenants)

    def _stuck(self, job: Job, gone: str) -> Iterator[str]:
        """The only one that waits, and there is a machine with nothing to do that would suit it."""
        if job.spec.gang is not None:
            return  # it needs several places at once
        if job.status is not Status.PENDING or self._lost.get(job.job_id) != job.attempts:
            return
        if self._is_limited(job):
            return  # its tenant may be full by now
        busy = {attempt.node_id for attempt in self._state.live_attempts()} | {gone}
        for machine in self._world.machines:
            idle = machine.node_id not in busy and not machine.live
            if idle and _would_fit(machine, job.spec.groups[0].request):
                yield f"job {job.job_id} was on {gone}, waits on, and {machine.node_id} has nothing to do"


def _would_fit(machine: Machine, request: Request) -> bool:
    has = machine.capacity
    usable = [device for device in has.devices if device.is_usable]
    suits = [device for device in usable if request.gpu_type in (None, device.model)]
    return (
        request.cpu_milli <= has.cpu_milli
        and request.memory_mib <= has.memory_mib
        and request.gpu_milli <= 1000 * len(suits)
    )
