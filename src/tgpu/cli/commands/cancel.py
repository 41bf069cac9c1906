"""`tgpu cancel`: stops jobs, or takes them out of the queue; says what became of each."""

from __future__ import annotations

import sys

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.exits import NOT_FOUND, NOT_PERMITTED, OK, REFUSED
from tgpu.cli.progress_line import ProgressLine
from tgpu.cli.screen import note
from tgpu.cli.selectors import all_in_parts, in_parts, names_all, names_indices, resolve, resolve_indices
from tgpu.client import Client, TgpuError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

_MOST_NAMED = 20
_REFUSALS = (
    ("already_ended", "has already ended", "have already ended", REFUSED),
    ("not_found", "does not exist", "do not exist", NOT_FOUND),
    ("forbidden", "is not yours to cancel", "are not yours to cancel", NOT_PERMITTED),
)


def parser() -> Parser:
    made = command_parser(
        "cancel",
        "Stop jobs, or take them out of the queue. A running job gets SIGTERM, its grace, then SIGKILL. "
        "Of an array also some indices: 42.7, 42.[3-9].",
    )
    add_jobs(made, tasks=True)
    made.add_argument("--now", action="store_true", help="SIGKILL at once, also if its grace has begun")
    add_output(made, quiet="print only the ids of jobs that are being cancelled")
    return made


def main(argv: list[str]) -> int:
    """Of several jobs, cancels what it can and says what it could not."""
    args = parser().parse_args(argv)
    with Client() as client:
        if names_indices(args.jobs):
            return _cancel_indices(client, args)
        if names_all(args.jobs):
            parts = all_in_parts(client, args.jobs)
        else:
            ids = resolve(client, args.jobs)
            if len(ids) == 1:
                job = client.cancel(ids[0], now=args.now)
                show(Answer(job, lambda _: _words(ids), ids), args)
                return OK
            parts = in_parts(ids)
        outcome = _cancel_many(client, parts, args)
    if not any(outcome.values()):
        note("you have no jobs that wait or run")
        return OK
    done = outcome["cancelling"]
    show(Answer(outcome, lambda _: _words(done), done), args)
    return _tell_refusals(outcome, args)


def _cancel_indices(client: Client, args: Namespace) -> int:
    """Some tasks of arrays, perhaps beside whole jobs."""
    jobs: list[dict[str, Any]] = []
    lines: list[str] = []
    for job_id, indices in resolve_indices(client, args.jobs):
        if indices is None:
            jobs.append(client.cancel(job_id, now=args.now))
            lines += _words([job_id])
        else:
            jobs.append(client.cancel_tasks(job_id, indices, now=args.now))
            lines.append(f"Of job {job_id}, {indices} is being cancelled")
    ids = list(dict.fromkeys(job["job_id"] for job in jobs))
    show(Answer(jobs[0] if len(jobs) == 1 else jobs, lambda _: lines, ids), args)
    return OK


def _cancel_many(client: Client, parts: Iterator[list[int]], args: Namespace) -> dict[str, list[int]]:
    """A part at a time: of a long queue the first jobs are stopped before the last are even looked up."""
    outcome: dict[str, list[int]] = {"cancelling": [], **{kind: [] for kind, *_ in _REFUSALS}}
    with ProgressLine(sys.stderr, silent=args.quiet) as line:
        try:
            for ids in parts:
                for kind, some in client.cancel_many(ids, now=args.now).items():
                    outcome[kind] += some
                line.say(f"{_count(outcome['cancelling'])} being cancelled")
        except TgpuError:
            if outcome["cancelling"]:
                note(f"{_count(outcome['cancelling'])} being cancelled; then it went wrong")
            raise
    return outcome


def _tell_refusals(outcome: dict[str, list[int]], args: Namespace) -> int:
    code = OK
    for kind, of_one, of_many, its_code in _REFUSALS:
        ids = outcome[kind]
        if kind == "already_ended" and names_all(args.jobs):
            continue  # they ended while they were being asked about: that is what was wanted
        if len(ids) > _MOST_NAMED:
            note(f"{len(ids):,} jobs {of_many}")
        else:
            for job_id in ids:
                note(f"job {job_id} {of_one}")
        code = its_code if ids else code
    return code


def _words(ids: list[int]) -> list[str]:
    if len(ids) > _MOST_NAMED:
        return [f"{_count(ids)} being cancelled"]
    return [f"Job {job_id} is being cancelled" for job_id in ids]


def _count(ids: list[int]) -> str:
    return "1 job is" if len(ids) == 1 else f"{len(ids):,} jobs are"
