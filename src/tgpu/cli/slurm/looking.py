"""Jobs as Slurm's commands list them: an index of an array that runs is a line of its own, those that wait
are one together."""

from __future__ import annotations

import time

from tgpu.dialects.slurm import states
from tgpu.dialects.slurm.hosts import ranges
from tgpu.dialects.slurm.record import Record
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from tgpu.client import Client
    from tgpu.domain.index_set import IndexSet

_WAITING = frozenset({"pending", "preempted"})


class Wanted:
    """Jobs by their numbers, and of arrays perhaps some indices: `42`, `42_7`, `42_[1-3]`, `42.batch`."""

    def __init__(self, name: str, text: str) -> None:
        self.indices: dict[int, set[int] | None] = {}
        for part in _parts(text):
            whole = part.split(".")[0].split("+")[0]
            job, _, index = whole.partition("_")
            if not (job.isascii() and job.isdigit()):
                raise SlurmError(f"{name}: {part!r} is no job: write 42, 42_7 or 42_[1-3]")
            self._add(int(job), _indices(name, index) if index else None)

    def _add(self, job_id: int, some: set[int] | None) -> None:
        known = self.indices.get(job_id, set())
        self.indices[job_id] = None if some is None or known is None else known | some

    def takes(self, record: Record) -> bool:
        some = self.indices.get(int(record.job["job_id"]))
        return (
            some is None
            or (record.task is not None and int(record.index) in some)
            or bool(record.task is None and record.indices and some & set(_numbers(record.indices)))
        )


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


def _numbers(text: str) -> Iterator[int]:
    for part in text.partition("%")[0].split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def heads(client: Client) -> set[int]:
    """Jobs that wait for room, and not behind others of their queue."""
    return {int(queue["head_job_id"]) for queue in client.queues() if queue.get("head_job_id")}


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
    status = None if over else "pending,preempted,scheduled,running"
    tasks = list(client.tasks(job["job_id"], status=status))
    waiting = [task for task in tasks if task["status"] in _WAITING]
    rest = _waiting_indices(job, indices, waiting)
    if apart:
        for index in rest:
            task = {"array_index": index, "task_index": indices.position_of(index), "status": "pending"}
            yield Record(job, now, task=task, reason=_why_they_wait(job, reason))
    elif rest:
        reason = _why_they_wait(job, reason)
        text = ranges(rest) + (f"%{job['at_once']}" if job.get("at_once") else "")
        yield Record({**job, "status": "pending"}, now, indices=text, nodes=[], reason=reason)
    for task in tasks:
        if task["status"] not in _WAITING:
            yield Record(job, now, task=task, reason=states.reason_of({**job, **task}))


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
