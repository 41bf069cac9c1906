"""When a job may start, when it must be over, and what holds it back beside room and quota."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Of the few jobs that have any of this: all others have none."""

    begin_ms: int | None = None
    """Not to be started before."""
    deadline_ms: int | None = None
    """To be over by then."""
    again_on_timeout: bool = False
    """Whether it waits again when it has run into its time limit."""
    held_by: str | None = None
    """Who wants it not to be started for now."""
    unmet: bool = False
    """It waits for other jobs."""
    ready_ms: int | None = None
    """When nothing of this held it back any more, if something did."""
    suspended_by: str | None = None
    """Who wants nothing of it to run for now: what ran was stopped, to start anew later."""

    @property
    def is_parked(self) -> bool:
        """It cannot be started, wherever there is room: scheduling need not know of it."""
        return self.held_by is not None or self.unmet or self.suspended_by is not None

    def waits_since(self, submitted_ms: int) -> int:
        """Since when it could have been started."""
        return max(submitted_ms, self.begin_ms or 0, self.ready_ms or 0)

    def starts_by(self, time_limit_s: int | None) -> int | None:
        """The last moment to start it, so that it is over in time."""
        if self.deadline_ms is None:
            return None
        return self.deadline_ms - 1000 * (time_limit_s or 0)
