"""What can go wrong between a client and its server."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` costs 6 ms of every start; type checkers read this name just as well
if TYPE_CHECKING:
    from typing import Any


class TgpuError(Exception):
    """The server's refusal. `detail` is one sentence that says what to do; `problem` is all it answered."""

    def __init__(
        self, status: int, title: str, detail: str = "", problem: dict[str, Any] | None = None
    ) -> None:
        super().__init__(detail or title)
        self.status = status
        self.title = title
        self.detail = detail
        self.problem = problem or {}


class UnreachableError(TgpuError):
    """Nobody answered: no server there, or no way to it."""

    def __init__(self, detail: str) -> None:
        super().__init__(0, "no server", detail)


class SilentError(UnreachableError):
    """The server was asked and did not answer in time."""


class DroppedError(UnreachableError):
    """The server went away in the middle of an answer."""


class ReadTimeoutError(Exception):
    """Nothing came for the time given; the stream is whole and may be read further."""


class WaitTimeoutError(Exception):
    """The time given to `wait` is over and these jobs, or tasks of jobs, have not ended."""

    def __init__(self, job_ids: list[int | str]) -> None:
        super().__init__(f"not ended in time: {', '.join(map(str, job_ids))}")
        self.job_ids = job_ids
