"""`tgpu history`: jobs that have ended, what they took and why they ended."""

from __future__ import annotations

import time

from tgpu.cli import rows, words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser, count
from tgpu.cli.exits import OK
from tgpu.cli.moments import moment
from tgpu.cli.table import Column, table
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_ENDED = "completed,failed,cancelled"
_MOST_SHOWN = 100
_COLUMNS = (
    Column("ID", right=True),
    Column("NAME", floor=8),
    Column("USER", floor=5),
    Column("STATUS"),
    Column("ENDED", rank=1),
    Column("ELAPSED", right=True),
    Column("EXIT", right=True),
    Column("CAUSE", floor=8),
    Column("GPUS", right=True),
    Column("GPU-HOURS", right=True),
)


def parser() -> Parser:
    made = command_parser(
        "history", "Jobs that have ended, newest first: what they took, and why they ended."
    )
    add_output(made, quiet="print only ids")
    made.add_argument("--since", default="7d", metavar="WHEN", help="7d, 12h or 2026-07-25 (default: 7d)")
    made.add_argument("--until", metavar="WHEN", help="likewise")
    made.add_argument("--user", metavar="NAME", help="only this user's jobs")
    made.add_argument("--mine", action="store_true", help="only your jobs")
    made.add_argument(
        "--status", default=_ENDED, metavar="S,…", help="only completed, failed or cancelled ones"
    )
    made.add_argument("--name", help="only jobs of this name")
    made.add_argument(
        "--limit", type=count, metavar="N", help=f"at most N (default for people: {_MOST_SHOWN}; 0: all)"
    )
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    limit = args.limit if args.limit is not None else 0 if args.json or args.quiet else _MOST_SHOWN
    now = time.time()
    with Client() as client:
        found = list(
            client.jobs(
                limit=limit + 1 if limit else None,
                status=args.status,
                user="me" if args.mine else args.user,
                name=args.name,
                since=moment("--since", args.since, now),
                until=moment("--until", args.until, now) if args.until else None,
                order="newest",
            )
        )
    jobs = found[:limit] if limit else found

    def people(screen: Screen) -> Iterator[str]:
        return _people(screen, jobs, now, more=len(found) > len(jobs))

    show(Answer(jobs, people, [job["job_id"] for job in jobs]), args)
    return OK


def _people(screen: Screen, jobs: list[dict[str, Any]], now: float, *, more: bool) -> Iterator[str]:
    if not jobs:
        yield "no jobs ended in that time"
        return
    yield from table(screen, _COLUMNS, [_row(job, now) for job in jobs])
    total = sum(rows.gpu_hours(job, now) for job in jobs)
    yield f"{words.plural(len(jobs), 'job')}, {total:.2f} GPU-hours" + (
        "; more with `--limit 0`" if more else ""
    )


def _row(job: dict[str, Any], now: float) -> list[Any]:
    ran = words.between(job.get("started_at"), job.get("ended_at"), now)
    return [
        str(job["job_id"]),
        job.get("name") or "",
        job.get("user_id") or "",
        rows.status(job),
        words.local_time(job.get("ended_at")),
        "-" if ran is None else words.duration(ran),
        "" if job.get("exit_code") is None else str(job["exit_code"]),
        str(job.get("cause") or "").replace("-", " "),
        "0" if (asked := rows.gpus({**job, "devices": None})) == "-" else asked,
        f"{rows.gpu_hours(job, now):.2f}",
    ]
