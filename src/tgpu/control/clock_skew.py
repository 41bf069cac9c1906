"""A node whose clock is wrong: the times in its reports are read by the difference to the server's clock."""

from collections.abc import Callable
from dataclasses import replace

import msgspec

from tgpu.domain.job import Exit
from tgpu.domain.quantities import MAX_TIME_MS
from tgpu.observe.logs import logger
from tgpu.protocol.messages import AttemptReport, FromAgent, Hello, Report

WORTH_IT_MS = 2000
"""Below, the difference may as well be the way that the hello took."""
_log = logger("clock")


class NodeClock:
    """Of one session: set by its hello, and then what every report is read by."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._shift_ms = 0

    def read(self, message: FromAgent) -> FromAgent:
        """The same message, with its times on the server's clock."""
        if isinstance(message, Hello):
            self._set(message)
        if not self._shift_ms or not isinstance(message, Hello | Report):
            return message
        return msgspec.structs.replace(message, attempts=tuple(map(self._attempt, message.attempts)))

    def _set(self, hello: Hello) -> None:
        ahead_ms = hello.clock_ms - self._now_ms() if hello.clock_ms else 0
        self._shift_ms = -ahead_ms if abs(ahead_ms) > WORTH_IT_MS else 0
        if self._shift_ms:
            _log.warning(
                "a node's clock is wrong, and its reports are corrected; synchronise it, e.g. with chrony",
                node_id=hello.node_id,
                ahead_s=round(ahead_ms / 1000, 1),
            )

    def _attempt(self, report: AttemptReport) -> AttemptReport:
        return msgspec.structs.replace(
            report,
            started_ms=self._moved(report.started_ms),
            exit=None if report.exit is None else self._exit(report.exit),
        )

    def _exit(self, how: Exit) -> Exit:
        ended_ms = (self._moved(how.ended_ms) or 0) if how.ended_ms else 0  # 0: nobody saw it end
        return replace(how, started_ms=self._moved(how.started_ms), ended_ms=ended_ms)

    def _moved(self, ms: int | None) -> int | None:
        """Whatever a node's clock says, a time that can be written."""
        return None if ms is None else min(max(0, ms + self._shift_ms), MAX_TIME_MS)
