"""Rate limit for repeated log lines: no caller can fill a disk by provoking one message again and again."""

import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog

PER_WINDOW = 100
WINDOW_S = 60.0
MOST_KEYS = 1000
KEY = "_repeats"
"""A field by which a message is recognised again although its text differs; it is not printed."""


@dataclass(slots=True)
class _Window:
    ends: float
    lines: int = 0
    suppressed: int = 0


class RepetitionLimit:
    """A structlog processor: at most 100 lines per message and minute. The first line of the next minute
    says how many were suppressed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[tuple[object, object], _Window] = {}

    def __call__(
        self, _logger: object, _method: str, fields: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        key = (fields.get("part"), fields.pop(KEY, None) or fields.get("event"))
        now = self._clock()
        window = self._windows.get(key)
        if window is None or now >= window.ends:
            if window is not None and window.suppressed:
                fields["suppressed"] = window.suppressed
            self._windows.pop(key, None)
            self._make_room(now)
            window = self._windows[key] = _Window(now + WINDOW_S)
        if window.lines >= PER_WINDOW:
            window.suppressed += 1
            raise structlog.DropEvent
        window.lines += 1
        return fields

    def _make_room(self, now: float) -> None:
        """Oldest first: windows stand in the order in which they began."""
        for key, window in list(self._windows.items()):
            if len(self._windows) < MOST_KEYS and window.ends > now:
                return
            if len(self._windows) >= MOST_KEYS or not window.suppressed:
                del self._windows[key]
