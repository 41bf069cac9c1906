"""`tgpu logs`: a job's stdout on stdout, its stderr on stderr, by time; of several tasks or of one."""

from __future__ import annotations

import sys

from tgpu.cli import outcome, streaming
from tgpu.cli.arguments import Parser, add_jobs, command_parser, count
from tgpu.cli.exits import OK
from tgpu.cli.screen import note
from tgpu.cli.selectors import resolve_tasks
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

_BOTH = ("stdout", "stderr")


def parser() -> Parser:
    made = command_parser(
        "logs",
        "A job's output: its stdout on stdout, its stderr on stderr, in the order in which lines arrived. Of "
        "a job of several tasks every line begins with its task's number, unless one is named.",
    )
    add_jobs(made, default="last", tasks=True)
    made.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
    made.add_argument("--tail", type=count, metavar="N", help="only the last N lines")
    made.add_argument(
        "-t", "--timestamps", action="store_true", help="begin each line with the time when it arrived (UTC)"
    )
    made.add_argument("--attempt", type=count, metavar="N", help="of this try (default: the latest)")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--stdout", dest="streams", action="store_const", const=("stdout",), default=_BOTH)
    which.add_argument("--stderr", dest="streams", action="store_const", const=("stderr",))
    which.add_argument("--json", action="store_true", help="one object: {job_id, stdout, stderr}")
    return made


def main(argv: list[str]) -> int:
    made = parser()
    args = made.parse_args(argv)
    if args.timestamps and args.json:
        made.error("--timestamps and --json exclude each other: leave out one of them")
    with Client() as client:
        chosen = resolve_tasks(client, args.jobs)
        for job_id, task in chosen:
            job = client.job(job_id)
            if streaming.never_began(job):
                note(f"job {job_id} has no output: it never began ({outcome.in_words(job)})")
                continue
            part = _part(job, task, args)
            if len(chosen) > 1 and not args.json:
                print(f"==> job {job_id if task is None else f'{job_id}.{task}'} <==", flush=True)
            if args.json:
                streaming.as_json(client, part)
            elif args.follow:
                streaming.follow(part, args.streams)
            else:
                streaming.copy(client, part, args.streams)
    sys.stderr.flush()
    return OK


def _part(job: dict[str, Any], task: int | None, args: Namespace) -> streaming.Part:
    tasks, several = streaming.tasks_of(job) if task is None else ([task], False)
    return streaming.Part(
        job["job_id"], tasks, attempt=args.attempt, tail=args.tail, named=several, stamped=args.timestamps
    )
