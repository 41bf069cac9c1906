"""One reader's way through a task's output, across attempts if need be."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from operator import itemgetter

from tgpu.api.ports import LogUnavailableError
from tgpu.api.services import Services
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Attempt
from tgpu.domain.log_times import LogTimes
from tgpu.store.task_paging import TaskPaging

PART_BYTES = 256 * 1024
_FIRST_TAIL = 64 * 1024
_MAX_TAIL = 64 * 1024 * 1024
_WAIT_S = 2.0
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Chunk:
    offset: int
    data: bytes
    at_end: bool
    """Nothing follows, and nothing will."""
    times: LogTimes = ()

    @property
    def next_offset(self) -> int:
        return self.offset + len(self.data)

    def parts(self, begin: int, size: int) -> Iterator["Chunk"]:
        """What it has from this offset on, in parts of at most this size; one at least."""
        while True:
            end = min(begin + size, self.next_offset)
            data = self.data[begin - self.offset : end - self.offset]
            at_end = self.at_end and end == self.next_offset
            yield Chunk(begin, data, at_end, self._times(begin, end))
            if end == self.next_offset:
                return
            begin = end

    def followed_by(self, more: "Chunk") -> "Chunk":
        times = more.times or (((more.offset, None),) if self.times else ())
        return Chunk(self.offset, self.data + more.data, more.at_end, self.times + times)

    def _times(self, begin: int, end: int) -> LogTimes:
        first = bisect_right(self.times, begin, key=itemgetter(0))
        last = bisect_left(self.times, end, first, key=itemgetter(0))
        holds = tuple((begin, us) for _, us in self.times[max(0, first - 1) : first])
        return holds + self.times[first:last]


class LogStream:
    def __init__(self, services: Services, task_id: TaskId, stream: str, *, follow: bool) -> None:
        self._services, self._task_id, self.name, self._follow = services, task_id, stream, follow

    async def read(
        self, attempt: Attempt, offset: int, max_bytes: int = PART_BYTES, wait_s: float = 0.0
    ) -> Chunk:
        return Chunk(
            *await self._services.logs.read(
                attempt.node_id, str(attempt.attempt_id), self.name, offset, max_bytes, wait_s
            )
        )

    async def tail(self, attempt: Attempt, lines: int) -> Chunk:
        """The last lines: looks back further and further until there are enough of them."""
        size = _FIRST_TAIL
        while True:
            chunk = await self._last(attempt, size)
            start = _start_of_last(chunk.data, lines)
            if start is not None or len(chunk.data) < size or size >= _MAX_TAIL:
                start = chunk.offset + (start or 0)
                return next(chunk.parts(start, max(1, chunk.next_offset - start)))
            size *= 8

    async def _last(self, attempt: Attempt, size: int) -> Chunk:
        chunk = await self.read(attempt, -size, size)
        while chunk.data and not chunk.at_end and len(chunk.data) < size:
            more = await self.read(attempt, chunk.next_offset, size - len(chunk.data))
            if not more.data:
                break
            chunk = chunk.followed_by(more)
        return chunk

    async def chunks(
        self, attempt: Attempt | None, first: Chunk, *, only: bool
    ) -> AsyncIterator[tuple[Attempt, Chunk]]:
        """`only`: this attempt and no other."""
        if attempt is not None:
            async for chunk in self._rest(attempt, first):
                yield attempt, chunk
        while self._follow and not only:
            attempt = await self._next_attempt(attempt)
            if attempt is None:
                return
            async for chunk in self._rest(attempt, Chunk(0, b"", at_end=False)):
                yield attempt, chunk

    async def _rest(self, attempt: Attempt, chunk: Chunk) -> AsyncIterator[Chunk]:
        while True:
            if chunk.data:
                yield chunk
            if chunk.at_end or (not self._follow and not chunk.data) or self._services.feed.closed:
                return
            try:
                chunk = await self.read(attempt, chunk.next_offset, wait_s=_WAIT_S if self._follow else 0.0)
            except LogUnavailableError:
                # The agent may just be restarting: its tasks run on, and so does whoever follows them.
                if not self._follow or await self._has_ended():
                    return
                chunk = Chunk(chunk.next_offset, b"", at_end=False)
                await asyncio.sleep(_POLL_S)

    async def _has_ended(self) -> bool:
        """Of several tasks each may end before the others."""
        job = await self._services.store.job(self._task_id.job_id)
        if job is None or job.status.is_final or job.counts is None:
            return job is None or job.status.is_final
        page = TaskPaging(limit=1, after=self._task_id.task_index - 1)
        tasks = await self._services.store.tasks(job.job_id, page)
        return not tasks or tasks[0].status.is_final

    async def _next_attempt(self, last: Attempt | None) -> Attempt | None:
        """Waits for the one after `last`; None once the task has ended without another."""
        number = last.attempt_id.number if last else 0
        while not self._services.feed.closed:
            ended = await self._has_ended()
            for attempt in await self._services.store.attempts(self._task_id.job_id):
                if attempt.attempt_id.task_id == self._task_id and attempt.attempt_id.number > number:
                    return attempt
            if ended:
                return None
            await asyncio.sleep(_POLL_S)
        return None


def _start_of_last(data: bytes, lines: int) -> int | None:
    """Where the last so many lines begin, if that is certain from this much of the end."""
    if lines == 0:
        return len(data)
    end = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines):
        end = data.rfind(b"\n", 0, end)
        if end < 0:
            return None
    return end + 1
