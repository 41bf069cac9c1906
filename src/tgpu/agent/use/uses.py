"""Everything that runs on this node, looked at in turn, a few at a time.

Each is looked at soon after its start and then again and again. What was seen is kept in memory, written to
a file beside the output now and then, and summed up when the attempt ends. An attempt that outlives its agent
is gone on with by the next one, from its file.
"""

import asyncio
import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tgpu.agent.use import files
from tgpu.agent.use.gpu_meter import DeviceShares, GpuMeter, GpuNow
from tgpu.agent.use.measured import Measured
from tgpu.agent.use.series import Series
from tgpu.agent.use.summary import with_use
from tgpu.observe.logs import logger
from tgpu.protocol.messages import Launch
from tgpu.protocol.use import UseFile, packed
from tgpu.runner.port import AttemptEnded, AttemptStarted, Runner, RunnerEvent

TICK_S = 0.25
FIRST_LOOK_S = 1.0
"""Most tasks are over before; they cost nothing here."""
CONTAINER_LOOKS_S = (0.0, 0.5, 1.0, 2.0)
"""After its start: at its end nobody records what a container has used, so it is looked at early."""
KEEP_EVERY_S = 30.0
LEAST_AT_ONCE = 25

Shares = Callable[[], Mapping[int, DeviceShares]]
"""What attempts do on each device, as far as the driver tells; not for the event loop."""


@dataclass(slots=True)
class _Followed:
    measured: Measured
    in_container: bool
    is_due: bool = False
    """Whether it has its turn, sooner or later."""
    looks: int = 0
    keep_at: float = 0.0
    """When it is written down next: at its first look, so that a restart finds something."""


class Uses:
    """Without a place (`open`) nothing is looked at, and only GPUs are metered."""

    def __init__(
        self,
        sample_s: float = 5.0,
        shares: Shares = dict,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.meter = GpuMeter()
        self._sample_s = sample_s
        self._shares = shares
        self._shares_at = 0.0
        self._now_ms = now_ms
        self._logs: Path | None = None
        self._runner: Runner | None = None
        self._launched: dict[str, bool] = {}
        """Attempts of this life of the agent that are not over: whether each is a container."""
        self._followed: dict[str, _Followed] = {}
        self._due: list[tuple[float, str]] = []
        self._unkept: dict[str, UseFile] = {}
        """Not yet written."""

    def open(self, logs: Path, runner: Runner) -> None:
        self._logs, self._runner = logs, runner

    # What happens to attempts

    def launched(self, launch: Launch, now: float) -> None:
        self.meter.launched(launch.attempt, launch.devices, launch.gpu_milli, now)
        self._launched[launch.attempt] = launch.container is not None

    def adopted(self, events: Sequence[RunnerEvent], now: float) -> list[RunnerEvent]:
        """What was here before this agent: those that run are followed from where they were left. At once,
        for any of them may end in the next moment."""
        logs = self._logs
        if logs is None:
            return list(events)
        kept = files.found(logs, [event.attempt for event in events])
        for attempt, file in kept.items():
            if attempt in self._followed:
                continue
            self._followed[attempt] = _Followed(Measured.found(file), in_container=False)
            self.meter.resumed(attempt, _gpu_before(file), now)
        return [self._adopted(event, kept.get(event.attempt), now) for event in events]

    def _adopted(self, event: RunnerEvent, kept: UseFile | None, now: float) -> RunnerEvent:
        if isinstance(event, AttemptStarted):
            self._follow(event, now, 0.0)
        elif isinstance(event, AttemptEnded) and kept is not None:
            followed = self._followed.pop(event.attempt)
            self.meter.ended(event.attempt, now)
            return replace(event, exit=with_use(event.exit, followed.measured, _gpu_before(kept)))
        return event

    def started(self, event: AttemptStarted, now: float) -> None:
        in_container = self._launched.get(event.attempt)
        if in_container is None:  # found only now: its engine came back later than this agent
            self.adopted([event], now)
        else:
            self._follow(event, now, CONTAINER_LOOKS_S[0] if in_container else FIRST_LOOK_S)

    def ended(self, event: AttemptEnded) -> AttemptEnded:
        """With what it has used, if anybody looked."""
        self._launched.pop(event.attempt, None)
        followed = self._followed.pop(event.attempt, None)
        if followed is None or not len(followed.measured.series):
            return event
        gpu = self.meter.now(event.attempt)
        self._unkept[event.attempt] = followed.measured.file(gpu)
        return replace(event, exit=with_use(event.exit, followed.measured, gpu))

    def read(self, attempt: str) -> bytes:
        """Its course up to now, as a file has it; empty if nobody has looked at it, or it is long gone."""
        followed = self._followed.get(attempt)
        if followed is not None and len(followed.measured.series):
            return packed(followed.measured.file(self.meter.now(attempt)))
        if attempt in self._unkept:
            return packed(self._unkept[attempt])
        return b"" if self._logs is None else files.read(self._logs, attempt)

    def _follow(self, event: AttemptStarted, now: float, first_s: float) -> None:
        if self._runner is None:
            return
        if event.attempt not in self._followed:
            in_container = self._launched.get(event.attempt, False)
            series = Series(self._sample_s)
            measured = Measured(event.attempt, event.started_ms, series, ran_before=in_container)
            self._followed[event.attempt] = _Followed(measured, in_container)
        if not self._followed[event.attempt].is_due:
            self._followed[event.attempt].is_due = True
            heapq.heappush(self._due, (now + first_s, event.attempt))

    # Looking

    async def go_on(self) -> None:
        """Until cancelled; then all is written down."""
        try:
            while True:
                await asyncio.sleep(TICK_S)
                try:
                    await self._look(asyncio.get_running_loop().time())
                    await self._keep()
                except Exception:  # noqa: BLE001  tasks go on whatever it is, and so does looking at them
                    logger("use").exception("a round of looks failed")
        finally:
            for attempt, followed in self._followed.items():
                self._unkept[attempt] = followed.measured.file(self.meter.now(attempt))
            self._write(self._unkept)

    async def _look(self, now: float) -> None:
        attempts = self._take_due(now)
        if not attempts or self._runner is None:
            return
        if self.meter.has_any and now >= self._shares_at:
            self._shares_at = now + self._sample_s
            self.meter.told(await asyncio.to_thread(self._shares), now)
        looks = await self._runner.look(attempts)
        now_ms = self._now_ms()
        for attempt in attempts:
            followed = self._followed.get(attempt)
            if followed is None:  # it ended meanwhile
                continue
            if attempt in looks:
                followed.measured.looked(looks[attempt], self.meter.now(attempt), now_ms)
                self._note_if_due(followed, now)
            followed.looks += 1
            heapq.heappush(self._due, (now + self._pause_s(followed), attempt))

    def _take_due(self, now: float) -> list[str]:
        """No more than a fair part of all, so that those who began together are soon looked at in turn."""
        most = max(LEAST_AT_ONCE, round(2 * len(self._followed) * TICK_S / self._sample_s))
        taken: dict[str, None] = {}
        while self._due and self._due[0][0] <= now and len(taken) < most:
            attempt = heapq.heappop(self._due)[1]
            if attempt in self._followed:
                taken[attempt] = None
        return list(taken)

    def _pause_s(self, followed: _Followed) -> float:
        if followed.in_container and followed.looks < len(CONTAINER_LOOKS_S):
            return CONTAINER_LOOKS_S[followed.looks] - CONTAINER_LOOKS_S[followed.looks - 1]
        return self._sample_s

    def _note_if_due(self, followed: _Followed, now: float) -> None:
        if now >= followed.keep_at:
            followed.keep_at = now + KEEP_EVERY_S
            attempt = followed.measured.attempt
            self._unkept[attempt] = followed.measured.file(self.meter.now(attempt))

    async def _keep(self) -> None:
        if self._unkept:
            writing = dict(self._unkept)
            await asyncio.to_thread(self._write, writing)
            # What was noted anew meanwhile waits for the next time.
            self._unkept = {
                attempt: file for attempt, file in self._unkept.items() if file is not writing.get(attempt)
            }

    def _write(self, kept: Mapping[str, UseFile]) -> None:
        if self._logs is None:
            return
        error = files.write(self._logs, kept)
        if error is not None:  # a full disk, say: then there are gaps
            logger("use").warning("not written", error=str(error))


def _gpu_before(file: UseFile) -> GpuNow:
    return GpuNow(
        busy_ms=file.gpu_busy_ms,
        devices=file.devices,
        gpu_milli=file.gpu_milli,
        busy_devices=file.busy_devices,
    )
