"""Jobs whose tasks are not all alike: who of them asked for what.

A group has its job's own field names, so that whatever shows a job can show a group.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def groups_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The job itself, if all of its tasks are alike."""
    return job.get("groups") or [job]


def of_task(job: dict[str, Any], task_index: int) -> dict[str, Any]:
    """The job, with what this one task of it asked for."""
    group: dict[str, Any]
    for group in job.get("groups") or ():
        if task_index < group["tasks"]:
            return job | group | {"name": job.get("name")}
        task_index -= group["tasks"]
    return job


def each(job: dict[str, Any], said: Callable[[dict[str, Any]], str]) -> str:
    """`3x1`: how many tasks ask for so much each; of several groups `2+3x1`, without those that ask for
    none."""
    tasks: dict[str, int] = {}
    for group in groups_of(job):
        amount = said(group)
        tasks[amount] = tasks.get(amount, 0) + int(group.get("tasks") or 1)
    if len(tasks) > 1:
        tasks = {amount: count for amount, count in tasks.items() if amount not in _NONE}
    return "+".join(
        amount if count == 1 or amount in _NONE else f"{count}x{amount}" for amount, count in tasks.items()
    )


_NONE = frozenset({"", "-", "0"})
