"""`tgpu show`: a card with all about a job."""

from __future__ import annotations

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.card import card
from tgpu.cli.exits import OK
from tgpu.cli.selectors import resolve_tasks
from tgpu.cli.task_card import task_card
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen


def parser() -> Parser:
    made = command_parser("show", "All about a job: what was asked, what became of it, and when.")
    add_jobs(made, default="last", tasks=True)
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        found = [_found(client, *chosen) for chosen in resolve_tasks(client, args.jobs)]

    def people(screen: Screen) -> Iterator[str]:
        for at, (job, task) in enumerate(found):
            if at:
                yield ""
            yield from card(screen, job) if task is None else task_card(screen, job, task)

    shown = [job if task is None else task for job, task in found]
    show(Answer(shown[0] if len(shown) == 1 else shown, people), args)
    return OK


def _found(client: Client, job_id: int, task: int | None) -> tuple[dict[str, Any], dict[str, Any] | None]:
    return client.job(job_id), None if task is None else client.task(job_id, task)
