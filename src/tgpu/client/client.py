"""The SDK: `Client().submit(["python", "train.py"], gpu_request=2)`. Answers are plain dicts."""

from __future__ import annotations

import json

from tgpu.client import waiting
from tgpu.client.accounting import AccountingCalls
from tgpu.client.changing import ChangingCalls
from tgpu.client.cluster import ClusterCalls
from tgpu.client.errors import ReadTimeoutError, TgpuError
from tgpu.client.events import EventStream
from tgpu.client.output import Output, which_task
from tgpu.client.series import SeriesCalls
from tgpu.client.session import Session
from tgpu.client.snapshots import SnapshotCalls
from tgpu.client.tenancy import TenancyCalls

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self

    from tgpu.client.means import Means

_PAGE = 500
_MOST_JOBS = 10_000
_MOST_BYTES = 32 << 20


class Client(TenancyCalls, AccountingCalls, ChangingCalls, SeriesCalls, ClusterCalls, SnapshotCalls):
    """Speaks to one server; without arguments, to the one that the `tgpu` command would find.

    Not for several threads at once: give each its own.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        means: Means | None = None,
    ) -> None:
        super().__init__(Session(server, token, timeout, means))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.session.close()

    def submit(self, /, command: Sequence[str] | str | None = None, **fields: object) -> dict[str, Any]:
        """The job as the server recorded it; it is durable when this returns. Without a command, what the
        job's image says is run."""
        if command is not None:
            fields = {"command": command if isinstance(command, str) else list(command), **fields}
        return self._dict("POST", "/jobs", body=fields)

    def preview(self, jobs: Sequence[Mapping[str, object]]) -> dict[str, Any]:
        """What submitting these jobs would lead to: whether and when each would start, and where. Nothing is
        stored. Raises TgpuError as a submission would."""
        body = dict(jobs[0]) if len(jobs) == 1 else {"jobs": [dict(job) for job in jobs]}
        return self._dict("POST", "/jobs", query={"dry_run": "true"}, body=body)

    def job_fields(self) -> list[dict[str, Any]]:
        """The fields of a job for forms: names, meanings, and which values they take."""
        return self._list("/job-fields", "fields")

    def read_job_file(self, text: str, name: str = "") -> dict[str, Any]:
        """The jobs that the text of a job file describes, in the fields of `submit`, or what is wrong with
        it. `name`: of the file, if it has one."""
        return self._dict("POST", "/job-files", body={"text": text, "name": name})

    def submit_many(
        self,
        jobs: Sequence[Mapping[str, object]],
        *,
        on_recorded: Callable[[list[int]], None] = lambda _: None,
        on_note: Callable[[str], None] = lambda _: None,
    ) -> list[int]:
        """Their ids, in the order given. Up to 10,000 jobs (32 MiB) are recorded whole or not at all; of
        more, `on_recorded` hears the ids of each such part as soon as it is durable. `on_note` gets what the
        server has to say about their /tmp."""
        ids: list[int] = []
        for batch in _batches(jobs):
            answer = self._dict("POST", "/jobs", body={"jobs": batch})
            recorded = answer["job_ids"]
            on_recorded(recorded)
            if answer.get("tmp_note"):
                on_note(answer["tmp_note"])
            ids += recorded
        return ids

    def job(self, job_id: int) -> dict[str, Any]:
        """All that is known of a job, with its attempts and events."""
        return self._dict("GET", f"/jobs/{job_id}")

    def tasks(
        self, /, job_id: int, *, after: int | None = None, **filters: object
    ) -> Iterator[dict[str, Any]]:
        """The tasks of a job in their order, page after page. Filters: status, limit (of a page)."""
        cursor = after
        while True:
            page = self._dict("GET", f"/jobs/{job_id}/tasks", query={"cursor": cursor, **filters})
            yield from page["tasks"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def task_statuses(self, job_id: int) -> dict[str, Any]:
        """The status of every task, in their order, as runs of neighbours with the same one."""
        return self._dict("GET", f"/jobs/{job_id}/task-statuses")

    def task(self, job_id: int, task_index: int) -> dict[str, Any]:
        """One task. Raises TgpuError 404 if the job has none of that number."""
        for found in self.tasks(job_id, index=task_index, limit=1):
            return found
        raise TgpuError(404, "Not Found", f"job {job_id} has no task {task_index}")

    def jobs(self, /, *, limit: int | None = None, **filters: object) -> Iterator[dict[str, Any]]:
        """Page after page. Filters: status, user, name, ids, since, until, order, and whatever else the
        server takes for `GET /jobs`, such as within, cause, node, ended_since and attempts. With
        `expected_start=True`, pending jobs show when they are expected to start."""
        cursor: object = None
        left = limit
        while left is None or left > 0:
            jobs, cursor = self._page(filters, _PAGE if left is None else min(_PAGE, left), cursor)
            yield from jobs
            if not cursor:
                return
            left = None if left is None else left - len(jobs)

    def job_pages(self, /, *, size: int = _PAGE, **filters: object) -> Iterator[list[dict[str, Any]]]:
        """The same, a page at a time: the next one is asked for only when this one has been dealt with."""
        cursor: object = None
        while True:
            jobs, cursor = self._page(filters, size, cursor)
            yield jobs
            if not cursor:
                return

    def jobs_by_id(self, job_ids: Collection[int]) -> list[dict[str, Any]]:
        """These jobs, in short form if there are several. Raises TgpuError 404 for one that is not there."""
        ids = list(job_ids)
        if len(ids) == 1:
            return [self.job(ids[0])]
        found: dict[int, dict[str, Any]] = {}
        for start in range(0, len(ids), _PAGE):
            some = ids[start : start + _PAGE]
            found |= {job["job_id"]: job for job in self.jobs(ids=",".join(map(str, some)))}
        missing = [job_id for job_id in ids if job_id not in found]
        if missing:
            raise TgpuError(404, "Not found", f"there is no job {', '.join(map(str, missing))}")
        return [found[job_id] for job_id in ids]

    def cancel(self, job_id: int, *, now: bool = False) -> dict[str, Any]:
        """Asks for the job's end; a running one gets SIGTERM, its grace, then SIGKILL; `now`: SIGKILL at
        once, also if its grace has begun."""
        return self._dict("DELETE", f"/jobs/{job_id}", query={"now": "true"} if now else None)

    def cancel_many(self, job_ids: Sequence[int], *, now: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = {"job_ids": list(job_ids)}
        return self._dict("POST", "/jobs/cancel", body=body | {"now": True} if now else body)

    def wait(
        self,
        job_ids: int | str | Collection[int | str],
        *,
        timeout: float | None = None,
        on_away: Callable[[str], None] = lambda _: None,
    ) -> list[dict[str, Any]]:
        """The jobs as they ended; of `"42.7"` the one task. Waits through restarts of the server; `on_away`
        hears of them. Raises WaitTimeoutError."""
        ids = [job_ids] if isinstance(job_ids, int | str) else list(dict.fromkeys(job_ids))
        return waiting.wait(self, ids, timeout, on_away)

    def logs(
        self,
        job_id: int | str,
        *,
        stream: str = "stdout",
        follow: bool = False,
        tail: int | None = None,
        task: int | None = None,
        attempt: int | None = None,
    ) -> Iterator[bytes]:
        """A task's output, piece by piece; with `follow`, until the task has ended. Of an array its index
        must be said, by `task` or as in `"42.7"`; of a gang it is the first task's without."""
        job_id, task = which_task(self, job_id, task)
        output = Output(self, job_id, stream, task=task, attempt=attempt, tail=tail)
        return output.follow() if follow else output.read()

    def log_chunks(
        self,
        job_id: int | str,
        *,
        stream: str = "stdout",
        follow: bool = False,
        tail: int | None = None,
        task: int | None = None,
        attempt: int | None = None,
    ) -> Iterator[tuple[str | None, bytes]]:
        """As `logs`, each piece with the time at which it arrived on its node (RFC 3339, UTC); None where
        none was recorded."""
        job_id, task = which_task(self, job_id, task)
        output = Output(self, job_id, stream, task=task, attempt=attempt, tail=tail, timed=True)
        return output.follow_chunks() if follow else output.chunks()

    def use(self, job_id: int, *, task: int | None = None, attempt: int | None = None) -> dict[str, Any]:
        """How a task's use went, up to now or to its end: columns, with a value for each stretch of time.
        Raises TgpuError 404 if nothing was measured."""
        return self._dict("GET", f"/jobs/{job_id}/use", query={"task": task, "attempt": attempt})

    def why(self, job_id: int) -> dict[str, Any]:
        return self._dict("GET", f"/jobs/{job_id}/why")

    def events(
        self, *, after: int | None = None, job_id: int | None = None, mine: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Every event from now on (or after `after`), for as long as the caller listens; reconnects. `mine`:
        only of the caller's own jobs."""
        while True:
            try:
                with EventStream(self.session, after=after, job_id=job_id, mine=mine) as stream:
                    while True:
                        try:
                            yield stream.next(timeout=60)
                        except ReadTimeoutError:
                            continue
                        finally:
                            after = stream.last_id
            except TgpuError as error:
                if not waiting.is_passing(error):
                    raise
                waiting.pause(self)

    def _page(
        self, filters: Mapping[str, object], size: int, cursor: object
    ) -> tuple[list[dict[str, Any]], object]:
        page = self._dict("GET", "/jobs", query={**filters, "limit": size, "cursor": cursor})
        return page["jobs"], page.get("next_cursor")


def _batches(jobs: Sequence[Mapping[str, object]]) -> Iterator[list[dict[str, object]]]:
    """As few requests as the server's bounds allow; `--count` repeats one object, which is measured once."""
    if any(job.get("needs") for job in jobs):  # by names, which are known only within a request
        yield [dict(job) for job in jobs]
        return
    sizes: dict[int, int] = {}
    batch: list[dict[str, object]] = []
    room = _MOST_BYTES
    for job in jobs:
        if id(job) not in sizes:
            sizes[id(job)] = len(json.dumps(dict(job)))
        size = sizes[id(job)]
        if batch and (len(batch) == _MOST_JOBS or size > room):
            yield batch
            batch, room = [], _MOST_BYTES
        batch.append(dict(job))
        room -= size
    if batch:
        yield batch
