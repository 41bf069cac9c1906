"""What attempts do with their GPUs, and what their GPUs do to them.

An attempt that fails by itself while its GPU is failing did not fail by itself: a program notices within
milliseconds, long before anybody could have stopped it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tgpu.agent.gpu_meter import GpuMeter
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node import Capacity
from tgpu.protocol.messages import Launch, NodeUse
from tgpu.runner.port import AttemptEnded

Failure = Callable[[Sequence[int]], str | None]
"""(indices) → what is wrong with the first of these GPUs that failed; at once."""


class GpuWatch:
    """Of attempts that were launched in this life of the agent: of others it does not know the GPUs."""

    def __init__(self, failure: Failure) -> None:
        self._failure = failure
        self._meter = GpuMeter()
        self._devices: dict[str, tuple[int, ...]] = {}

    def launched(self, launch: Launch, now: float) -> None:
        self._meter.launched(launch.attempt, launch.devices, launch.gpu_milli, now)
        if launch.devices:
            self._devices[launch.attempt] = launch.devices

    def seen(self, capacity: Capacity | None, use: NodeUse, now: float) -> None:
        devices = () if capacity is None else capacity.devices
        busy = {device.index: percent for device, percent in zip(devices, use.gpu_percent, strict=False)}
        self._meter.seen(busy, now)

    def ended(self, event: AttemptEnded, now: float) -> AttemptEnded:
        """With what it used; if it failed with one of its GPUs, that is why it ended."""
        how = replace(event.exit, gpu_ms=self._meter.ended(event.attempt, now))
        devices = self._devices.pop(event.attempt, ())
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
