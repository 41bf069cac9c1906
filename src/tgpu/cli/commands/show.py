"""`tgpu show`: a card with all about a job."""

from __future__ import annotations

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.card import card
from tgpu.cli.exits import OK
from tgpu.cli.screen import note
from tgpu.cli.selectors import resolve_tasks
from tgpu.cli.task_card import task_card, tasks_of_status
from tgpu.cli.use_lines import use_chart, use_now
from tgpu.client import Client, TgpuError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen


def parser() -> Parser:
    made = command_parser("show", "All about a job: what was asked, what became of it, and when.")
    add_jobs(made, default="last", tasks=True)
    made.add_argument(
        "--use", action="store_true", help="how its use of CPUs, memory, GPUs and disks went, up to now"
    )
    made.add_argument(
        "--status",
        metavar="STATUS",
        help="instead, all its tasks that are failed, cancelled, running, …",
    )
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        chosen = resolve_tasks(client, args.jobs)
        if args.use:
            return _show_use([(one, client.use(one, task=task)) for one, task in chosen], args)
        if args.status:
            return _show_tasks(client, [one for one, _ in chosen], args)
        found = [_found(client, one, task) for one, task in chosen]
        if not args.json:
            for job, task in found:
                _add_use(client, job, task)

    def people(screen: Screen) -> Iterator[str]:
        for at, (job, task) in enumerate(found):
            if at:
                yield ""
            yield from card(screen, job) if task is None else task_card(screen, job, task)

    shown = [job if task is None else task for job, task in found]
    show(Answer(shown[0] if len(shown) == 1 else shown, people), args)
    return OK


def _show_tasks(client: Client, jobs: list[int], args: Namespace) -> int:
    """Of arrays those that are worth a look."""
    tasks = [task for job_id in jobs for task in client.tasks(job_id, status=args.status)]
    if not tasks:
        note(f"no task is {args.status}")

    def people(screen: Screen) -> Iterator[str]:
        if tasks:
            yield from tasks_of_status(screen, tasks)

    show(Answer(tasks, people), args)
    return OK


def _show_use(courses: list[tuple[int, dict[str, Any]]], args: Namespace) -> int:
    def people(screen: Screen) -> Iterator[str]:
        for at, (job_id, course) in enumerate(courses):
            if at:
                yield ""
            yield from use_chart(screen, job_id, course)

    shown = [course for _, course in courses]
    show(Answer(shown[0] if len(shown) == 1 else shown, people), args)
    return OK


def _add_use(client: Client, job: dict[str, Any], task: dict[str, Any] | None) -> None:
    """What one task uses now, if it can be told: its node may be away, and not everybody may know."""
    one = job if task is None else task
    if one["status"] != "running" or (task is None and job.get("task_list")):
        return
    try:
        course = client.use(job["job_id"], task=None if task is None else task["task_index"])
    except TgpuError:
        return
    one["using"] = use_now(course)


def _found(client: Client, job_id: int, task: int | None) -> tuple[dict[str, Any], dict[str, Any] | None]:
    return client.job(job_id), None if task is None else client.task(job_id, task)
