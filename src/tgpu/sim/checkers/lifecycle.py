"""The events of every job are a legal path through the table of moves, and end where the job stands."""

from collections.abc import Iterator

from tgpu.domain.lifecycle import Happening, IllegalMoveError, Status, task_after
from tgpu.sim.facts import Watcher
from tgpu.store.memory_state import State

_MOVES = frozenset(Happening)


class OnlyLegalMoves(Watcher):
    def __init__(self, state: State) -> None:
        self._state = state
        self._seen = 0
        self._stands: dict[int, Status] = {}

    def now_and_then(self) -> Iterator[str]:
        for event in self._state.events[self._seen :]:
            self._seen += 1
            if event.kind in _MOVES:
                try:
                    self._stands[event.job_id] = task_after(
                        self._stands.get(event.job_id), Happening(event.kind)
                    )
                except IllegalMoveError as error:
                    yield f"job {event.job_id}: {error}"

    def at_rest(self) -> Iterator[str]:
        for job_id, job in self._state.jobs.items():
            if self._stands.get(job_id) is not job.status:
                yield f"job {job_id} is {job.status}, its events end with {self._stands.get(job_id)}"
            live = [a.attempt_id for a in self._state.attempts.get(job_id, ()) if a.state.is_live]
            if job.status.is_final and live:
                yield f"job {job_id} is {job.status} and its attempts {live} live"
