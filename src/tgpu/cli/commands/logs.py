"""`tgpu logs`: a job's stdout on stdout, its stderr on stderr."""

from __future__ import annotations

import sys

from tgpu.cli import streaming
from tgpu.cli.arguments import Parser, add_jobs, command_parser, count
from tgpu.cli.exits import OK
from tgpu.cli.selectors import resolve
from tgpu.client import Client

_BOTH = ("stdout", "stderr")


def parser() -> Parser:
    made = command_parser("logs", "A job's output: its stdout on stdout, its stderr on stderr.")
    add_jobs(made, default="last")
    made.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
    made.add_argument("--tail", type=count, metavar="N", help="only the last N lines")
    made.add_argument("--attempt", type=count, metavar="N", help="of this try (default: the latest)")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--stdout", dest="streams", action="store_const", const=("stdout",), default=_BOTH)
    which.add_argument("--stderr", dest="streams", action="store_const", const=("stderr",))
    which.add_argument("--json", action="store_true", help="one object: {job_id, stdout, stderr}")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        ids = resolve(client, args.jobs)
        for job_id in ids:
            if len(ids) > 1 and not args.json:
                print(f"==> job {job_id} <==", flush=True)
            if args.json:
                streaming.as_json(client, job_id, attempt=args.attempt, tail=args.tail)
            elif args.follow:
                streaming.follow(job_id, args.streams, attempt=args.attempt, tail=args.tail)
            else:
                streaming.copy(client, job_id, args.streams, attempt=args.attempt, tail=args.tail)
    sys.stderr.flush()
    return OK
