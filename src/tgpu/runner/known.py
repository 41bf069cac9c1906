"""What this agent knows of each attempt, so that everything is told once and in order."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tgpu.domain.job import Exit
from tgpu.runner.journal import Claim
from tgpu.runner.port import HAD_BEFORE, AttemptEnded, AttemptStarted, RunnerEvent, disk_full_exit


@dataclass(slots=True)
class Tracked:
    """An attempt that is not forgotten."""

    generations: set[int]
    """The journals in which its end may stand."""
    order: bytes = b""
    """As it was sent, until something is heard of it."""
    sent_at: float = 0.0
    copies: int = 0
    """How often it was sent, less those of which nothing came because the disk was full."""
    claim: Claim | None = None
    stop: tuple[str, str, bool] | None = None
    """A cause, a detail and whether at once: not yet written down for the supervisor to read."""
    started: bool = False
    ended: bool = False
    reserved_mib: int = 0
    """Memory; 0 also of one that was here before this agent."""


@dataclass(slots=True)
class Known:
    """All attempts that are not forgotten, and those that are and must not run again."""

    on_event: Callable[[RunnerEvent], None]
    attempts: dict[str, Tracked] = field(default_factory=dict)
    forgotten: dict[str, float] = field(default_factory=dict)
    """When each was forgotten, the longest ago first."""

    def __contains__(self, attempt: str) -> bool:
        return attempt in self.attempts or attempt in self.forgotten

    def started(self, attempt: str, claim: Claim) -> None:
        tracked = self.attempts.get(attempt)
        if tracked is not None and not tracked.started and not tracked.ended:
            tracked.started = True
            tracked.claim = claim
            tracked.order = b""
            self.on_event(AttemptStarted(attempt, claim.started_ms))

    def ended(self, attempt: str, end: Exit) -> None:
        tracked = self.attempts.get(attempt)
        if tracked is not None and not tracked.ended:
            tracked.ended = True
            tracked.order = b""
            self.on_event(AttemptEnded(attempt, end))

    def unclaimed(self, attempt: str) -> None:
        """A supervisor had no room on the disk to claim it. Once no other copy of its order is under way,
        nothing of it can start any more."""
        tracked = self.attempts.get(attempt)
        if tracked is not None and tracked.order:
            tracked.copies -= 1
            if tracked.copies <= 0:
                self.ended(attempt, disk_full_exit())

    def forget(self, attempt: str, now: float) -> bool:
        """Only what is over can be forgotten."""
        tracked = self.attempts.get(attempt)
        if tracked is None or not tracked.ended:
            return False
        del self.attempts[attempt]
        self.forgotten[attempt] = now
        return True

    def was_asked_for(self, attempt: str) -> None:
        """Whoever launches what is forgotten would wait for ever for something to come of it."""
        if attempt in self.forgotten:
            self.on_event(AttemptEnded(attempt, HAD_BEFORE))

    def refuse_no_longer(self, before: float) -> list[str]:
        """Takes out those that were forgotten before then."""
        old = []
        for attempt, at in self.forgotten.items():
            if at >= before:
                break
            old.append(attempt)
        for attempt in old:
            del self.forgotten[attempt]
        return old

    def running(self) -> dict[str, Claim]:
        return {
            attempt: tracked.claim
            for attempt, tracked in self.attempts.items()
            if tracked.claim is not None and not tracked.ended
        }

    def supervisor_of(self, attempt: str) -> Claim | None:
        """Of one that runs."""
        tracked = self.attempts.get(attempt)
        return None if tracked is None or not tracked.started or tracked.ended else tracked.claim

    def unheard(self, before: float) -> list[str]:
        """Whose order was sent before then, and nothing has come of it."""
        return [name for name, tracked in self.attempts.items() if tracked.order and tracked.sent_at < before]

    def generations_in_use(self) -> Iterable[int]:
        return (number for tracked in self.attempts.values() for number in tracked.generations)
