"""Jobs as Slurm's commands list them: an index of an array that runs is a line of its own, those that wait
are one together."""

from __future__ import annotations

import time
from contextlib import contextmanager

from tgpu.client.errors import TgpuError
from tgpu.dialects.slurm import array_ids, states
from tgpu.dialects.slurm.hosts import ranges
from tgpu.dialects.slurm.record import Record
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from tgpu.client import Client
    from tgpu.domain.index_set import IndexSet

_WAITING = frozenset({"pending", "preempted"})
LIVE = _WAITING | {"scheduled", "running"}
OVER = frozenset({"completed", "failed", "cancelled"})
KEPT_S = 300
"""Slurm forgets a job so long after its end."""
_NOT_FOUND = 404


class Wanted:
    """Jobs by their numbers, and of arrays perhaps some indices: `42`, `42_7`, `42_[1-3]`, `42.batch`; or by
    the number that an index has of its own."""

    def __init__(self, name: str, text: str) -> None:
        self.indices: dict[int, set[int] | None] = {}
        for part in _parts(text):
            whole = part.split(".")[0].split("+")[0]
            job, _, index = whole.partition("_")
            if not (job.isascii() and job.isdigit()):
                raise SlurmError(f"{name}: {part!r} is no job: write 42, 42_7 or 42_[1-3]")
            job_id, own = array_ids.parted(int(job))
            some = None if own is None else {own}
            self._add(job_id, _indices(name, index) if index else some)

    def whole(self, verb: str) -> list[int]:
        """What is done to arrays as a whole must not be asked for some of their indices."""
        for job_id, indices in self.indices.items():
            if indices is not None:
                raise SlurmError(f"{verb} is for all of an array, not for some of its indices: say {job_id}")
        return list(self.indices)

    def _add(self, job_id: int, some: set[int] | None) -> None:
        known = self.indices.get(job_id, set())
        self.indices[job_id] = None if some is None or known is None else known | some

    def of(self, records: Iterable[Record]) -> Iterator[Record]:
        """Those that are meant; of indices that wait together, the part that is."""
        for record in records:
            job_id = int(record.job["job_id"])
            some = self.indices.get(job_id)
            if some is None:
                if job_id in self.indices:
                    yield record
            elif record.task is not None:
                if int(record.index) in some:
                    yield record
            elif part := sorted(some & set(_numbers(record.indices))):
                yield _part_of(record, part)


@contextmanager
def by_number(job_id: int) -> Iterator[None]:
    """A job that there is not, in the words that scripts look for."""
    try:
        yield
    except TgpuError as error:
        if error.status != _NOT_FOUND:
            raise
        raise SlurmError(f"Invalid job id specified for job {job_id}") from None


def _parts(text: str) -> list[str]:
    """At the commas outside of brackets."""
    parts, depth, piece = [], 0, ""
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == "," and not depth:
            parts.append(piece)
            piece = ""
        else:
            piece += char
    return [part.strip() for part in [*parts, piece] if part.strip()]


def _indices(name: str, text: str) -> set[int]:
    from tgpu.domain.index_set import parse_indices  # noqa: PLC0415  only of arrays
    from tgpu.domain.quantities import BadQuantityError  # noqa: PLC0415

    try:
        return set(parse_indices(name, text.strip("[]").partition("%")[0]))
    except BadQuantityError as error:
        raise SlurmError(str(error)) from None


def _part_of(record: Record, part: list[int]) -> Record:
    from tgpu.domain.index_set import parse_indices  # noqa: PLC0415  only of arrays

    job, now, reason = record.job, record.now, record.reason
    if len(part) > 1:
        return Record(job, now, indices=_together(job, part), nodes=[], reason=reason)
    return Record(job, now, task=_waiting(parse_indices("array", str(job["array"])), part[0]), reason=reason)


def _waiting(indices: IndexSet, index: int) -> dict[str, Any]:
    """One that may have no row yet."""
    return {"array_index": index, "task_index": indices.position_of(index), "status": "pending"}


def _together(job: Mapping[str, Any], indices: list[int]) -> str:
    return ranges(indices) + (f"%{job['at_once']}" if job.get("at_once") else "")


def _numbers(text: str) -> Iterator[int]:
    for part in text.partition("%")[0].split(",") if text else ():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def heads(client: Client) -> set[int]:
    """Jobs that wait for room, and not behind others of their queue."""
    return {int(queue["head_job_id"]) for queue in client.queues() if queue.get("head_job_id")}


def jobs_in(
    client: Client,
    statuses: Collection[str],
    among: Collection[str],
    **filters: Any,  # noqa: ANN401  whatever Client.jobs takes
) -> Iterator[dict[str, Any]]:
    """Jobs with one of the `statuses`, and arrays with any `among` these: their indices may be elsewhere than
    the whole."""
    for job in client.jobs(status=",".join(sorted(among)), **filters):
        if job["status"] in statuses or job.get("array"):
            yield job


def records(
    client: Client,
    jobs: Iterable[Mapping[str, Any]],
    *,
    first: Iterable[int] = (),
    apart: bool = False,
    over: bool = False,
) -> Iterator[Record]:
    """`first`: jobs that are heads of their queues. `apart`: who waits has a line of his own, too. `over`:
    indices that have ended are shown."""
    now, known = time.time(), frozenset(first)
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    for job in jobs:
        reason = states.reason_of(job, known, moment)
        if job.get("array"):
            yield from _of_array(client, job, now, reason, apart=apart, over=over)
        elif int(job.get("nodes") or 1) > 1:
            nodes = [task["node_id"] for task in client.tasks(job["job_id"]) if task["node_id"]]
            yield Record(job, now, nodes=list(dict.fromkeys(nodes)), reason=reason)
        else:
            yield Record(job, now, reason=reason)


def _of_array(
    client: Client, job: Mapping[str, Any], now: float, reason: str, *, apart: bool, over: bool
) -> Iterator[Record]:
    from tgpu.domain.index_set import parse_indices  # noqa: PLC0415  only of arrays

    indices = parse_indices("array", str(job["array"]))
    status = None if over else ",".join(sorted(LIVE))
    tasks = list(client.tasks(job["job_id"], status=status))
    waiting = [task for task in tasks if task["status"] in _WAITING]
    rest = _waiting_indices(job, indices, waiting)
    for task in tasks:
        if task["status"] not in _WAITING:
            yield Record(job, now, task=task, reason=states.reason_of({**job, **task}))
    if apart:
        for index in rest:
            yield Record(job, now, task=_waiting(indices, index), reason=_why_they_wait(job, reason))
    elif rest:
        reason, text = _why_they_wait(job, reason), _together(job, rest)
        yield Record({**job, "status": "pending"}, now, indices=text, nodes=[], reason=reason)


def _why_they_wait(job: Mapping[str, Any], reason: str) -> str:
    """Of an array of which some run already."""
    if reason != "None":
        return reason
    counts = job.get("task_counts") or {}
    live = sum(int(counts.get(status) or 0) for status in ("running", "scheduled"))
    return "JobArrayTaskLimit" if job.get("at_once") and live >= int(job["at_once"]) else "Resources"


def _waiting_indices(job: Mapping[str, Any], indices: IndexSet, waiting: list[dict[str, Any]]) -> list[int]:
    """Those that have rows, and the last ones, which have none yet."""
    counts = job.get("task_counts") or {}
    total = sum(int(counts.get(status) or 0) for status in _WAITING)
    unborn = max(0, total - len(waiting))
    last = [indices.at(position) for position in range(indices.count - unborn, indices.count)]
    return sorted({int(task["array_index"]) for task in waiting} | set(last))
