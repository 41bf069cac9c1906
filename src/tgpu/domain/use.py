"""What one attempt made of what it was given, summed up at its end."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """None: nobody could tell, or it was over before anybody looked."""

    measured_s: int | None = None
    """For how long it was looked at again and again."""
    cpu_mean_milli: int | None = None
    cpu_peak_milli: int | None = None
    """Of the busiest stretch between two looks."""
    throttled_percent: int | None = None
    """In how many of a hundred stretches of time it was held back by its limit of CPUs."""
    memory_peak_mib: int | None = None
    """As it was seen, without files that the kernel would have let go of: what it really needs."""
    gpus_used: int | None = None
    """On how many of its devices it was ever seen to do something."""
    gpu_memory_peak_mib: int | None = None
    """On the fullest of its devices."""
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    net_received_bytes: int | None = None
    net_sent_bytes: int | None = None
