"""The tasks of a job in a table, and one of them on a card of its own."""

from __future__ import annotations

import time

from tgpu.cli import words
from tgpu.cli.index_words import Indices
from tgpu.cli.screen import STATUS_STYLES, Screen, clean
from tgpu.cli.table import Cell, Column, table

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_TASKS = (
    Column("TASK", right=True),
    Column("GROUP", floor=5, rank=3),
    Column("STATUS"),
    Column("NODE", floor=6),
    Column("GPUS"),
    Column("TRIES", right=True, rank=2),
    Column("RAN", right=True, rank=1),
    Column("REASON", floor=10),
)
_MOST_TASKS = 40


def task_table(screen: Screen, job: dict[str, Any]) -> Iterator[str]:
    """The first ones."""
    tasks, now = job.get("task_list") or [], time.time()
    total = int(job.get("tasks") or len(tasks))
    shown = tasks[:_MOST_TASKS]
    yield from table(screen, _TASKS, [_row(task, now) for task in shown])
    if total > len(shown):
        name = f"{job['job_id']}.{Indices(job).at(len(shown))}"
        others = f"`tgpu show {job['job_id']} --status failed` lists those that failed"
        yield f"… and {total - len(shown)} more; `tgpu show {name}` shows one of them, {others}"


def tasks_of_status(screen: Screen, tasks: list[dict[str, Any]]) -> Iterator[str]:
    now = time.time()
    yield from table(screen, _TASKS, [_row(task, now) for task in tasks])


def task_card(screen: Screen, job: dict[str, Any], task: dict[str, Any]) -> Iterator[str]:
    title = f"Task {task['task_id']}" + (f"  {clean(job['name'])}" if job.get("name") else "")
    status = screen.paint(task["status"], STATUS_STYLES.get(task["status"], ""))
    yield f"{screen.paint(title, 'bold')}  {status}"
    facts = (
        ("group", task.get("group") or ""),
        ("node", task.get("node_id") or ""),
        ("gpus", ",".join(map(str, task.get("devices") or []))),
        ("tries", str(task.get("attempt_count") or "")),
        ("started", words.local_time(task.get("started_at"))),
        ("ended", words.local_time(task.get("ended_at"))),
        ("using", task.get("using") or ""),
        ("last saved", words.ago(task.get("last_saved_at"), time.time())),
        ("reason", task.get("reason") or ""),
    )
    for label, value in facts:
        if value not in {"", "-"}:
            yield f"  {screen.paint(f'{label:<10}', 'dim')} {clean(value)}"


def _number(task: dict[str, Any]) -> int:
    """As it is named: of a series its index."""
    index = task.get("array_index")
    return int(task["task_index"] if index is None else index)


def _row(task: dict[str, Any], now: float) -> list[Any]:
    ran = words.between(task.get("started_at"), task.get("ended_at"), now)
    return [
        str(_number(task)),
        task.get("group") or "",
        Cell(task["status"], STATUS_STYLES.get(task["status"], "")),
        task.get("node_id") or "",
        ",".join(map(str, task.get("devices") or [])),
        str(task.get("attempt_count") or ""),
        "-" if ran is None or not task.get("started_at") else words.duration(ran),
        task.get("reason") or "",
    ]
