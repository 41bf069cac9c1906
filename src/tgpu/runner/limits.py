"""What one task may use, as its node is to hold it to: for processes and containers alike."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything is already decided: 0 and None are no limit."""

    cpu_milli: int = 0
    """What it reserves: its weight when others want the same CPUs."""
    cpu_limit_milli: int = 0
    memory_mib: int = 0
    """What it reserves: whoever holds more than that gives way first."""
    memory_limit_mib: int = 0
    disk_mib: int = 0
    """What it reserves."""
    disk_limit_mib: int = 0
    """The most that its private /tmp may hold."""
    pids: int = 0
    """Processes and threads together."""
    user_pids: int = 0
    """Of all that its user has on this node."""
    devices: tuple[int, ...] | None = None
    """Indices of the GPUs that it was given; None: it is not kept from any."""
    minors: tuple[int, ...] | None = None
    """The numbers of their files, /dev/nvidiaN; None: not known, so it is not kept from any."""
    cpus: tuple[int, ...] = ()
    """The CPUs that it is pinned to."""
    oom_score_adj: int | None = None
    """How early the kernel ends it when the machine's memory is used up; None: as its agent."""


NO_LIMITS = Limits()
