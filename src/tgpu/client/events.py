"""The server's feed of events, read as it comes (server-sent events)."""

from __future__ import annotations

import json
import time

from tgpu.client.errors import DroppedError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

    from tgpu.client.session import Session

_AT_ONCE_S = 0.001
"""And not 0, which would mean "do not wait" to a socket."""

_MAX_EVENT = 4 * 1024 * 1024


class EventStream:
    """An open feed: subscribed from the moment it exists. A timeout leaves it whole."""

    def __init__(
        self, session: Session, *, after: int | None = None, job_id: int | None = None, mine: bool = False
    ) -> None:
        """`mine`: only of the caller's own jobs."""
        self._connection, self._response = session.stream(
            "/events",
            {"after": after, "job_id": job_id, "mine": mine or None},
            {"Accept": "text/event-stream"},
        )
        self._pending = b""
        self._data: list[str] = []
        self._id = ""
        self.last_id = after

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def next(self, timeout: float) -> dict[str, Any]:
        """The next event. Raises ReadTimeoutError if none came, however many heartbeats did, and DroppedError
        when the feed has ended."""
        until = time.monotonic() + timeout
        while True:
            line, found, rest = self._pending.partition(b"\n")
            if not found:
                self._connection.set_timeout(max(_AT_ONCE_S, until - time.monotonic()))
                piece = self._response.read_some()
                if not piece:
                    raise DroppedError("the server ended its feed of events")
                self._pending += piece
                if len(self._pending) + sum(map(len, self._data)) > _MAX_EVENT:
                    raise DroppedError("the server sent an event that is too large")
                continue
            self._pending = rest
            event = self._take(line.decode("utf-8", "replace").rstrip("\r"))
            if event is not None:
                return event

    def _take(self, line: str) -> dict[str, Any] | None:
        """One line of the feed; an empty one closes an event, one that begins with a colon is a heartbeat."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line and name == "data":
            self._data.append(value)
        elif line and name == "id":
            self._id = value
        elif not line and self._data:
            text, self._data = "\n".join(self._data), []
            if self._id.isascii() and self._id.isdigit():
                self.last_id = int(self._id)
            event = json.loads(text)
            return event if isinstance(event, dict) else {"data": event}
        return None
