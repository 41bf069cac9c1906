"""A task has at most one live attempt, and no attempt ever runs twice."""

from collections.abc import Iterator

from tgpu.sim.facts import Facts, Run, Watcher


class OneLiveAttempt(Watcher):
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def process_started(self, run: Run) -> Iterator[str]:
        if run.attempt in self._facts.runs:
            yield f"attempt {run.attempt} starts a second time"
        for other in self._facts.live.values():
            if other.attempt_id.task_id == run.attempt_id.task_id:
                where = f"on {run.node_id}, {other.attempt} lives on {other.node_id}"
                yield f"attempt {run.attempt} starts {where}"
