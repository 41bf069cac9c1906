"""A job's cells, the same wherever jobs are listed."""

from __future__ import annotations

from tgpu.cli import groups, words
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


def gpus(job: dict[str, Any]) -> str:
    """`2 (0,1)`, or `1x 20G (0)` if it was asked for by memory: how many, and which once they are known."""
    said, devices = groups.each(job, _gpus), job.get("devices")
    return f"{said} ({','.join(map(str, devices))})" if devices and said != "-" else said


def _gpus(asked: dict[str, Any]) -> str:
    number, memory = asked.get("gpu_request"), asked.get("gpu_memory_mb")
    if not number and not memory:
        return "-"
    return words.number(number) if number else f"1x {words.size(memory)}"


def cpus(job: dict[str, Any]) -> str:
    return groups.each(job, lambda asked: words.number(asked.get("cpu_request")))


def memory(job: dict[str, Any]) -> str:
    return groups.each(job, lambda asked: words.size(asked.get("mem_request_mb")))


def priority(job: dict[str, Any]) -> str:
    """`high` or `high/5`."""
    said = str(job.get("priority_class") or "default")
    return f"{said}/{job['priority']}" if job.get("priority") else said


def elapsed(job: dict[str, Any], now: float) -> str:
    """How long it has run, or waited if it has not started."""
    started = job.get("started_at")
    ran = words.between(started or job.get("submitted_at"), job.get("ended_at"), now)
    return "-" if ran is None else words.duration(ran)
