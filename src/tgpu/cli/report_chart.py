"""A report drawn in the terminal: bars from zero on one linear scale, or columns if it is over time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from tgpu.cli.report_table import key_words

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from tgpu.cli.screen import Screen

_TIMES = frozenset({"day", "week", "month"})
_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEVELS = " ▁▂▃▄▅▆▇"
_FULL = "█"
_HEIGHT = 10
_WIDTH = 80
_LEAST_BAR = 10
_WIDE, _NARROW = 3, 2  # of a column, with the blank behind it
_HOUR = 3600


def chart(screen: Screen, report: dict[str, Any]) -> Iterator[str]:
    """Of GPU-hours; of CPU-hours where nobody had a GPU."""
    unit, name = ("GPU-hours", "gpu_s") if report["total"]["gpu_s"] else ("CPU-hours", "cpu_s")
    points = [
        ("  ".join(map(key_words, row["keys"].items())), row["figures"][name] / _HOUR)
        for row in report["rows"]
    ]
    if not points:
        yield f"nothing ran in that time ({report['covers']})"
        return
    if len(report["by"]) == 1 and report["by"][0] in _TIMES:
        room = (screen.width or _WIDTH) - _LEAST_BAR
        first = date.fromisoformat(points[0][0])
        for begin in (_first_day(report) or first, first):
            filled = _with_gaps(points, report, begin)
            for wide in _WIDE, _NARROW:
                if wide * len(filled) <= room:
                    yield from _columns(screen, filled, unit, wide)
                    return
        points = filled
    yield from _bars(screen, points, unit)


def _bars(screen: Screen, points: Sequence[tuple[str, float]], unit: str) -> Iterator[str]:
    most = max(value for _, value in points)
    label = max(len(text) for text, _ in points)
    figure = max(len(f"{value:.2f}") for _, value in points)
    room = max(_LEAST_BAR, (screen.width or _WIDTH) - label - figure - 4)
    for text, value in points:
        bar = _filled(value / most * room if most else 0)
        yield f"{text:<{label}}  {value:>{figure}.2f}  {screen.paint(bar, 'green')}".rstrip()
    yield f"{unit}; a full bar is {most:.2f}"


def _filled(length: float) -> str:
    eighths = round(8 * length)
    return (_FULL * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _columns(screen: Screen, points: Sequence[tuple[str, float]], unit: str, wide: int) -> Iterator[str]:
    most = max(value for _, value in points)
    heights = [round(8 * _HEIGHT * value / most) if most else 0 for _, value in points]
    axis = max(len(f"{most:.2f}"), 4)
    for line in range(_HEIGHT, 0, -1):
        shown = {_HEIGHT: most, _HEIGHT // 2: most / 2}.get(line)
        left = " " * axis if shown is None else f"{shown:>{axis}.2f}"
        cells = [_cell(height - 8 * (line - 1)) for height in heights]
        yield f"{left} │{screen.paint(''.join(f'{cell * (wide - 1)} ' for cell in cells).rstrip(), 'green')}"
    yield f"{0:>{axis}.2f} └{'─' * wide * len(points)}"
    # Narrow columns have a name for every second one.
    every = 1 if wide == _WIDE else 2
    names = "".join(f"{text[-2:]:<{every * wide}}" for text, _ in points[::every])
    yield f"{' ' * axis}  {names}".rstrip()
    yield f"{unit}, from {points[0][0]} to {points[-1][0]} UTC"


def _cell(eighths: int) -> str:
    return _FULL if eighths >= 8 else _LEVELS[max(0, eighths)]  # noqa: PLR2004  of a line


def _with_gaps(
    points: Sequence[tuple[str, float]], report: dict[str, Any], begin: date
) -> list[tuple[str, float]]:
    """With the days, weeks or months in which nothing ran."""
    values = dict(points)
    unit = report["by"][0]
    last = max(date.fromisoformat(points[-1][0]), _last_day(report["until"]))
    filled = []
    while begin <= last:
        filled.append((begin.isoformat(), values.get(begin.isoformat(), 0.0)))
        begin = _next(unit, begin)
    return filled


def _first_day(report: dict[str, Any]) -> date | None:
    """On which the first day, week or month begins of which some part was asked for."""
    if not report.get("since"):
        return None
    day = datetime.fromisoformat(report["since"]).astimezone(UTC).date()
    if report["by"][0] == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if report["by"][0] == "month" else day


def _last_day(until: str) -> date:
    """The last one of which some part is before that moment."""
    return (datetime.fromisoformat(until).astimezone(UTC) - timedelta(milliseconds=1)).date()


def _next(unit: str, day: date) -> date:
    if unit == "month":
        return (day + timedelta(days=31)).replace(day=1)
    return day + timedelta(days=7 if unit == "week" else 1)
