"""`tgpu history`: jobs that have ended, or their attempts, with whatever is asked of them."""

from __future__ import annotations

import sys
import time
from itertools import islice

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser, count
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.history_fields import USUAL, USUAL_OF_ATTEMPTS, chosen, described, facts_of
from tgpu.cli.moments import check_order, moment
from tgpu.cli.nobody import check_names
from tgpu.cli.selectors import LIVE
from tgpu.cli.table import table
from tgpu.client import Client
from tgpu.domain.quantities import BadQuantityError, seconds

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from tgpu.cli.history_fields import Facts, Field
    from tgpu.cli.screen import Screen

_FINAL = ("completed", "failed", "cancelled")
_STATES = (*LIVE.split(","), *_FINAL)
_CAUSES = (
    "exited", "signalled", "out-of-memory", "time-limit", "disk-limit", "node-lost", "rebooted",
    "device-lost", "supervisor-lost", "cancelled", "could-not-start", "waited-too-long", "preempted",
    "superseded", "memory-pressure", "disk-pressure", "gang-broken", "gang-restarted", "dependency-failed",
    "deadline", "suspended", "restarted", "job-failed", "job-done",
)  # fmt: skip
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
    made.add_argument(
        "--attempts",
        action="store_true",
        help="a line for every attempt; what is asked of jobs is asked of each of them",
    )
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
        # One more than is shown tells whether there are more.
        found = list(islice(_found(client, args, now, limit), limit + 1 if limit else None))
        if not found:
            check_names(client, tenants=args.tenant, users=args.user)
    facts = found[:limit] if limit else found
    if args.csv or args.parsable:
        _write(fields, facts, args)
        return OK

    def people(screen: Screen) -> Iterator[str]:
        lines = _people(screen, fields, facts, attempts=args.attempts)
        if args.no_header and facts:
            next(lines, None)
        yield from lines
        if len(found) > len(facts):
            yield "more with `--limit 0`"

    show(Answer(_jobs(facts), people, [each["id"] for each in facts]), args)
    return OK


def _jobs(facts: Sequence[Facts]) -> list[dict[str, Any]]:
    """As the API has them, with just those attempts that have a line."""
    jobs: dict[int, dict[str, Any]] = {}
    for each in facts:
        job = jobs.setdefault(
            each["job"]["job_id"], each["job"] | ({"attempts": []} if "attempt" in each else {})
        )
        if "attempt" in each:
            job["attempts"].append(each["attempt"])
    return list(jobs.values())


def _found(client: Client, args: Namespace, now: float, limit: int) -> Iterator[Facts]:
    """One for each line, page after page."""
    filters = _filters(args, now)
    if not args.attempts:
        for job in client.jobs(limit=limit + 1 if limit else None, order="newest", **filters):
            yield facts_of(job, None, now)
        return
    is_wanted = _wanted_attempts(args)
    for job in client.jobs(limit=None, order="newest", **filters):
        tries = (facts_of(job, attempt, now) for attempt in job.get("attempts") or ())
        yield from filter(is_wanted, tries)


def _filters(args: Namespace, now: float) -> dict[str, object]:
    states = [word.strip() for word in args.state.split(",")]
    for state in states:
        if state not in _STATES:
            raise UsageError(f"--state must be some of {','.join(_STATES)}; got {state!r}")
    if not (args.started or args.submitted or set(states) <= set(_FINAL)):
        raise UsageError(
            "what has not ended has no end: add --started or --submitted, by which to look for it"
        )
    prefix = "started_" if args.started else "" if args.submitted else "ended_"
    since = moment("--since", args.since, now)
    until = moment("--until", args.until, now) if args.until else None
    check_order(since, until)
    filters: dict[str, object] = {
        "status": ",".join(states),
        "user": "me" if args.mine else args.user,
        "within": args.tenant,
        "name": args.name,
        f"{prefix}since": since,
        f"{prefix}until": until,
    }
    if args.attempts:
        return filters | {"attempts": "true"}
    how = {"cause": args.cause, "node": args.node, "exit_code": args.exit, "min_elapsed": args.min_elapsed}
    return filters | how


def _wanted_attempts(args: Namespace) -> Callable[[Facts], bool]:
    """What the server asks of jobs, which it knows by their last attempt, is asked of every attempt here."""
    causes, nodes = _words(args.cause), _words(args.node)
    for cause in causes:
        if cause not in _CAUSES:
            raise UsageError(f"--cause must be some of {','.join(_CAUSES)}; got {cause!r}")
    try:
        least = seconds("--min-elapsed", args.min_elapsed) if args.min_elapsed else 0
        code = None if args.exit is None else int(args.exit)
    except BadQuantityError as error:
        raise UsageError(str(error)) from None
    except ValueError:
        raise UsageError(f"--exit must be a whole number; got {args.exit!r}") from None
    return lambda facts: (
        (not causes or facts["cause"] in causes)
        and (not nodes or facts["node"] in nodes)
        and (code is None or facts["exit"] == code)
        and (facts["elapsed"] or 0) >= least
    )


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _write(fields: Sequence[Field], facts: Sequence[Facts], args: Namespace) -> None:
    import csv  # noqa: PLC0415  only this needs it

    writer = csv.writer(sys.stdout, delimiter="|" if args.parsable else ",", lineterminator="\n")
    if not args.no_header:
        writer.writerow([field.name for field in fields])
    for each in facts:
        writer.writerow([field.raw(each) for field in fields])


def _people(
    screen: Screen, fields: Sequence[Field], facts: Sequence[Facts], *, attempts: bool
) -> Iterator[str]:
    if not facts:
        yield "no such jobs in that time"
        return
    columns = [field.column for field in fields]
    yield from table(screen, columns, [[field.shown(each) for field in fields] for each in facts])
    hours = [each["gpu-hours"] for each in facts]
    what = "attempt" if attempts else "job"
    rest = " beside those of several tasks, which `--attempts` has" if None in hours else ""
    yield f"{words.plural(len(facts), what)}, {sum(filter(None, hours)):.2f} GPU-hours{rest}"
