"""Utilization over time: what was allocated, and what was measured to be in use, in steps of equal length."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AllocationSteps:
    """Averages of what attempts held, of each step; the last one ends at the end of the time asked for."""

    from_ms: int
    step_ms: int
    cpu_milli: list[int]
    memory_mib: list[int]
    gpu_milli: list[int]


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """Samples taken by the leader of this term, one a minute; None where it has none."""

    from_ms: int = 0
    step_ms: int = 60_000
    cpu_milli: list[int | None] = field(default_factory=list)
    memory_mib: list[int | None] = field(default_factory=list)
    gpu_busy_percent: list[float | None] = field(default_factory=list)
    """The average over all devices that report it."""
