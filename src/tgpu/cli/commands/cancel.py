"""`tgpu cancel`: stops jobs, or takes them out of the queue; says what became of each."""

from __future__ import annotations

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.exits import NOT_FOUND, NOT_PERMITTED, OK, REFUSED
from tgpu.cli.screen import note
from tgpu.cli.selectors import resolve
from tgpu.client import Client

_REFUSALS = (
    ("already_ended", "has already ended", REFUSED),
    ("not_found", "does not exist", NOT_FOUND),
    ("forbidden", "is not yours to cancel", NOT_PERMITTED),
)


def parser() -> Parser:
    made = command_parser(
        "cancel",
        "Stop jobs, or take them out of the queue. A running job gets SIGTERM, its grace, then SIGKILL.",
    )
    add_jobs(made)
    add_output(made, quiet="print only the ids of jobs that are being cancelled")
    return made


def main(argv: list[str]) -> int:
    """Of several jobs, cancels what it can and says what it could not."""
    args = parser().parse_args(argv)
    with Client() as client:
        ids = resolve(client, args.jobs)
        if not ids:
            note("you have no jobs that wait or run")
            return OK
        if len(ids) == 1:
            job = client.cancel(ids[0])
            show(Answer(job, lambda _: [_words(ids[0])], ids), args)
            return OK
        outcome = client.cancel_many(ids)
    done = outcome["cancelling"]
    show(Answer(outcome, lambda _: map(_words, done), done), args)
    code = OK
    for kind, text, its_code in _REFUSALS:
        for job_id in outcome[kind]:
            note(f"job {job_id} {text}")
            code = its_code
    return code


def _words(job_id: int) -> str:
    return f"Job {job_id} is being cancelled"
