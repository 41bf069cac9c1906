"""What a tenant may have and what it has, as bars for people."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.screen import clean

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_WIDTH = 20
_FULL, _TIGHT = 1.0, 0.8
_LEAST = 0.001
_DIGITS = ((0.1, 3), (10, 2))
"""Of GPU-hours: below how many, so many digits."""
_PER = {"day": "today", "week": "this week", "month": "this month", "ever": "in all"}


class Gauge:
    """One resource: what is used of a limit, if there is one."""

    __slots__ = ("burst", "label", "limit", "note", "say", "used", "what")

    def __init__(
        self,
        label: str,
        used: float,
        limit: float | None,
        say: Callable[[float], str] = words.number,
        *,
        burst: float = 0,
        what: str = "",
        note: str = "",
    ) -> None:
        self.label = label
        self.used, self.limit, self.burst = used, limit, burst
        self.say = say
        self.what = what or label
        """As it is called after a number."""
        self.note = note
        """What must be known to read the figure."""

    @property
    def is_of_gpus(self) -> bool:
        """Of a model: what is left of all GPUs bounds it, too."""
        return self.what.startswith("GPUs of ")

    @property
    def left(self) -> float | None:
        return None if self.limit is None else max(0, self.limit - self.used)


def gauges(quota: dict[str, Any]) -> Iterator[Gauge]:
    """Of everything that a quota counts, whether or not it is limited."""
    yield Gauge("GPUs", *_pair(quota, "gpu_used", "gpu_limit"), burst=quota.get("gpu_burst") or 0)
    used, burst = quota.get("gpu_type_used") or {}, quota.get("gpu_type_burst") or {}
    for model, limit in (quota.get("gpu_type_limits") or {}).items():
        yield Gauge(
            f"GPUs {model}",
            used.get(model) or 0,
            limit,
            burst=burst.get(model) or 0,
            what=f"GPUs of {model}",
        )
    yield Gauge("CPUs", *_pair(quota, "cpu_used", "cpu_limit"), burst=quota.get("cpu_burst") or 0)
    for label, name in (("memory", "mem"), ("disk", "disk")):
        yield Gauge(
            label,
            *_pair(quota, f"{name}_used_mb", f"{name}_limit_mb"),
            words.size,
            burst=quota.get(f"{name}_burst_mb") or 0,
        )
    taken, beyond = quota.get("generic_used") or {}, quota.get("generic_burst") or {}
    for resource, limit in (quota.get("generic_limits") or {}).items():
        yield Gauge(resource, taken.get(resource) or 0, limit, burst=beyond.get(resource) or 0)
    yield Gauge("running", *_pair(quota, "running_jobs_used", "running_jobs_limit"), what="running tasks")
    yield Gauge("waiting", *_pair(quota, "waiting_jobs_used", "waiting_jobs_limit"), what="waiting tasks")
    per = _PER.get(str(quota.get("gpu_hours_period")), "")
    yield Gauge(
        "GPU-hours",
        *_pair(quota, "gpu_hours_used", "gpu_hours_limit"),
        hours,
        what=f"GPU-hours {per}".strip(),
        note=f"{per}: {spent(quota)}".removeprefix(": "),
    )


def spent(quota: dict[str, Any]) -> str:
    """`0.1 used, 48 reserved by what runs`: the two parts of what counts."""
    kept = quota.get("gpu_hours_reserved") or 0
    used = max(0, (quota.get("gpu_hours_used") or 0) - kept)
    return f"{hours(used)} used" + (f", {hours(kept)} reserved by what runs" if kept else "")


def bars(screen: Screen, quota: dict[str, Any]) -> Iterator[str]:
    """A line for each limit, then what is used without one."""
    every = list(gauges(quota))
    limited = [gauge for gauge in every if gauge.limit is not None]
    width = max((len(clean(gauge.label)) for gauge in limited), default=0)
    figures = [_figure(gauge) for gauge in limited]
    wide = max(map(len, figures), default=0)
    for gauge, figure in zip(limited, figures, strict=True):
        left = gauge.left or 0
        tail = f"{gauge.note}; ".removeprefix("; ") + (f"{gauge.say(left)} left" if left else "nothing left")
        lead = f"  {clean(gauge.label):<{width}}  {_bar(screen, gauge)}"
        yield f"{lead}  {figure:>{wide}}  {tail}{_burst(gauge)}"
    unlimited = [gauge for gauge in every if gauge.limit is None and gauge.used]
    free = [
        f"{gauge.label} {gauge.note}" if gauge.note else _amount(gauge, gauge.used) for gauge in unlimited
    ]
    if not limited:
        yield "  no limits" + (f"; in use: {', '.join(free)}" if free else "")
    elif free:
        yield f"  without limit: {', '.join(free)}"


def left_over(quotas: Iterable[dict[str, Any]]) -> str:
    """`2 GPUs, 512G memory`: what all levels together leave; empty if nothing is limited."""
    least: dict[str, tuple[float, Gauge]] = {}
    for quota in quotas:
        for gauge in gauges(quota):
            left = gauge.left
            if left is not None and (gauge.what not in least or left < least[gauge.what][0]):
                least[gauge.what] = (left, gauge)
    gpus = least["GPUs"][0] if "GPUs" in least else None
    return ", ".join(
        _amount(gauge, left if gpus is None or not gauge.is_of_gpus else min(left, gpus))
        for left, gauge in least.values()
    )


def hours(value: float) -> str:
    """`0.25`, `120`: as exact as anybody wants to read it; a little is not nothing."""
    if 0 < value < _LEAST:
        return f"<{_LEAST}"
    digits = next((digits for below, digits in _DIGITS if value < below), 1)
    return words.number(round(value, digits))


def _amount(gauge: Gauge, number: float) -> str:
    what = gauge.what
    if number == 1:
        for many in ("GPUs", "CPUs", "jobs", "hours"):
            what = what.replace(many, many[:-1])
    return f"{gauge.say(number)} {clean(what)}"


def _figure(gauge: Gauge) -> str:
    return f"{gauge.say(gauge.used)}/{gauge.say(gauge.limit or 0)}"


def _burst(gauge: Gauge) -> str:
    return f", {gauge.say(gauge.burst)} on the burst" if gauge.burst else ""


def _bar(screen: Screen, gauge: Gauge) -> str:
    """Full only when nothing is left, empty only when nothing is used."""
    part = _FULL if not gauge.limit else gauge.used / gauge.limit
    filled = min(_WIDTH, int(part * _WIDTH)) or (1 if gauge.used else 0)
    style = "red" if part >= _FULL else "yellow" if part >= _TIGHT else "green"
    return screen.paint("█" * filled, style) + "░" * (_WIDTH - filled)


def _pair(quota: dict[str, Any], used: str, limit: str) -> tuple[float, float | None]:
    return quota.get(used) or 0, quota.get(limit)
