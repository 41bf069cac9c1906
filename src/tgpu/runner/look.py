"""What one look at a running task tells: counters since its start and levels of now, as the kernel counts."""

from typing import NamedTuple


class Look(NamedTuple):
    """None: it cannot be told here. Counters may begin anew, or before the task: only their growth counts."""

    cpu_us: int | None = None
    periods: int | None = None
    """Stretches of time in which it ran and had a limit of CPUs; a counter…"""
    throttled: int | None = None
    """…and those of them in which it was held back by that."""
    memory_bytes: int | None = None
    """Without files that nobody needs in memory: those go before the task does."""
    cache_bytes: int | None = None
    """Files in memory, counted for it."""
    swap_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    net_received_bytes: int | None = None
    """Only of what has a network of its own: nobody counts what a process sends."""
    net_sent_bytes: int | None = None
