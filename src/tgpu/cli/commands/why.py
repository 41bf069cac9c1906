"""`tgpu why`: what stands between a job and its start."""

from __future__ import annotations

import time

from tgpu.cli import rows, words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.exits import OK
from tgpu.cli.screen import clean
from tgpu.cli.selectors import resolve_tasks
from tgpu.cli.table import Column, table
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_COLUMNS = (
    Column("JOB", right=True),
    Column("USER", floor=5),
    Column("NAME", floor=8),
    Column("HOLDS"),
    Column("NODE", floor=6, rank=1),
    Column("RUNNING", right=True),
    Column("ENDS WITHIN", right=True),
)
_WAITING = frozenset({"pending", "preempted"})
_TO_COME = "to-come"
_SOON_S = 60
_IF_ALL_RUN_LONG = "not before"
"""How an estimate begins that takes all tasks to run as long as they may; an interval says more."""


def parser() -> Parser:
    made = command_parser("why", "Why a job waits, when it starts, and what would start it now.")
    add_jobs(made, default="last", tasks=True)
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        answers = [_answer(client, job_id, task) for job_id, task in resolve_tasks(client, args.jobs)]

    def people(screen: Screen) -> Iterator[str]:
        for answer in answers:
            yield from _people(screen, answer) if "summary" in answer else _of_task(screen, answer)

    show(Answer(answers[0] if len(answers) == 1 else answers, people), args)
    return OK


def _answer(client: Client, job_id: int, task: int | None) -> dict[str, Any]:
    """What a task waits for, its job waits for, and that is told of the first one that does; of one that does
    not wait, or waits while all that may of its job run, the task."""
    found = None if task is None else client.task(job_id, task)
    if found is not None and found["status"] not in _WAITING:
        return found
    why = client.why(job_id)
    rest = [reason["text"] for reason in why.get("reasons") or () if reason["code"] == _TO_COME]
    if found is None or not why.get("waiting"):
        return why if found is None or not rest else found | {"reason": rest[0]}
    return why | {"task_id": found["task_id"], "status": found["status"]}


def _of_task(screen: Screen, task: dict[str, Any]) -> Iterator[str]:
    where = f" on {task['node_id']}" if task.get("node_id") else ""
    reason = f": {task['reason']}" if task.get("reason") else ""
    head = screen.paint(f"Task {task['task_id']}:", "bold")
    yield f"{head} {clean(task['status'] + where + reason)}"


def _people(screen: Screen, why: dict[str, Any]) -> Iterator[str]:
    if "task_id" in why:
        head = screen.paint(f"Task {why['task_id']}:", "bold")
        yield f"{head} {why['status']}; what follows is about the first of its job that waits"
    head = screen.paint(f"Job {why['job_id']}:", "bold")
    yield f"{head} {clean(why['summary'])}"
    for reason in why.get("reasons") or []:
        if reason["text"] not in why["summary"]:
            lead = "  " if reason["code"] == "in-line" else "  - "
            yield f"{lead}{clean(reason['text'])}"
    if why.get("position") and not any(reason["code"] == "in-line" for reason in why.get("reasons") or []):
        yield f"  {words.ordinal(why['position'])} in line"
    by_limits, interval = why.get("estimate"), why.get("start_interval")
    if by_limits and not (interval and by_limits.startswith(_IF_ALL_RUN_LONG)):
        yield f"  {clean(by_limits)}"
    if interval:
        yield f"  {clean(expected_start(interval, time.time()))}"
    if why.get("advice"):
        yield f"  {screen.paint('Advice:', 'bold')} {clean(why['advice']['text'])}"
    holders = why.get("holders") or []
    if holders:
        yield ""
        yield from table(screen, _COLUMNS, [_row(holder) for holder in holders])


def expected_start(interval: dict[str, Any], now: float) -> str:
    """`expected start 14:05 (between 13:40 and 15:10; run times of 12 similar jobs)`."""
    expected, earliest, latest = (
        words.short_time(interval[name], now) for name in ("expected", "earliest", "latest")
    )
    if (words.timestamp(interval["latest"]) or 0) - now < _SOON_S:
        return f"expected to start within a minute ({interval['basis']})"
    span = f"at {expected}" if earliest == latest else f"between {earliest} and {latest}"
    return f"expected start {expected} ({span}; {interval['basis']})"


def _row(holder: dict[str, Any]) -> list[str]:
    running, remaining = holder.get("running_s"), holder.get("remaining_s")
    return [
        str(holder["job_id"]),
        holder.get("user") or "",
        holder.get("name") or "",
        _holds(holder),
        holder.get("node_id") or "",
        "-" if running is None else words.duration(running),
        "no time limit" if remaining is None else words.duration(remaining),
    ]


def _holds(holder: dict[str, Any]) -> str:
    """`2 (0,1)`, `1x 20G (0)`, `3 matlab`, `8 CPUs`, `64G of memory`."""
    asked = {"gpu_request": holder.get("gpu"), "gpu_memory_mb": holder.get("gpu_memory_mb")}
    gpus = rows.gpus({**asked, "devices": holder.get("devices")})
    parts = [] if gpus == "-" else [gpus]
    if cpus := holder.get("cpu"):
        parts.append(f"{words.number(cpus)} {'CPU' if cpus == 1 else 'CPUs'}")
    for name, what in (("mem_mb", "memory"), ("disk_mb", "disk")):
        if size := holder.get(name):
            parts.append(f"{words.size(size)} of {what}")
    named = {**(holder.get("generic") or {}), **(holder.get("licences") or {})}
    return ", ".join(parts + [f"{number} {clean(name)}" for name, number in named.items()]) or "-"
