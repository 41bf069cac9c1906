"""What a task uses, for people: in a line as it is now, or drawn over its time."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.screen import clean

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from tgpu.cli.screen import Screen

_LEVELS = "▁▂▃▄▅▆▇█"
_WIDTH = 80
_LABEL, _FIGURES = 12, 34
_LEAST, _MOST = 10, 60
_LEAST_DRAWN = 0.1
"""CPUs, MiB or percent: what is always less is next to nothing, and is drawn so."""
_MEANS = (
    ("cpu", "CPUs"),
    ("memory_mb", "memory"),
    ("swap_mb", "swap"),
    ("gpu_percent", "GPUs"),
    ("gpu_memory_mb", "GPU memory"),
)
_SUMS = (
    ("disk_read_mb", "disk read"),
    ("disk_written_mb", "disk written"),
    ("net_received_mb", "net in"),
    ("net_sent_mb", "net out"),
)


def use_now(course: dict[str, Any]) -> str:
    """`1.9 CPUs, 2.1G memory, GPUs 91 %, 12M/s read`."""
    latest = course.get("latest") or {}
    seconds = float(latest.get("seconds") or 0)
    parts = [f"{words.number(round(latest['cpu'], 2))} CPUs"] if "cpu" in latest else []
    parts += [f"{_size(latest['memory_mb'])} memory"] if "memory_mb" in latest else []
    parts += [f"GPUs {latest['gpu_percent']:.0f} %"] if "gpu_percent" in latest else []
    parts += [f"{_size(latest['gpu_memory_mb'])} GPU memory"] if "gpu_memory_mb" in latest else []
    for name, label in _SUMS:
        if seconds and latest.get(name, 0) / seconds >= 1:
            parts.append(f"{label} {_size(latest[name] / seconds)}/s")
    return ", ".join(parts)


def use_chart(screen: Screen, job_id: int, course: dict[str, Any]) -> Iterator[str]:
    columns = course["columns"]
    seconds = columns.get("seconds") or []
    cells = max(_LEAST, min(_MOST, (screen.width or _WIDTH) - _LABEL - _FIGURES - 4))
    title = screen.paint(f"Job {job_id}", "bold")
    attempt, node = clean(course["attempt_id"]), clean(course["node_id"])
    yield f"{title}  {attempt} on {node}, {words.duration(sum(seconds))} from left to right"
    for name, label in _MEANS:
        if _is_told(columns.get(name)):
            yield _line(
                screen, label, _drawn(columns[name], seconds, cells), _figures(name, columns, seconds)
            )
    for name, label in _SUMS:
        if _is_told(columns.get(name)):
            rates = [
                None if value is None else value / (s or 1)
                for value, s in zip(columns[name], seconds, strict=True)
            ]
            total = sum(value for value in columns[name] if value is not None)
            yield _line(screen, label, _drawn(rates, seconds, cells), f"{_size(total)} in all")
    if course.get("throttled_percent"):
        yield f"  held back {course['throttled_percent']} % of the time by its limit of CPUs"


def _line(screen: Screen, label: str, drawn: str, figures: str) -> str:
    return f"  {screen.paint(f'{label:<{_LABEL}}', 'dim')} {screen.paint(drawn, 'green')}  {figures}"


def _is_told(column: Sequence[float | None] | None) -> bool:
    """And not always nothing, which needs no line."""
    return any(column or ())


def _figures(name: str, columns: dict[str, Any], seconds: Sequence[float]) -> str:
    told = [(value, s) for value, s in zip(columns[name], seconds, strict=True) if value is not None]
    mean = sum(value * s for value, s in told) / (sum(s for _, s in told) or 1)
    most = max(value for value in columns[f"{name}_peak"] if value is not None)
    say = _size if name.endswith("_mb") else _percent if name == "gpu_percent" else _count
    return f"mean {say(mean)}, most {say(most)}"


def _drawn(values: Sequence[float | None], seconds: Sequence[float], cells: int) -> str:
    """From zero to the largest mean that is worth a mark; each cell is an equal part of the time."""
    whole = sum(seconds) or 1.0
    sums, weights = [0.0] * cells, [0.0] * cells
    at = 0.0
    for value, length in zip(values, seconds, strict=True):
        first, last = at / whole * cells, (at + length) / whole * cells
        at += length
        for cell in range(int(first), min(cells, int(last) + 1)):
            part = min(last, cell + 1) - max(first, cell)
            if value is not None and part > 0:
                sums[cell] += value * part
                weights[cell] += part
    means = [total / weight if weight else None for total, weight in zip(sums, weights, strict=True)]
    most = max((mean for mean in means if mean is not None), default=0.0)
    most = max(most, _LEAST_DRAWN)
    return "".join(" " if mean is None else _LEVELS[min(7, int(8 * mean / most))] for mean in means)


def _size(mib: float) -> str:
    return words.size(round(mib, 1) if mib < 1024 else round(mib))  # noqa: PLR2004  a gigabyte


def _percent(value: float) -> str:
    return f"{value:.0f} %"


def _count(value: float) -> str:
    return words.number(round(value, 2))
