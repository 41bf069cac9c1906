"""Past those who are known not to start: many at once, because uncompiled this is the longest way."""

import numpy as np

from tgpu.core.kernel.promises import ALIKE
from tgpu.core.kernel.shapes import Ints, Stream, Waiting


def past_closed(at: int, end: int, waiting: Waiting, stream: Stream, blocked_ms: Ints) -> int:
    """The first position from `at` on that is open."""
    step = 16
    while at < end:
        slots = stream.slots[at : min(end, at + step)]
        kinds = waiting.kind[slots]
        found = waiting.limit_ms[slots] < blocked_ms[kinds]
        if stream.asks:
            known = waiting.tenant[slots] * len(blocked_ms) + kinds
            found = found | (stream.refused_before[known] > 0)
            found = found & ~(waiting.held[slots] & (stream.refused[known] == ALIKE))
        if stream.limited:
            found = found & (waiting.gpu_ms[slots] < stream.short[waiting.tenant[slots]])
        if found.any():
            return int(at + np.argmax(found))
        at += step
        step = 4096
    return end
