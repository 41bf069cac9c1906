"""What each event tells a person, whichever store writes it."""

from tgpu.domain.job import JobSpec
from tgpu.store.port import Assigned, AttemptEnded, StopOrdered, TaskClosed

CANCEL_REQUESTED = "cancel-requested"

Data = dict[str, object]


def on_submitted(spec: JobSpec) -> Data:
    return {"name": spec.name} if spec.name else {}


def on_cancel_requested(by: str) -> Data:
    return {"by": by}


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


def on_ended(change: AttemptEnded, node_id: str, devices: tuple[int, ...]) -> Data:
    return _told(
        {
            "attempt": change.attempt_id.number,
            "node_id": node_id,
            "devices": list(devices),
            "cause": change.exit.cause.value,
            "exit_code": change.exit.exit_code,
            "signal": change.exit.signal,
            "detail": change.detail or change.exit.detail,
        }
    )


def on_closed(change: TaskClosed) -> Data:
    return _told({"cause": change.cause.value, "detail": change.detail})


def _told(data: Data) -> Data:
    """Without what is not known: an absent exit code is no exit code."""
    return {name: value for name, value in data.items() if value is not None and value != ""}
