"""A job's cells, the same wherever jobs are listed."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.screen import STATUS_STYLES
from tgpu.cli.table import Cell

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any


def status(job: dict[str, Any]) -> Cell:
    return Cell(job["status"], STATUS_STYLES.get(job["status"], ""))


def gpus(job: dict[str, Any]) -> str:
    """`2 (0,1)`: how many, and which once they are known."""
    asked = job.get("gpu_request")
    devices = job.get("devices")
    if not asked:
        return "-"
    return f"{words.number(asked)} ({','.join(map(str, devices))})" if devices else words.number(asked)


def priority(job: dict[str, Any]) -> str:
    """`high` or `high/5`."""
    said = str(job.get("priority_class") or "default")
    return f"{said}/{job['priority']}" if job.get("priority") else said


def elapsed(job: dict[str, Any], now: float) -> str:
    """How long it has run, or waited if it has not started."""
    started = job.get("started_at")
    ran = words.between(started or job.get("submitted_at"), job.get("ended_at"), now)
    return "-" if ran is None else words.duration(ran)


def gpu_hours(job: dict[str, Any], now: float) -> float:
    ran = words.between(job.get("started_at"), job.get("ended_at"), now)
    return (ran or 0) / 3600 * float(job.get("gpu_request") or 0)
