"""A job's output as bytes: what there is, or everything until the job has ended."""

from __future__ import annotations

from tgpu.client.errors import ReadTimeoutError, TgpuError, UnreachableError
from tgpu.client.log_parts import JSON_LINES, chunks_of, parts_of
from tgpu.client.task_names import parted
from tgpu.client.waiting import FINAL, is_passing, nudges

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tgpu.client.client import Client
    from tgpu.client.transport import Connection, Response

    Chunk = tuple[str | None, bytes]
    """When it arrived on its node (RFC 3339; None: not known), and the bytes."""

_LIVE = frozenset({"scheduled", "running"})
_BAD_REQUEST = 400
_QUIET_S = 20.0
_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 3.0


class Standing:
    """Where a task stands: its latest attempt, whether that lives, and whether there will be no other."""

    __slots__ = ("is_final", "is_live", "latest")

    def __init__(self, latest: int, is_live: bool, is_final: bool) -> None:
        self.latest = latest
        self.is_live = is_live
        self.is_final = is_final


class Output:
    """One stream of one task of a job. It knows where the next read begins, so a broken read goes on there.

    `on_lost` hears, once, from which byte to which the output is no longer kept.
    """

    def __init__(
        self,
        client: Client,
        job_id: int,
        stream: str,
        *,
        task: int | None = None,
        attempt: int | None = None,
        tail: int | None = None,
        timed: bool = False,
        on_lost: Callable[[int, int], None] | None = None,
    ) -> None:
        """`timed`: asks for times, which `read` and `follow` need not."""
        self.client = client
        self._job_id = job_id
        self._stream = stream
        self._task = task
        self._only = attempt
        self._tail = tail
        self._timed = timed
        self._offset: int | None = None
        self._attempt: int | None = None
        """The attempt that the offset belongs to, if the server names it."""
        self._on_lost = on_lost

    def read(self) -> Iterator[bytes]:
        """What there is now, of the attempt asked for or of the latest."""
        return (data for _, data in self.chunks())

    def follow(self) -> Iterator[bytes]:
        """Everything until the task ends, through new attempts too unless one was named."""
        return (data for _, data in self.follow_chunks())

    def chunks(self) -> Iterator[Chunk]:
        """As `read`, with times."""
        return self._pieces(self._only, follow=False)

    def follow_chunks(self) -> Iterator[Chunk]:
        """As `follow`, with times; after `chunks`, what comes behind that."""
        number = self._only or self._next_attempt(after=0)
        if self._attempt not in {None, number}:
            self._tail, self._offset = None, 0
        while number is not None:
            yield from self._follow_attempt(number)
            self._tail, self._offset = None, 0
            number = None if self._only else self._next_attempt(after=number)

    def _next_attempt(self, after: int) -> int | None:
        """The latest attempt once it is a later one; None if the task ends without."""
        for _ in nudges(self.client, [self._job_id]):
            standing = self._standing()
            if standing is not None:
                if standing.latest > after:
                    return standing.latest
                if standing.is_final:
                    return None
        raise AssertionError

    def _follow_attempt(self, number: int) -> Iterator[Chunk]:
        """Across lost connections, each time from the byte where they broke."""
        backoff = _FIRST_BACKOFF_S
        while True:
            ended = self._has_ended(number)  # asked before reading: then a whole read has read everything
            try:
                for piece in self._pieces(number, follow=not ended):
                    backoff = _FIRST_BACKOFF_S
                    yield piece
                if ended:
                    return
            except TgpuError as error:
                if not is_passing(error) or (ended and error.status):
                    raise  # of an ended attempt, a node that does not answer is worth telling
            self.client.session.means.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF_S)

    def _has_ended(self, number: int) -> bool:
        standing = self._standing()
        return standing is not None and (standing.latest > number or not standing.is_live)

    def _standing(self) -> Standing | None:
        """None while the server is away."""
        try:
            if self._task:  # by its index: a job shows only its first tasks, and in their order
                task = self.client.task(self._job_id, self._task)
                return Standing(task["attempt_count"], task["status"] in _LIVE, task["status"] in FINAL)
            job = self.client.job(self._job_id)
        except TgpuError as error:
            if not is_passing(error):
                raise
            return None
        return _of_the_first(job)

    def _pieces(self, attempt: int | None, *, follow: bool) -> Iterator[Chunk]:
        connection, response = self._ask(attempt, follow=follow)
        try:
            begins = response.headers.get("x-tgpu-offset", "")
            self._begin_at(int(begins) if begins.isdigit() else self._offset or 0)
            connection.set_timeout(_QUIET_S)
            body = _body(response, follow=follow)
            if not response.headers.get("content-type", "").startswith(JSON_LINES):
                for piece in body:
                    self._offset = (self._offset or 0) + len(piece)
                    yield None, piece
                return
            for part in parts_of(body):
                self._attempt = part["attempt"]
                for time, data in chunks_of(part):
                    self._offset = (self._offset or 0) + len(data)
                    yield time, data
        finally:
            connection.close()

    def _ask(self, attempt: int | None, *, follow: bool) -> tuple[Connection, Response]:
        where = {"tail": self._tail} if self._offset is None else {"offset": self._offset}
        query = {"stream": self._stream, "attempt": attempt, **where, "follow": follow or None}
        query |= {"task": self._task}
        path = f"/jobs/{self._job_id}/logs"
        if self._timed:
            try:
                return self.client.session.stream(path, {**query, "format": "json"})
            except TgpuError as error:
                if error.status != _BAD_REQUEST:
                    raise
                self._timed = False  # an older server does not know the word
        return self.client.session.stream(path, query)

    def _begin_at(self, offset: int) -> None:
        """Later than asked if rotation has dropped the oldest part. Where a tail begins tells nothing."""
        asked = 0 if self._offset is None and self._tail is None else self._offset
        if self._on_lost is not None and asked is not None and offset > asked:
            self._on_lost(asked, offset)
            self._on_lost = None
        self._offset = offset


def _body(response: Response, *, follow: bool) -> Iterator[bytes]:
    while True:
        try:
            piece = response.read_some()
        except ReadTimeoutError:
            if not follow:
                raise UnreachableError("the server stopped in the middle of the output") from None
            continue  # a job may say nothing for hours; a lost server breaks the connection
        if not piece:
            return
        yield piece


def which_task(client: Client, job_id: int | str, task: int | None) -> tuple[int, int | None]:
    """Job and index, also of `"42.7"`; None: its only task, or the first of a gang. Raises ValueError for
    what names no task, and TgpuError of an array without an index."""
    job: Any
    job, index = parted(job_id)
    if index is not None and task not in (None, index):
        raise ValueError(f"{job_id!r} names task {index}, and task={task} another: keep one of them")
    if index is None and task is None:
        _check_not_an_array(client.job(job))
    return job, task if index is None else index


def _check_not_an_array(job: dict[str, Any]) -> None:
    shown = job.get("task_list") or ()
    is_series = job.get("array") or any(one.get("array_index") is not None for one in shown)
    if is_series and int(job.get("tasks") or 1) > 1:
        number, index = job["job_id"], shown[0]["array_index"] if shown else 0
        raise TgpuError(
            422,
            "Unprocessable",
            f"job {number} has several indices, each with its own output: say which, such as task={index} "
            f"or '{number}.{index}'",
        )


def _of_the_first(job: dict[str, Any]) -> Standing:
    shown = job.get("task_list") or ()
    status = str(shown[0]["status"]) if shown else str(job["status"])
    latest = max(
        (attempt for attempt in job["attempts"] if attempt.get("task_index", 0) == 0),
        key=lambda attempt: int(attempt["number"]),
        default=None,
    )
    if latest is None:
        return Standing(0, is_live=False, is_final=status in FINAL)
    return Standing(latest["number"], latest["status"] != "ended", status in FINAL)
