"""What the loop tells whoever measures it."""

from typing import Protocol

from tgpu.control.turn import Turn


class Observer(Protocol):
    def observe_wait(self, priority_class: str, seconds: float) -> None: ...

    def observe_completion(self, outcome: str, seconds: float) -> None: ...

    def observe_run(self, outcome: str, seconds: float) -> None: ...

    def observe_decision(self, seconds: float) -> None: ...

    def observe_cycle(self, seconds: float) -> None: ...

    def observe_commit(self, seconds: float) -> None: ...

    def observe_start_estimate(self, horizon: str, *, inside: bool, error_s: float) -> None:
        """A job with an estimate has started: whether inside its interval, and how far from what was
        expected."""
        ...

    def count_placements(self, number: int) -> None: ...

    def count_drift(self, number: int) -> None: ...

    def count_fault(self, why: str) -> None:
        """An exception was contained."""
        ...

    def count_ledger_differences(self, number: int) -> None: ...

    def note_alert(self, name: str, *, on: bool) -> None: ...


def measure(observer: Observer, turn: Turn) -> None:
    """What was committed with a turn."""
    observer.count_placements(len(turn.batch.assigned))
    for priority_class, waited_s in turn.waits:
        observer.observe_wait(priority_class, waited_s)
    for outcome, seconds in turn.completions:
        observer.observe_completion(outcome, seconds)
    for ended in turn.batch.ended:
        if ended.exit.started_ms is not None:
            ran_s = (ended.exit.ended_ms - ended.exit.started_ms) / 1000
            observer.observe_run(ended.happening, ran_s)
