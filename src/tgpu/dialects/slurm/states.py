"""Where a job stands, in Slurm's words: `RUNNING`, `R`; and why it waits: `Resources`, `Dependency`."""

from __future__ import annotations

from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

COMPACT = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "PREEMPTED": "PR",
    "BOOT_FAIL": "BF",
    "DEADLINE": "DL",
    "OUT_OF_MEMORY": "OOM",
    "CONFIGURING": "CF",
    "COMPLETING": "CG",
}
"""In the order by which Slurm sorts them."""
ORDER = {state: at for at, state in enumerate(COMPACT)}
_NEVER = frozenset(
    [
        "RESV_DEL_HOLD",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "REQUEUED",
        "RESIZING",
        "REVOKED",
        "SIGNALING",
        "SPECIAL_EXIT",
        "STAGE_OUT",
        "STOPPED",
        "RD",
        "RF",
        "RH",
        "RQ",
        "RS",
        "RV",
        "SI",
        "SE",
        "SO",
        "ST",
    ]
)
"""Known, and no job is ever in them."""
_BY_STATUS = {
    "pending": "PENDING",
    "preempted": "PENDING",
    "scheduled": "CONFIGURING",
    "running": "RUNNING",
    "completed": "COMPLETED",
    "cancelled": "CANCELLED",
    "failed": "FAILED",
}
_BY_CAUSE = {
    "time-limit": "TIMEOUT",
    "out-of-memory": "OUT_OF_MEMORY",
    "node-lost": "NODE_FAIL",
    "rebooted": "NODE_FAIL",
    "device-lost": "NODE_FAIL",
    "supervisor-lost": "NODE_FAIL",
    "deadline": "DEADLINE",
    "preempted": "PREEMPTED",
    "memory-pressure": "PREEMPTED",
    "disk-pressure": "PREEMPTED",
    "dependency-failed": "CANCELLED",
}
_RAN_OUT_OF_MEMORY = "out of memory, "
"""In the reason of a job of which a process was killed for want of memory, and whose script ended by itself.
tgpu's cause is the script's exit code then; Slurm says that memory ran out."""
_REASONS = {
    "exited": "NonZeroExitCode",
    "signalled": "RaisedSignal",
    "out-of-memory": "OutOfMemory",
    "time-limit": "TimeLimit",
    "deadline": "Deadline",
    "could-not-start": "JobLaunchFailure",
    "dependency-failed": "DependencyNeverSatisfied",
    "waited-too-long": "BeginTime",
    "node-lost": "NodeDown",
    "rebooted": "NodeDown",
    "device-lost": "NodeDown",
}
STATUSES = {
    "PENDING": ("pending", "preempted"),
    "CONFIGURING": ("scheduled",),
    "RUNNING": ("running",),
    "COMPLETING": ("running", "scheduled"),
    "SUSPENDED": ("pending",),
    "COMPLETED": ("completed",),
    "CANCELLED": ("cancelled", "failed"),
}
"""Where to look for those of a state; all others have failed."""
LIVE = frozenset({"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED"})


def state_of(job: Mapping[str, Any]) -> str:
    """Of a job, or of one of its tasks."""
    status = str(job["status"])
    if status in ("running", "scheduled") and (job.get("cancel_requested_by") or job.get("giving_way")):
        return "COMPLETING"
    if status in ("pending", "preempted") and job.get("suspended_by"):
        return "SUSPENDED"
    if status == "failed":
        return _BY_CAUSE.get(_cause(job), "FAILED")
    return _BY_STATUS[status]


def _cause(job: Mapping[str, Any]) -> str:
    """As Slurm would see it."""
    cause, reason = str(job.get("cause") or ""), str(job.get("reason") or "")
    return "out-of-memory" if cause == "exited" and _RAN_OUT_OF_MEMORY in reason else cause


def reason_of(job: Mapping[str, Any], heads: Collection[int] = (), now: str = "") -> str:
    """One word. `heads`: the jobs that are first in their queues, and wait for room. `now`: as RFC 3339."""
    status = str(job["status"])
    if status == "failed":
        return _REASONS.get(_cause(job), "None")
    if status not in ("pending", "preempted") or job.get("suspended_by"):
        return "None"
    gpus = bool(job.get("gpu_request"))
    reasons = (
        ("JobHeldUser", job.get("held_by")),
        ("Dependency", job.get("needs_met") is False),
        ("BeginTime", str(job.get("begin_at") or "") > now),
        ("AssocGrpGRES" if gpus else "AssocGrpCpuLimit", job.get("held")),
        ("Resources", job["job_id"] in heads),
    )
    return next((word for word, is_so in reasons if is_so), "Priority")


def states(name: str, text: str) -> set[str]:
    """`R,PD`, `running`, `all`: by their long names."""
    found: set[str] = set()
    by_compact = {compact: state for state, compact in COMPACT.items()}
    for word in text.upper().replace(" ", "").split(","):
        if word == "ALL":
            found |= COMPACT.keys()
        elif word in by_compact or word in COMPACT:
            found.add(by_compact.get(word, word))
        elif word in _NEVER:
            found.add(word)  # of which none are found, and not: all, as of whoever says nothing
        elif word:
            raise SlurmError(f"{name}: {word} is no state; there are {', '.join(COMPACT)} and all")
    return found


def statuses_of(wanted: Collection[str]) -> set[str]:
    """Tgpu's own words for where such jobs may be."""
    return {status for state in wanted for status in STATUSES.get(state, ("failed",))}
