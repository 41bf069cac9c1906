"""What each event tells a person, whichever store writes it."""

from collections.abc import Mapping
from typing import Any

from tgpu.domain.ids import AttemptId
from tgpu.domain.index_set import IndexSet, parse_indices
from tgpu.domain.job import Exit, JobSpec
from tgpu.store.lost import AttemptGone, AttemptLost, AttemptReturned, Superseded
from tgpu.store.port import Assigned, AttemptEnded, CancelAsked, StopOrdered, TaskClosed
from tgpu.store.series_port import Dropped, TasksCancelled

CANCEL_REQUESTED = "cancel-requested"
HELD = "held"
RELEASED = "released"
EDITED = "edited"
NEEDS_MET = "needs-met"
SUSPENDED = "suspended"
RESUMED = "resumed"
RESTART_REQUESTED = "restart-requested"
DROPPED = "dropped"
ALTERING = frozenset({HELD, RELEASED, EDITED, SUSPENDED, RESUMED})
"""By these a job changes while it waits: the loop reads it anew."""

Data = dict[str, object]


def on_submitted(spec: JobSpec) -> Data:
    return {"name": spec.name} if spec.name else {}


def on_cancel_requested(by: str, tasks: int, *, now: bool) -> Data:
    """`tasks`: how many the job has."""
    data: Data = {"by": by, "now": True} if now else {"by": by}
    return data if tasks == 1 else data | {"tasks": tasks}


def on_tasks_cancel_requested(by: str, positions: IndexSet, *, now: bool) -> Data:
    data: Data = {"by": by, "positions": positions.text}
    return data | {"now": True} if now else data


def tasks_cancelled(job_id: int, data: Mapping[str, Any]) -> TasksCancelled | None:
    """What such an event tells the loop, if it is about some tasks and not about all."""
    if "positions" not in data:
        return None
    positions = parse_indices("positions", str(data["positions"]))
    return TasksCancelled(job_id, positions, str(data["by"]), bool(data.get("now")))


def on_dropped(change: Dropped, tasks: int) -> Data:
    return _told({"tasks": tasks, "cause": change.cause.value, "detail": change.detail})


def cancel_asked(job_id: int, data: Mapping[str, Any]) -> CancelAsked:
    """What such an event tells the loop."""
    return CancelAsked(job_id, str(data["by"]), bool(data.get("now")), int(data.get("tasks", 1)))


def on_assigned(change: Assigned) -> Data:
    return {
        "attempt": change.attempt_id.number,
        "node_id": change.node_id,
        "devices": list(change.devices),
    }


def on_started(number: int, node_id: str) -> Data:
    return {"attempt": number, "node_id": node_id}


def on_stop_ordered(change: StopOrdered, node_id: str) -> Data:
    return _told(
        {
            "attempt": change.attempt_id.number,
            "node_id": node_id,
            "cause": change.cause.value,
            "by": change.by,
        }
    )


def on_ended(change: AttemptEnded | AttemptLost, node_id: str, devices: tuple[int, ...]) -> Data:
    return _end(change.attempt_id, change.exit, change.detail, node_id, devices)


def on_gone(change: AttemptGone, node_id: str, devices: tuple[int, ...]) -> Data:
    return _end(change.attempt_id, change.exit, "", node_id, devices)


def on_returned(change: AttemptReturned, node_id: str, devices: tuple[int, ...]) -> Data:
    return {"attempt": change.attempt_id.number, "node_id": node_id, "devices": list(devices)}


def on_superseded(change: Superseded, node_id: str) -> Data:
    return _told({"attempt": change.attempt_id.number, "node_id": node_id, "detail": change.detail})


def on_closed(change: TaskClosed) -> Data:
    return _told({"cause": change.cause.value, "detail": change.detail})


def _end(attempt_id: AttemptId, ended: Exit, detail: str, node_id: str, devices: tuple[int, ...]) -> Data:
    return _told(
        {
            "attempt": attempt_id.number,
            "node_id": node_id,
            "devices": list(devices),
            "cause": ended.cause.value,
            "exit_code": ended.exit_code,
            "signal": ended.signal,
            "detail": detail or ended.detail,
        }
    )


def _told(data: Data) -> Data:
    """Without what is not known: an absent exit code is no exit code."""
    return {name: value for name, value in data.items() if value is not None and value != ""}
