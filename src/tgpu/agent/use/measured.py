"""One running task, looked at again and again: from counters to rates, and from those to what is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tgpu.agent.use.gpu_meter import GpuNow
from tgpu.agent.use.series import Sample, Series
from tgpu.protocol.use import SECONDS, UseFile
from tgpu.runner.look import Look

MIB = 1 << 20
_COUNTERS = (
    "cpu_us", "periods", "throttled", "disk_read_bytes", "disk_written_bytes", "net_received_bytes",
    "net_sent_bytes",
)  # fmt: skip
_NOT_ITS_OWN = ("periods", "throttled")
"""Counters that may have begun before the task: what they say at the first look is where it begins."""
_SUMS = _COUNTERS[3:]
_LEVELS = {"memory_mib": "memory_bytes", "cache_mib": "cache_bytes", "swap_mib": "swap_bytes"}
_LEAST_S = 0.01


@dataclass(slots=True)
class Measured:
    attempt: str
    started_ms: int
    series: Series
    measured_ms: int = 0
    """Up to when; at first, its start."""
    counters: dict[str, int] = field(default_factory=dict)
    """As they stood then."""
    grown: dict[str, int] = field(default_factory=dict)
    """By how much in all."""
    latest: dict[str, float] = field(default_factory=dict)
    ran_before: bool = False
    """Whether it had begun before its start was told, as containers have: no rate begins before a look."""

    @classmethod
    def found(cls, file: UseFile) -> "Measured":
        """As an agent before this one has kept it."""
        return cls(
            file.attempt,
            file.started_ms,
            Series.found(file.step_s, file.columns),
            measured_ms=file.measured_ms,
            counters=dict(file.counters),
            grown={"cpu_us": file.cpu_us, "periods": file.periods, "throttled": file.throttled},
            latest=dict(file.latest),
        )

    def looked(self, look: Look, gpu: GpuNow, now_ms: int) -> None:
        seconds = (now_ms - (self.measured_ms or self.started_ms)) / 1000
        if seconds < _LEAST_S:  # clocks are set back, too
            self.measured_ms = min(self.measured_ms, now_ms)
            return
        has_rate = "cpu_us" in self.counters or not self.ran_before
        growth = self._growth(look)
        means = {
            name: value / MIB
            for name, field_ in _LEVELS.items()
            if (value := getattr(look, field_)) is not None
        }
        if "cpu_us" in growth and has_rate:
            means["cpu_milli"] = growth["cpu_us"] / seconds / 1000
        if gpu.percent is not None:
            means["gpu_percent"] = gpu.percent
        if gpu.memory_mib is not None:
            means["gpu_memory_mib"] = gpu.memory_mib
        sums = {name: float(growth[name]) for name in _SUMS if name in growth}
        self.series.add(Sample(seconds, means, sums))
        self.latest = {SECONDS: seconds, **means, **sums}
        self.measured_ms = now_ms

    def file(self, gpu: GpuNow) -> UseFile:
        return UseFile(
            attempt=self.attempt,
            started_ms=self.started_ms,
            step_s=self.series.step_s,
            columns=self.series.packed(),
            measured_ms=self.measured_ms,
            latest=self.latest,
            counters=self.counters,
            cpu_us=self.grown.get("cpu_us", 0),
            periods=self.grown.get("periods", 0),
            throttled=self.grown.get("throttled", 0),
            devices=gpu.devices,
            gpu_milli=gpu.gpu_milli,
            gpu_busy_ms=gpu.busy_ms,
            busy_devices=gpu.busy_devices,
        )

    def _growth(self, look: Look) -> Mapping[str, int]:
        """One that fell begins anew: a process is gone with what it had counted."""
        growth = {}
        for name in _COUNTERS:
            value: int | None = getattr(look, name)
            if value is None:
                continue
            before = self.counters.get(name, value if name in _NOT_ITS_OWN else 0)
            growth[name] = max(0, value - before)
            self.counters[name] = value
            self.grown[name] = self.grown.get(name, 0) + growth[name]
        return growth
