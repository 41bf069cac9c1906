"""An acknowledged job is never lost, and once faults are over it comes to an end."""

from collections.abc import Iterator

from tgpu.sim.facts import Facts, Watcher
from tgpu.store.memory_state import State


class AcknowledgedIsNeverLost(Watcher):
    def __init__(self, facts: Facts, state: State) -> None:
        self._facts = facts
        self._state = state

    def now_and_then(self) -> Iterator[str]:
        for job_id in self._facts.acknowledged:
            if job_id not in self._state.jobs:
                yield f"job {job_id} was acknowledged and is gone"

    def at_rest(self) -> Iterator[str]:
        for job in self._state.jobs.values():
            if not job.status.is_final:
                yield f"job {job.job_id} is still {job.status}"
        for attempt in self._facts.live:
            yield f"process {attempt} still runs"
