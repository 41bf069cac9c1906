"""What `tgpu history` can say of a job, or of one of its attempts: a name, a title, and how it is written."""

from __future__ import annotations

import shlex
from functools import lru_cache

from tgpu.cli import groups, rows, words
from tgpu.cli.exits import UsageError
from tgpu.cli.table import Cell, Column

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tgpu.domain.index_set import IndexSet

    Facts = dict[str, Any]


class Field:
    """`kind` says how people read it; programs get times as RFC 3339, durations in seconds, sizes in MiB."""

    __slots__ = ("floor", "kind", "name", "rank", "what")

    def __init__(self, name: str, kind: str, what: str, *, floor: int | None = None, rank: int = 0) -> None:
        self.name, self.kind, self.what = name, kind, what
        self.floor, self.rank = floor, rank

    @property
    def column(self) -> Column:
        right = self.kind in {"number", "hours", "duration", "size", "gpus"}
        return Column(self.name.upper(), right=right, floor=self.floor, rank=self.rank)

    def shown(self, facts: Facts) -> str | Cell:
        value = facts.get(self.name)
        return "" if value is None else _SHOWN[self.kind](value, facts)

    def raw(self, facts: Facts) -> str:
        value = facts.get(self.name)
        if self.kind == "gpus":
            value = facts["asked"].get("gpu_request")
        return "" if value is None else _bare(value)


FIELDS = {
    field.name: field
    for field in (
        Field("id", "number", "the job's number; with --attempts that of the attempt"),
        Field("name", "text", "its name", floor=8),
        Field("user", "text", "whose it is", floor=5),
        Field("tenant", "text", "whose quota it counted for", floor=8),
        Field("class", "text", "its priority class"),
        Field("priority", "number", "its priority in the class"),
        Field("status", "status", "where it stands; of an attempt: ended, lost, running…"),
        Field("submitted", "time", "when it was submitted", rank=2),
        Field("started", "time", "when it, or its last attempt, began to run", rank=2),
        Field("ended", "time", "when it ended", rank=1),
        Field(
            "waited", "duration", "from submission to start; of an attempt: from the end of the one before"
        ),
        Field("elapsed", "duration", "from start to end, or to now"),
        Field("limit", "duration", "its time limit"),
        Field("exit", "number", "its exit code"),
        Field("signal", "number", "the signal that ended it (with --attempts)"),
        Field("cause", "cause", "why it ended, in a word", floor=8),
        Field("reason", "text", "why it ended, in a sentence", floor=12),
        Field("node", "text", "where it, or its last attempt, ran", floor=6),
        Field("devices", "text", "which GPUs it had there"),
        Field("gpus", "gpus", "how many GPUs it asked for"),
        Field("gpu-type", "text", "which model it asked for", floor=6),
        Field(
            "gpu-hours", "hours", "GPUs times hours, of its last attempt (of several tasks: with --attempts)"
        ),
        Field("gpu-busy", "duration", "how long its GPUs were busy, added up (with --attempts)"),
        Field("cpus", "number", "how many CPUs it asked for"),
        Field("cpu-time", "duration", "CPU time used (with --attempts)"),
        Field("mem", "size", "the memory it asked for"),
        Field("peak-mem", "size", "the most memory it used (with --attempts)"),
        Field("needed-mem", "size", "the same without files that need not stay in memory (with --attempts)"),
        Field("cpu-mean", "number", "how many CPUs it used over its time (with --attempts)"),
        Field("cpu-peak", "number", "how many CPUs it used at most (with --attempts)"),
        Field("gpu-mem", "size", "the most memory it used on one GPU (with --attempts)"),
        Field("disk-read", "size", "what it read from disks (with --attempts)"),
        Field("disk-written", "size", "what it wrote to disks (with --attempts)"),
        Field("disk", "size", "the disk it asked for"),
        Field("pool", "text", "the pool it asked for"),
        Field("tries", "number", "how many attempts it had"),
        Field("lost", "duration", "running time that was thrown away (with --attempts)"),
        Field("command", "text", "what it ran", floor=12),
        Field("cwd", "text", "where it ran that", floor=12),
    )
}
USUAL = "id,name,user,status,ended,elapsed,exit,cause,gpus,gpu-hours"
USUAL_OF_ATTEMPTS = (
    "id,name,user,status,node,started,elapsed,exit,cause,gpus,gpu-hours,cpu-time,peak-mem,lost"
)


def chosen(text: str) -> list[Field]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in FIELDS]
    if unknown or not names:
        raise UsageError(f"no field {', '.join(unknown) or 'is named'}; `--fields help` lists them")
    return [FIELDS[name] for name in names]


def described() -> Iterator[str]:
    width = max(map(len, FIELDS))
    for field in FIELDS.values():
        yield f"{field.name:<{width}}  {field.what}"


def facts_of(job: dict[str, Any], attempt: dict[str, Any] | None, now: float) -> Facts:
    tried = job if attempt is None else attempt
    asked = _asked(job, attempt)
    ran = words.between(tried.get("started_at"), tried.get("ended_at"), now)
    command = asked.get("command")
    facts: Facts = {
        "job": job,
        "asked": asked,
        "id": job["job_id"],
        "name": job.get("name"),
        "user": job.get("user_id"),
        "tenant": job.get("tenant_id"),
        "class": job.get("priority_class"),
        "priority": job.get("priority"),
        "status": tried.get("status"),
        "submitted": job.get("submitted_at"),
        "started": tried.get("started_at"),
        "ended": tried.get("ended_at"),
        "waited": words.between(job.get("submitted_at"), job.get("started_at") or job.get("ended_at"), now),
        "elapsed": ran,
        "limit": job.get("time_limit_s"),
        "exit": tried.get("exit_code"),
        "cause": tried.get("cause"),
        "reason": tried.get("reason"),
        "node": job.get("assigned_node_id"),
        "devices": ",".join(map(str, tried.get("devices") or ())),
        "gpus": 0,
        "gpu-type": asked.get("gpu_type"),
        "gpu-hours": _gpu_hours(asked, ran) if attempt is not None or _tasks(job) == 1 else None,
        "cpus": asked.get("cpu_request"),
        "mem": asked.get("mem_request_mb"),
        "disk": asked.get("disk_request_mb"),
        "pool": asked.get("pool"),
        "tries": job.get("attempt_count"),
        "command": command if command is None or isinstance(command, str) else shlex.join(command),
        "cwd": job.get("cwd"),
    }
    return facts if attempt is None else facts | _of_attempt(job, attempt)


def _asked(job: dict[str, Any], attempt: dict[str, Any] | None) -> dict[str, Any]:
    """What each of its tasks asked for; of those that are not alike nothing can be said at once."""
    if attempt is not None:
        return groups.of_task(job, int(attempt.get("task_index") or 0))
    return {} if job.get("groups") else job


def _tasks(job: dict[str, Any]) -> int:
    return int(job.get("tasks") or 1)


def _gpu_hours(asked: dict[str, Any], ran: float | None) -> float:
    """Of one task."""
    return (ran or 0) / 3600 * float(asked.get("gpu_request") or 0)


def _of_attempt(job: dict[str, Any], attempt: dict[str, Any]) -> Facts:
    use = attempt.get("use") or {}
    return {
        "attempt": attempt,
        "id": _name(job, attempt),
        "node": attempt.get("node_id"),
        "waited": attempt.get("wait_s"),
        "signal": attempt.get("signal"),
        "gpu-busy": attempt.get("gpu_busy_s"),
        "cpu-time": attempt.get("cpu_time_s"),
        "peak-mem": attempt.get("peak_memory_mb"),
        "needed-mem": use.get("memory_peak_mb"),
        "cpu-mean": use.get("cpu_mean"),
        "cpu-peak": use.get("cpu_peak"),
        "gpu-mem": use.get("gpu_memory_peak_mb"),
        "disk-read": use.get("disk_read_mb"),
        "disk-written": use.get("disk_written_mb"),
        "lost": attempt.get("lost_s"),
    }


def _name(job: dict[str, Any], attempt: dict[str, Any]) -> str:
    """`42.7.1`: of an array by its index, as everywhere."""
    if not job.get("array"):
        return str(attempt["attempt_id"])
    index = _indices(str(job["array"])).at(int(attempt.get("task_index") or 0))
    return f"{job['job_id']}.{index}.{attempt['number']}"


@lru_cache(8)
def _indices(array: str) -> IndexSet:
    from tgpu.domain.index_set import parse_indices  # noqa: PLC0415  only of arrays

    return parse_indices("array", array)


def _of_one(facts: Facts) -> dict[str, Any]:
    """The job; of an attempt as if that were all of it."""
    job: dict[str, Any] = facts["job"]
    asked: dict[str, Any] = facts["asked"]
    if "attempt" not in facts:
        return job
    return asked | {"tasks": 1, "task_counts": None, "groups": None}


def _gpus(_: object, facts: Facts) -> str:
    asked = rows.gpus({**_of_one(facts), "devices": None})
    return "0" if asked == "-" else asked


_SHOWN: dict[str, Callable[[Any, Facts], str | Cell]] = {
    "text": lambda value, _: str(value),
    "cause": lambda value, _: str(value).replace("-", " "),
    "number": lambda value, _: words.number(value) if isinstance(value, float) else str(value),
    "hours": lambda value, _: f"{value:.2f}",
    "duration": lambda value, _: words.duration(value),
    "size": lambda value, _: words.size(value),
    "time": lambda value, _: words.local_time(value),
    "status": lambda value, facts: rows.status(_of_one(facts) | {"status": value}),
    "gpus": _gpus,
}


def _bare(value: object) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
