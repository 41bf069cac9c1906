"""`tgpu show`: a card with all about a job."""

from __future__ import annotations

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.card import card
from tgpu.cli.exits import OK
from tgpu.cli.selectors import resolve
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tgpu.cli.screen import Screen


def parser() -> Parser:
    made = command_parser("show", "All about a job: what was asked, what became of it, and when.")
    add_jobs(made, default="last")
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        jobs = [client.job(job_id) for job_id in resolve(client, args.jobs)]

    def people(screen: Screen) -> Iterator[str]:
        for at, job in enumerate(jobs):
            if at:
                yield ""
            yield from card(screen, job)

    show(Answer(jobs[0] if len(jobs) == 1 else jobs, people), args)
    return OK
