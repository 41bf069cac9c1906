"""Reports as callers see them: seconds, exact to the millisecond, and what they cost."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tgpu.api.edge import gpu_hours
from tgpu.config.prices import MILLION, Prices
from tgpu.domain.usage import Figures
from tgpu.store.usage_port import GroupBy, ReportDetail, ReportRow

_HOUR_MS = 3_600_000
_GB_HOUR = 1024 * 3600


class FiguresOut(msgspec.Struct, kw_only=True):
    """Sums over attempts, or parts of them. What nobody measured is null."""

    attempts: int
    """That began in this time."""
    jobs: int
    """Whose first attempt did."""
    wait_mean_s: float
    wait_max_s: float
    run_s: float
    cpu_s: float
    cpu_used_s: float | None
    cpu_measured_s: float
    """The part of `cpu_s` whose use is known; likewise below."""
    cpu_wasted_s: float | None
    """The known part, less what was used of it; likewise below."""
    mem_mb_s: int
    mem_used_mb_s: int | None
    mem_measured_mb_s: int
    mem_wasted_mb_s: int | None
    gpu_s: float
    gpu_used_s: float | None
    gpu_measured_s: float
    gpu_wasted_s: float | None
    gpu_hours: int | float
    lost_s: float
    """Running time that was thrown away."""
    lost_gpu_s: float
    cost: float | None
    """Null unless there are prices."""
    wait_p50_s: float | None = None
    """Half of the attempts waited no longer, rounded down to two digits; null, as the next three, unless
    `detail` was asked for."""
    wait_p90_s: float | None = None
    failed_s: float | None = None
    """Running time of tasks that failed in the end."""
    failed_gpu_s: float | None = None


class ReportRowOut(msgspec.Struct, kw_only=True):
    keys: Mapping[str, str]
    """By what the report was asked by; of a time the day it begins."""
    figures: FiguresOut


class ReportOut(msgspec.Struct, kw_only=True):
    """Who used how much."""

    since: str | None
    until: str
    by: Sequence[GroupBy]
    covers: str
    """Whose use is in it, in words."""
    currency: str | None
    rows: Sequence[ReportRowOut]
    total: FiguresOut


def folded(
    rows: Iterable[ReportRow], width: int, prices: Prices
) -> tuple[list[tuple[tuple[str, ...], Figures, int]], tuple[Figures, int]]:
    """Rows that agree in their first `width` keys made into one, each with what it costs, and the total. What
    follows those keys, if anything, is the GPUs' model."""
    sums: dict[tuple[str, ...], tuple[Figures, int]] = {}
    total = (Figures(), 0)
    for row in rows:
        model = row.keys[width] if len(row.keys) > width else ""
        part = (row.figures, _cost(row.figures, prices.of_model(model), prices))
        sums[row.keys[:width]] = _plus(sums.get(row.keys[:width], (Figures(), 0)), part)
        total = _plus(total, part)
    return [(keys, *sums[keys]) for keys in sorted(sums)], total


def _plus(one: tuple[Figures, int], other: tuple[Figures, int]) -> tuple[Figures, int]:
    return one[0].plus(other[0]), one[1] + other[1]


def _cost(figures: Figures, gpu_price: int, prices: Prices) -> int:
    """In millionths of the currency."""
    by_time = figures.gpu_ms * gpu_price + figures.cpu_ms * prices.cpu
    return by_time // _HOUR_MS + figures.memory_mib_s * prices.memory_gb // _GB_HOUR


def figures_out(figures: Figures, cost: int | None, detail: ReportDetail | None = None) -> FiguresOut:
    mean_ms = figures.wait_ms / figures.attempts if figures.attempts else 0
    cpu = _used(figures.told_cpu_ms, figures.used_cpu_ms)
    memory = _used(figures.told_memory_mib_s, figures.used_memory_mib_s)
    gpu = _used(figures.told_gpu_ms, figures.used_gpu_ms)
    return FiguresOut(
        attempts=figures.attempts,
        jobs=figures.jobs,
        wait_mean_s=round(mean_ms / 1000, 3),
        wait_max_s=figures.longest_wait_ms / 1000,
        run_s=figures.run_ms / 1000,
        cpu_s=figures.cpu_ms / 1000,
        cpu_used_s=_seconds(cpu[0]),
        cpu_measured_s=figures.told_cpu_ms / 1000,
        cpu_wasted_s=_seconds(cpu[1]),
        mem_mb_s=figures.memory_mib_s,
        mem_used_mb_s=memory[0],
        mem_measured_mb_s=figures.told_memory_mib_s,
        mem_wasted_mb_s=memory[1],
        gpu_s=figures.gpu_ms / 1000,
        gpu_used_s=_seconds(gpu[0]),
        gpu_measured_s=figures.told_gpu_ms / 1000,
        gpu_wasted_s=_seconds(gpu[1]),
        gpu_hours=gpu_hours(figures.gpu_ms),
        lost_s=figures.lost_ms / 1000,
        lost_gpu_s=figures.lost_gpu_ms / 1000,
        cost=None if cost is None else cost / MILLION,
        wait_p50_s=None if detail is None else _seconds(detail.wait_percentile(50)),
        wait_p90_s=None if detail is None else _seconds(detail.wait_percentile(90)),
        failed_s=None if detail is None else detail.failed_ms / 1000,
        failed_gpu_s=None if detail is None else detail.failed_gpu_ms / 1000,
    )


def _used(told: int, used: int) -> tuple[int | None, int | None]:
    """What was used, and what was wasted; nothing, if nothing is known of either."""
    return (used, max(0, told - used)) if told or used else (None, None)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def as_csv(report: ReportOut) -> str:
    """One line per row, without the total: whoever adds up a column gets that."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = FiguresOut.__struct_fields__
    writer.writerow([*(each.value for each in report.by), *names])
    for row in report.rows:
        figures: dict[str, Any] = msgspec.structs.asdict(row.figures)
        writer.writerow(
            [
                *map(_cell, row.keys.values()),
                *("" if figures[name] is None else figures[name] for name in names),
            ]
        )
    return text.getvalue()


def _cell(text: str) -> str:
    """Not a formula to any spreadsheet, which begins with one of these."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
