"""What a job could have asked for, by what it used: a sentence for each thing that it could do without.

Only of what ran for a while and came to its own end: how much one needs that failed, nobody knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tgpu.domain.job import Exit, Group
from tgpu.domain.lifecycle import Cause
from tgpu.domain.quantities import time_in_words
from tgpu.domain.use import Use

LEAST_RUN_S = 120
"""What ran less tells little of what it would need."""
HEADROOM = 1.25
"""What is advised is so many times what was used…"""
WORTHWHILE = 0.6
"""…and only if it is at most this part of what was asked."""
LEAST_SAVED_MIB = 1024
LEAST_SAVED_S = 1800
TIME_HEADROOM = 2
OFTEN_THROTTLED = 10
RARELY_BUSY = 25
"""Percent of its time."""
_GIB = 1024
_FEW_GIB = 4 * _GIB
_FINE_MIB = 256
_MILLI = 1000
_HOUR_S, _MINUTE_S = 3600, 60


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt that is over, and how many devices it had."""

    exit: Exit
    devices: int

    @property
    def run_s(self) -> float:
        began = self.exit.started_ms
        return 0.0 if began is None else (self.exit.ended_ms - began) / 1000

    @property
    def use(self) -> Use:
        return self.exit.use or Use()

    @property
    def tells(self) -> bool:
        return self.run_s >= LEAST_RUN_S and self.exit.cause is Cause.EXITED and self.exit.exit_code == 0


def advice(group: Group, time_limit_s: int | None, runs: Sequence[Run]) -> list[str]:
    """`runs`: of tasks of one group. The one that used most of something speaks for all."""
    telling = [run for run in runs if run.tells]
    if not telling:
        return []
    found = [
        _memory(group, telling),
        _cpus(group, telling),
        _throttled(group, telling),
        _gpus(group, telling),
        _gpu_memory(group, telling),
        _time(time_limit_s, telling),
    ]
    return [sentence for sentence in found if sentence]


def _memory(group: Group, runs: Sequence[Run]) -> str:
    """By what was seen to be needed; where nobody looked, by the most that was held."""
    asked = group.request.memory_mib
    peak = max(run.use.memory_peak_mib or run.exit.peak_memory_mib for run in runs)
    enough = _round_size(peak)
    if not peak or not _is_worthwhile(asked, enough):
        return ""
    return f"asked for {_about(asked)} memory, peaked at {_about(peak)}: --memory {_flag(enough)} would do"


def _cpus(group: Group, runs: Sequence[Run]) -> str:
    """Not of one that was held back: it would have used more."""
    asked = group.request.cpu_milli
    peaks = [run.use.cpu_peak_milli for run in runs]
    known = [peak for peak in peaks if peak is not None]
    if len(known) < len(peaks) or group.request.exclusive:
        return ""
    peak = max(known)
    enough = max(1, -(-round(peak * HEADROOM) // _MILLI))
    if enough * _MILLI > WORTHWHILE * asked:
        return ""
    return (
        f"asked for {_number(asked)} CPUs, used {_number(round(peak, -2))} at most: --cpus {enough} would do"
    )


def _throttled(group: Group, runs: Sequence[Run]) -> str:
    percent = max((run.use.throttled_percent or 0 for run in runs), default=0)
    if percent < OFTEN_THROTTLED or not group.cpu_most_milli:
        return ""
    limit = group.cpu_most_milli
    cpus = "CPU" if limit == _MILLI else "CPUs"
    return (
        f"was held back {percent} % of the time by its limit of {_number(limit)} {cpus}: "
        "with more (--cpus, or --cpu-limit) it would be faster"
    )


def _gpus(group: Group, runs: Sequence[Run]) -> str:
    devices = max(run.devices for run in runs)
    counts = [run.use.gpus_used for run in runs]
    known = [count for count in counts if count is not None]
    if not devices or len(known) < len(counts):
        return ""
    used = max(known)
    if used == 0:
        which = "its GPU was never used" if devices == 1 else f"none of its {devices} GPUs was ever used"
        return f"{which}: it would run without (--gpus 0)"
    if used < devices:
        was = "was" if devices - used == 1 else "were"
        return f"{devices - used} of {devices} GPUs {was} never used: --gpus {used} would do"
    busy = max(100 * (run.exit.gpu_ms or 0) / (1000 * run.run_s * devices) for run in runs)
    if busy >= RARELY_BUSY or group.request.gpu_milli < _MILLI:
        return ""
    if devices == 1:
        return f"its GPU was busy {busy:.0f} % of the time: a part of one (--gpus 0.5) may do"
    return f"its {devices} GPUs were busy {busy:.0f} % of the time: fewer may do"


def _gpu_memory(group: Group, runs: Sequence[Run]) -> str:
    asked = group.request.gpu_memory_mib
    peaks = [run.use.gpu_memory_peak_mib for run in runs]
    known = [peak for peak in peaks if peak]
    if not asked or len(known) < len(peaks):
        return ""
    enough = _round_size(max(known))
    if not _is_worthwhile(asked, enough):
        return ""
    return (
        f"asked for {_about(asked)} GPU memory, peaked at {_about(max(known))}: "
        f"--gpu-memory {_flag(enough)} would do"
    )


def _time(limit_s: int | None, runs: Sequence[Run]) -> str:
    if limit_s is None:
        return ""
    longest = round(max(run.run_s for run in runs))
    unit = _HOUR_S if longest >= _HOUR_S else _MINUTE_S
    enough = unit * -(-TIME_HEADROOM * longest // unit)
    if enough > WORTHWHILE * limit_s or limit_s - enough < LEAST_SAVED_S:
        return ""
    return (
        f"asked for {time_in_words(limit_s)}, ran {time_in_words(longest)}: "
        f"with --time {time_in_words(enough)} it would find a gap sooner"
    )


def _is_worthwhile(asked_mib: int, enough_mib: int) -> bool:
    return enough_mib <= WORTHWHILE * asked_mib and asked_mib - enough_mib >= LEAST_SAVED_MIB


def _round_size(peak_mib: int) -> int:
    needed = peak_mib * HEADROOM
    step = _GIB if needed > _FEW_GIB else _FINE_MIB
    return step * -(-round(needed) // step)


def _about(size_mib: int) -> str:
    """In whole units: nobody asks for the last megabyte."""
    return f"{size_mib / _GIB:.1f}G".replace(".0G", "G") if size_mib >= _GIB else f"{size_mib}M"


def _flag(size_mib: int) -> str:
    return f"{size_mib // _GIB}G" if size_mib % _GIB == 0 else f"{size_mib}M"


def _number(milli: int) -> str:
    return f"{milli / _MILLI:g}"
