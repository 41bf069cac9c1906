"""Timeline of nodes: which attempts held which devices when, one by one or summed up per node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tgpu.domain.ids import AttemptId
from tgpu.domain.lifecycle import Cause
from tgpu.store.job_filter import Seen


@dataclass(frozen=True, slots=True)
class TimelineFilter:
    """Attempts that overlap [from, until)."""

    from_ms: int
    until_ms: int
    node_ids: tuple[str, ...] | None = None
    """Only on these nodes; None: on any."""
    seen: Seen | None = None
    """Only of jobs that the caller may know of; None: of all."""


@dataclass(frozen=True, slots=True)
class Occupation:
    """An attempt with its node and devices."""

    attempt_id: AttemptId
    node_id: str
    devices: tuple[int, ...]
    user: str
    tenant_id: str
    name: str
    gpu_milli: int
    cpu_milli: int
    started_ms: int
    """While it is being started: when it was assigned to its node."""
    ended_ms: int | None = None
    """None while it holds its devices."""
    cause: Cause | None = None
    """Why it ended, or is being stopped."""
    has_failed: bool = False
    """It ended by itself, with an exit code other than 0."""
    is_starting: bool = False
    time_limit_s: int | None = None


@dataclass(slots=True)
class LoadBin:
    """What attempts held of a node in a part of the window."""

    attempts: int = 0
    """That ended in it, or held something at its end."""
    gpu_ms: int = 0
    """Milliseconds of a GPU."""
    cpu_ms: int = 0
    """Milliseconds of a CPU."""


@dataclass(frozen=True, slots=True)
class Occupations:
    """The attempts of a window, if there are not too many of them."""

    attempts: Sequence[Occupation]
    load: Mapping[str, Mapping[int, LoadBin]] = field(default_factory=dict)
    """By node and number of the bin: the finished attempts, if there are more than were asked for. Then
    `attempts` has only those that still hold their devices."""
    is_summed: bool = False


class TimelineStore(Protocol):
    async def occupations(self, where: TimelineFilter, most: int, bins: int, now_ms: int) -> Occupations:
        """At most `most` attempts. If there are more, finished attempts are summed up in `bins` parts of the
        window of equal length; if there are more that are not finished, those too, up to now."""
        ...


class Load:
    """Sums of attempts per node and bin."""

    def __init__(self, where: TimelineFilter, bins: int) -> None:
        self.from_ms, self.until_ms, self._bins = where.from_ms, where.until_ms, bins
        self.width_ms = max(1, -(-(where.until_ms - where.from_ms) // bins))
        self.by_node: dict[str, dict[int, LoadBin]] = {}

    def add(self, node_id: str, started_ms: int, ended_ms: int, gpu_milli: int, cpu_milli: int) -> None:
        """One attempt, cut at the edges of the window and of its bins."""
        first_ms, last_ms = max(started_ms, self.from_ms), min(ended_ms, self.until_ms)
        if last_ms < first_ms or first_ms >= self.until_ms:
            return
        first = (first_ms - self.from_ms) // self.width_ms
        last = min(self._bins - 1, max(first, (last_ms - 1 - self.from_ms) // self.width_ms))
        for at in range(first, last + 1):
            begin_ms = max(first_ms, self.from_ms + at * self.width_ms)
            run_ms = max(0, min(last_ms, self.from_ms + (at + 1) * self.width_ms) - begin_ms)
            self.add_sum(node_id, at, int(at == last), gpu_milli * run_ms // 1000, cpu_milli * run_ms // 1000)

    def add_sum(self, node_id: str, at: int, attempts: int, gpu_ms: int, cpu_ms: int) -> None:
        found = self.by_node.setdefault(node_id, {}).setdefault(at, LoadBin())
        found.attempts += attempts
        found.gpu_ms += gpu_ms
        found.cpu_ms += cpu_ms
