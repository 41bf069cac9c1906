"""`scontrol update`: what of a job can be changed, and how Slurm writes it."""

from __future__ import annotations

from tgpu.cli.slurm import looking
from tgpu.client import Client
from tgpu.dialects.slurm import durations, moments, sizes
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def update(words: list[str]) -> int:
    job_id, fields, more_s = "", {}, 0
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise SlurmError(f"update takes KEY=VALUE, such as JobId=42 TimeLimit=2:00:00; got {word!r}")
        sign = next((end for end in "+-" if key.endswith(end) or value.startswith(end)), "")
        name = key.lower().rstrip("+-")
        if name in ("jobid", "job"):
            job_id = value
        elif name == "timelimit" and sign and value != "-1":
            seconds = durations.time_limit_s(key, value.removeprefix(sign)) or 0
            more_s += seconds if sign == "+" else -seconds
        elif name in _CHANGES:
            field, read = _CHANGES[name]
            fields[field] = read(key, value)
        else:
            raise SlurmError(f"{key} cannot be changed; what can: {', '.join(sorted(_CHANGES))}")
    if not job_id:
        raise SlurmError("say which job, by its number: JobId=42")
    if not fields and not more_s:
        raise SlurmError("say what to change, such as TimeLimit=2:00:00")
    with Client() as client:
        for each in looking.Wanted("JobId", job_id).whole("update"):
            with looking.by_number(each):
                changes = fields | (_longer(client.job(each), more_s) if more_s else {})
                if changes:
                    client.session.call("PATCH", f"/jobs/{each}", body=changes)
    return 0


def _longer(job: dict[str, Any], more_s: int) -> dict[str, int]:
    """`TimeLimit=+30`: by so much more than it has; who has no limit keeps none."""
    limit_s = job.get("time_limit_s")
    if limit_s is None:
        return {}
    if int(limit_s) + more_s <= 0:
        raise SlurmError(f"TimeLimit: job {job['job_id']} has only {durations.written(int(limit_s))}")
    return {"time_limit_s": int(limit_s) + more_s}


def _number(key: str, value: str) -> int:
    if not value.removeprefix("-").isdecimal():
        raise SlurmError(f"{key} must be a whole number; got {value!r}")
    return int(value)


def _moment(key: str, value: str) -> str:
    return moments.rfc3339(moments.moment(key, value, moments.local_now()))


_CHANGES: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "timelimit": ("time_limit_s", durations.time_limit_s),
    "priority": ("priority", _number),
    "nice": ("priority", lambda key, value: -_number(key, value)),
    "jobname": ("name", lambda _, value: value),
    "name": ("name", lambda _, value: value),
    "starttime": ("begin_at", _moment),
    "eligibletime": ("begin_at", _moment),
    "deadline": ("deadline_at", _moment),
    "partition": ("pool", lambda _, value: value),
    "minmemorynode": ("mem_request_mb", sizes.mebibytes),
    "arraytaskthrottle": ("at_once", lambda key, value: _number(key, value) or None),
}
