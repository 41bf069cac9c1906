"""How a job, or one task of it, ended: the exit code that stands for it, and the words."""

from __future__ import annotations

from tgpu.cli.exits import DISK_LIMIT, FAILED, INTERRUPTED, OK, TIME_LIMIT

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any

_CANNOT_EXECUTE, _NO_SUCH_COMMAND, _SIGNALLED = 126, 127, 128
_KILLED = _SIGNALLED + 9
_BY_STATUS = {"completed": OK, "cancelled": INTERRUPTED}
_BY_CAUSE = {"time-limit": TIME_LIMIT, "disk-limit": DISK_LIMIT, "out-of-memory": _KILLED}


def exit_status(job: dict[str, Any]) -> int:
    """What a shell would have said, had it run the job: its own exit code, 128+n for signal n."""
    known = _BY_STATUS.get(job["status"], _BY_CAUSE.get(job.get("cause") or ""))
    if known is not None:
        return known
    if job.get("exit_code"):
        return int(job["exit_code"])
    if signal := job.get("signal") or _last_attempt(job).get("signal"):
        return _SIGNALLED + int(signal)
    if job.get("cause") == "could-not-start":
        said = str(job.get("reason") or "").lower()
        missing = "not found" in said or "no such file" in said
        return _NO_SUCH_COMMAND if missing else _CANNOT_EXECUTE
    return FAILED


def in_words(job: dict[str, Any]) -> str:
    """`completed`, `failed: exit code 3`, `cancelled by ann`: the server's own words."""
    status = str(job["status"])
    reason = str(job.get("reason") or _last_attempt(job).get("reason") or "")
    if status == "completed" or not reason:
        return status
    return reason if reason.startswith(status) else f"{status}: {reason}"


def _last_attempt(job: dict[str, Any]) -> dict[str, Any]:
    attempts = job.get("attempts") or []
    return attempts[-1] if attempts else {}
