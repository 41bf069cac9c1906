"""What is told of an attempt's use once it is over: in its exit, and nowhere else by the server."""

from dataclasses import replace
from math import ceil

from tgpu.agent.use.gpu_meter import GpuNow
from tgpu.agent.use.measured import Measured
from tgpu.domain.job import Exit
from tgpu.domain.use import Use

_US_IN_MS = 1000


def with_use(end: Exit, measured: Measured, gpu: GpuNow) -> Exit:
    """What was recorded at its end is exact and stays; what nobody recorded is as it was seen last."""
    cpu_ms = end.cpu_ms or measured.grown.get("cpu_us", 0) // _US_IN_MS
    seen, known = use_of(measured, gpu), end.use or Use()
    run_ms = 0 if end.started_ms is None else end.ended_ms - end.started_ms
    mean_milli = round(1000 * cpu_ms / run_ms) if run_ms > 0 and cpu_ms else seen.cpu_mean_milli
    peak_milli = seen.cpu_peak_milli
    return replace(
        end,
        cpu_ms=cpu_ms,
        peak_memory_mib=end.peak_memory_mib or seen.memory_peak_mib or 0,
        gpu_ms=gpu.busy_ms if end.gpu_ms is None else end.gpu_ms,
        use=replace(
            seen,
            cpu_mean_milli=mean_milli,
            # What it did before the first look is in the mean alone: at some time it did as much.
            cpu_peak_milli=None if peak_milli is None else max(peak_milli, mean_milli or 0),
            disk_read_bytes=_first(known.disk_read_bytes, seen.disk_read_bytes),
            disk_written_bytes=_first(known.disk_written_bytes, seen.disk_written_bytes),
        ),
    )


def use_of(measured: Measured, gpu: GpuNow) -> Use:
    series, periods = measured.series, measured.grown.get("periods", 0)
    seconds = sum(series.columns["seconds"])
    cpu = series.total("cpu_milli")
    return Use(
        measured_s=round(seconds),
        cpu_mean_milli=None if cpu is None or not seconds else round(cpu / seconds),
        cpu_peak_milli=_rounded(series.largest("cpu_milli")),
        throttled_percent=round(100 * measured.grown["throttled"] / periods) if periods else None,
        memory_peak_mib=_rounded_up(series.largest("memory_mib")),
        gpus_used=len(gpu.busy_devices) if gpu.devices and gpu.busy_ms is not None else None,
        gpu_memory_peak_mib=_rounded_up(series.largest("gpu_memory_mib")),
        disk_read_bytes=_rounded(series.total("disk_read_bytes")),
        disk_written_bytes=_rounded(series.total("disk_written_bytes")),
        net_received_bytes=_rounded(series.total("net_received_bytes")),
        net_sent_bytes=_rounded(series.total("net_sent_bytes")),
    )


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def _rounded_up(value: float | None) -> int | None:
    """What was held at all is never shown as nothing."""
    return None if value is None else ceil(value)


def _first(recorded: int | None, seen: int | None) -> int | None:
    return seen if recorded is None else recorded
