"""Times of a task's output: which offset arrived when."""

LogTimes = tuple[tuple[int, int | None], ...]
"""Output from this offset on arrived at this time, in microseconds since 1970 (None: not known), up to the
next offset. Empty: no times are known."""
BYTES_PER_TIME = 64
"""An answer has at most one time per this many bytes of output, and always up to…"""
ALWAYS_TIMES = 64


def most_times(size: int) -> int:
    """How many times an answer with this many bytes of output may have."""
    return max(ALWAYS_TIMES, size // BYTES_PER_TIME)


def thinned(times: LogTimes, most: int) -> LogTimes:
    """At most this many of them, evenly; the first one is always there."""
    step = -(-len(times) // most)
    return times if step <= 1 else times[::step]
