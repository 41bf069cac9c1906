"""`tgpu history`: jobs that have ended, or their attempts, with whatever is asked of them."""

from __future__ import annotations

import sys
import time

from tgpu.cli import rows, words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser, count
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.history_fields import USUAL, USUAL_OF_ATTEMPTS, chosen, described, facts_of
from tgpu.cli.moments import moment
from tgpu.cli.table import table
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence
    from typing import Any

    from tgpu.cli.history_fields import Facts, Field
    from tgpu.cli.screen import Screen

_FINAL = ("completed", "failed", "cancelled")
_MOST_SHOWN = 100


def parser() -> Parser:
    made = command_parser(
        "history", "Jobs that have ended, newest first: what they took, and why they ended."
    )
    add_output(made, quiet="print only ids")
    made.add_argument("--since", default="7d", metavar="WHEN", help="7d, 12h or 2026-07-25 (default: 7d)")
    made.add_argument("--until", metavar="WHEN", help="likewise")
    of = made.add_mutually_exclusive_group()
    of.add_argument("--started", action="store_true", help="those times are of their start, not of their end")
    of.add_argument("--submitted", action="store_true", help="those times are of their submission")
    made.add_argument("--user", metavar="NAME,…", help="only these users' jobs")
    made.add_argument("--mine", action="store_true", help="only your jobs")
    made.add_argument("--tenant", metavar="T", help="only jobs of this tenant and those below it")
    made.add_argument(
        "--state", "--status", default=",".join(_FINAL), metavar="S,…", dest="state",
        help="only these, such as failed (default: all that have ended)",
    )  # fmt: skip
    made.add_argument("--cause", metavar="C,…", help="only for these, such as time-limit or out-of-memory")
    made.add_argument("--node", metavar="N,…", help="only on these nodes")
    made.add_argument("--name", help="only jobs with this in their name")
    made.add_argument("--exit", metavar="CODE", help="only with this exit code")
    made.add_argument("--min-elapsed", metavar="TIME", help="only what ran at least so long, such as 10m")
    made.add_argument("--attempts", action="store_true", help="a line for every attempt")
    made.add_argument("--fields", metavar="F,…", help="what to show; `help` lists what there is")
    made.add_argument("--csv", action="store_true", help="with commas, for programs")
    made.add_argument("--parsable", action="store_true", help="with |, for programs")
    made.add_argument("--no-header", action="store_true", help="without the line of titles")
    made.add_argument(
        "--limit", type=count, metavar="N", help=f"at most N (default for people: {_MOST_SHOWN}; 0: all)"
    )
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    if args.fields == "help":
        for line in described():
            print(line)
        return OK
    fields = chosen(args.fields or (USUAL_OF_ATTEMPTS if args.attempts else USUAL))
    for_programs = args.json or args.quiet or args.csv or args.parsable
    limit = args.limit if args.limit is not None else 0 if for_programs else _MOST_SHOWN
    now = time.time()
    with Client() as client:
        found = list(client.jobs(limit=limit + 1 if limit else None, order="newest", **_filters(args, now)))
    jobs = found[:limit] if limit else found
    facts = [each for job in jobs for each in _facts(job, now, attempts=args.attempts)]
    if args.csv or args.parsable:
        _write(fields, facts, args)
        return OK

    def people(screen: Screen) -> Iterator[str]:
        lines = _people(screen, fields, facts, jobs, now)
        if args.no_header and facts:
            next(lines, None)
        yield from lines
        if len(found) > len(jobs):
            yield "more with `--limit 0`"

    show(Answer(jobs, people, [each["id"] for each in facts]), args)
    return OK


def _filters(args: Namespace, now: float) -> dict[str, object]:
    states = [word.strip() for word in args.state.split(",")]
    if not (args.started or args.submitted or set(states) <= set(_FINAL)):
        raise UsageError(
            "what has not ended has no end: add --started or --submitted, by which to look for it"
        )
    prefix = "started_" if args.started else "" if args.submitted else "ended_"
    filters: dict[str, object] = {
        "status": args.state,
        "user": "me" if args.mine else args.user,
        "within": args.tenant,
        "name": args.name,
        "cause": args.cause,
        "node": args.node,
        "exit_code": args.exit,
        "min_elapsed": args.min_elapsed,
        f"{prefix}since": moment("--since", args.since, now),
        f"{prefix}until": moment("--until", args.until, now) if args.until else None,
    }
    return filters | ({"attempts": "true"} if args.attempts else {})


def _facts(job: dict[str, Any], now: float, *, attempts: bool) -> Iterator[Facts]:
    if not attempts:
        yield facts_of(job, None, now)
        return
    for attempt in job.get("attempts") or ():
        yield facts_of(job, attempt, now)


def _write(fields: Sequence[Field], facts: Sequence[Facts], args: Namespace) -> None:
    import csv  # noqa: PLC0415  only this needs it

    writer = csv.writer(sys.stdout, delimiter="|" if args.parsable else ",", lineterminator="\n")
    if not args.no_header:
        writer.writerow([field.name for field in fields])
    for each in facts:
        writer.writerow([field.raw(each) for field in fields])


def _people(
    screen: Screen,
    fields: Sequence[Field],
    facts: Sequence[Facts],
    jobs: Sequence[dict[str, Any]],
    now: float,
) -> Iterator[str]:
    if not facts:
        yield "no jobs ended in that time"
        return
    columns = [field.column for field in fields]
    yield from table(screen, columns, [[field.shown(each) for field in fields] for each in facts])
    total = sum(rows.gpu_hours(job, now) for job in jobs)
    yield f"{words.plural(len(jobs), 'job')}, {total:.2f} GPU-hours"
