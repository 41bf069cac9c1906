"""A report for people: who was given how much, how much of it was used, and what it comes to."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.screen import clean
from tgpu.cli.table import Column, table

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_FIGURES = (
    Column("JOBS", right=True),
    Column("TRIES", right=True, rank=9),
    Column("WAIT", right=True, rank=4),
    Column("GPU-HOURS", right=True),
    Column("GPU-USED", right=True),
    Column("GPU-WASTED", right=True, rank=2),
    Column("GPU-LOST", right=True, rank=3),
    Column("CPU-HOURS", right=True, rank=5),
    Column("CPU-USED", right=True, rank=6),
    Column("GB-HOURS", right=True, rank=7),
    Column("GB-USED", right=True, rank=8),
    Column("COST", right=True),
)
_HOUR = 3600
_GB_HOUR = 1024 * 3600


def report_lines(screen: Screen, report: dict[str, Any]) -> Iterator[str]:
    if not report["rows"]:
        yield f"nothing ran in that time ({report['covers']})"
        return
    keys = [Column(name.upper(), floor=8) for name in report["by"]]
    rows = [[*map(key_words, row["keys"].items()), *cells(row["figures"])] for row in report["rows"]]
    total = ["total", *("" for _ in keys[1:]), *cells(report["total"])]
    yield from table(screen, [*keys, *_FIGURES], [*rows, total])
    yield from footnotes(report)


def footnotes(report: dict[str, Any]) -> Iterator[str]:
    """What must be known to read the figures."""
    total = report["total"]
    if 0 < total["gpu_measured_s"] < total["gpu_s"]:
        part = 100 * total["gpu_measured_s"] / total["gpu_s"]
        yield f"GPU-USED and GPU-WASTED are of the {part:.0f} % of the GPU-hours of which it is known"
    if report["covers"] != "everybody":
        yield f"of {report['covers']}"
    if report.get("currency"):
        yield f"cost in {clean(report['currency'])}"


def key_words(key: tuple[str, Any]) -> str:
    """What a row is about, also where that has no name."""
    name, value = key
    return clean(value) if value else "no GPU" if name == "gpu-type" else "-"


def cells(figures: dict[str, Any]) -> list[str]:
    has_gpus = bool(figures["gpu_s"])
    return [
        str(figures["jobs"]),
        str(figures["attempts"]),
        words.duration(figures["wait_mean_s"]),
        hours(figures["gpu_s"]) if has_gpus else "",
        _percent(figures["gpu_used_s"], figures["gpu_measured_s"]),
        hours(figures["gpu_wasted_s"]) if figures["gpu_measured_s"] else "",
        hours(figures["lost_gpu_s"]) if has_gpus and figures["lost_gpu_s"] else "",
        hours(figures["cpu_s"]),
        _percent(figures["cpu_used_s"], figures["cpu_measured_s"]),
        f"{figures['mem_mb_s'] / _GB_HOUR:.2f}" if figures["mem_mb_s"] else "",
        _percent(figures["mem_used_mb_s"], figures["mem_measured_mb_s"]),
        "" if figures["cost"] is None else f"{figures['cost']:.2f}",
    ]


def hours(seconds: float) -> str:
    return f"{seconds / _HOUR:.2f}"


def _percent(used: float | None, measured: float) -> str:
    return "" if used is None or not measured else f"{100 * used / measured:.0f}%"
