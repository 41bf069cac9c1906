"""Nothing is started or killed that has not first been committed."""

from collections.abc import Iterator

from tgpu.domain.job import Attempt
from tgpu.domain.lifecycle import Cause
from tgpu.sim.facts import Run, Watcher
from tgpu.store.memory_state import State

_ORDERED = frozenset(
    {
        Cause.CANCELLED,
        Cause.PREEMPTED,
        Cause.SUPERSEDED,
        Cause.DEVICE_LOST,
        Cause.GANG_BROKEN,
        Cause.GANG_RESTARTED,
        Cause.SUSPENDED,
        Cause.RESTARTED,
        Cause.JOB_FAILED,
        Cause.JOB_DONE,
        Cause.DEADLINE,
    }
)


class NothingUncommitted(Watcher):
    """A node that was lost may still start what it was told to before."""

    def __init__(self, state: State) -> None:
        self._state = state

    def process_started(self, run: Run) -> Iterator[str]:
        attempt = self._attempt(run)
        if attempt is None:
            yield f"process {run.attempt} starts, and no such attempt was committed"
        elif (attempt.node_id, attempt.devices) != (run.node_id, run.devices):
            yield (
                f"process {run.attempt} starts on {run.node_id} {run.devices}, "
                f"committed was {attempt.node_id} {attempt.devices}"
            )
        elif attempt.exit is not None and attempt.exit.cause is not Cause.NODE_LOST:
            yield f"process {run.attempt} starts after its end was committed"

    def process_ended(self, run: Run) -> Iterator[str]:
        attempt = self._attempt(run)
        killed = run.end is not None and run.end.cause in _ORDERED
        if killed and attempt is not None and attempt.state.is_live and attempt.stop_cause is None:
            yield f"process {run.attempt} was killed, and nobody had committed that"

    def _attempt(self, run: Run) -> Attempt | None:
        return self._state.attempt(run.attempt_id)
