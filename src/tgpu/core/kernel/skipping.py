"""Past those who are known not to start: many at once, because uncompiled this is the longest way."""

import numpy as np

from tgpu.core.kernel.shapes import Ints, Stream, Waiting


def past_blocked(at: int, end: int, waiting: Waiting, stream: Stream, blocked_ms: Ints) -> int:
    """The first position from `at` on that is neither blocked nor short of what its tenant may begin."""
    step = 16
    while at < end:
        slots = stream.slots[at : min(end, at + step)]
        is_open = waiting.limit_ms[slots] < blocked_ms[waiting.kind[slots]]
        if stream.limited:
            is_open = is_open & (waiting.gpu_ms[slots] < stream.short[waiting.tenant[slots]])
        if is_open.any():
            return int(at + np.argmax(is_open))
        at += step
        step = 4096
    return end
