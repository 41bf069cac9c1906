"""What attempts do with their GPUs, and what their GPUs do to them.

An attempt that fails by itself while its GPU is failing did not fail by itself: a program notices within
milliseconds, long before anybody could have stopped it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tgpu.agent.use.uses import Uses
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node import Capacity
from tgpu.protocol.messages import Launch, NodeUse
from tgpu.runner.port import AttemptEnded

Failure = Callable[[Sequence[int]], str | None]
"""(indices) → what is wrong with the first of these GPUs that failed; at once."""


class GpuWatch:
    """Of an attempt from before this agent it knows the GPUs if its use was written down."""

    def __init__(self, failure: Failure, uses: Uses | None = None) -> None:
        self._failure = failure
        self.uses = uses or Uses()
        self._meter = self.uses.meter

    def launched(self, launch: Launch, now: float) -> None:
        self.uses.launched(launch, now)

    def seen(self, capacity: Capacity | None, use: NodeUse, now: float) -> None:
        devices = () if capacity is None else capacity.devices
        indices = [device.index for device in devices]
        busy = dict(zip(indices, use.gpu_percent, strict=False))
        self._meter.seen(busy, now, dict(zip(indices, use.gpu_memory_mib, strict=False)))

    def ended(self, event: AttemptEnded, now: float) -> AttemptEnded:
        """With what it used; if it failed with one of its GPUs, that is why it ended."""
        devices = self._meter.devices(event.attempt)
        how = replace(event.exit, gpu_ms=self._meter.ended(event.attempt, now))
        failure = self._failure(devices) if devices and _failed_by_itself(how) else None
        if failure is not None:
            detail = "; ".join(filter(None, [failure, _ending(how), how.detail]))
            how = replace(how, cause=Cause.DEVICE_LOST, detail=detail)
        return replace(event, exit=how)


def _failed_by_itself(how: Exit) -> bool:
    return how.cause is Cause.SIGNALLED or (how.cause is Cause.EXITED and how.exit_code != 0)


def _ending(how: Exit) -> str:
    if how.signal is not None:
        return f"it ended by signal {how.signal}"
    return f"it ended with exit code {how.exit_code}"
