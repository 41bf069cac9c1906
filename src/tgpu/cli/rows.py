"""A job's cells, the same wherever jobs are listed."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.screen import STATUS_STYLES
from tgpu.cli.table import Cell

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any


def status(job: dict[str, Any]) -> Cell:
    """`running`; of several tasks `5/8 running`: how many of them are."""
    said, counts = job["status"], job.get("task_counts") or {}
    total = sum(counts.values())
    if total > 1 and counts.get(said, 0) < total:
        said = f"{counts.get(said, 0)}/{total} {said}"
    if job.get("giving_way"):
        return Cell(f"{said}, gives way", "yellow")
    return Cell(said, STATUS_STYLES.get(job["status"], ""))


def of_each(job: dict[str, Any], said: str) -> str:
    """`3x1`: of several tasks that are alike, how many ask for so much each."""
    count = int(job.get("tasks") or 1)
    return said if count == 1 or job.get("groups") or said in {"", "-", "0"} else f"{count}x{said}"


def gpus(job: dict[str, Any]) -> str:
    """`2 (0,1)`, or `1x 20G (0)` if it was asked for by memory: how many, and which once they are known."""
    asked, memory, devices = job.get("gpu_request"), job.get("gpu_memory_mb"), job.get("devices")
    if not asked and not memory:
        return "-"
    said = of_each(job, words.number(asked) if asked else f"1x {words.size(memory)}")
    return f"{said} ({','.join(map(str, devices))})" if devices else said


def priority(job: dict[str, Any]) -> str:
    """`high` or `high/5`."""
    said = str(job.get("priority_class") or "default")
    return f"{said}/{job['priority']}" if job.get("priority") else said


def elapsed(job: dict[str, Any], now: float) -> str:
    """How long it has run, or waited if it has not started."""
    started = job.get("started_at")
    ran = words.between(started or job.get("submitted_at"), job.get("ended_at"), now)
    return "-" if ran is None else words.duration(ran)
