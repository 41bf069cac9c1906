"""`tgpu list`: who uses what, and what waits."""

from __future__ import annotations

import time

from tgpu.cli import rows, words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser, count
from tgpu.cli.exits import OK
from tgpu.cli.nobody import check_names
from tgpu.cli.selectors import LIVE
from tgpu.cli.table import Column, table
from tgpu.client import Client, TgpuError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_MOST_SHOWN = 1000
_MOST_EXPLAINED = 20
_ORDER = {"running": 0, "scheduled": 1, "preempted": 2, "pending": 3}
_COLUMNS = (
    Column("ID", right=True),
    Column("NAME", floor=8),
    Column("USER", floor=5),
    Column("TENANT", floor=8, rank=2),
    Column("PRIORITY", floor=8, rank=3),
    Column("STATUS"),
    Column("GPUS"),
    Column("CPUS", right=True, rank=4),
    Column("MEM", right=True, rank=5),
    Column("TIME", right=True),
    Column("NODE", floor=6, rank=2),
    Column("REASON", floor=12, rank=1, most=80),
)
_WITH_START = tuple(Column("START") if column.title == "NODE" else column for column in _COLUMNS)
"""A pending job has no node, so its place is free."""
_PENDING = "pending,preempted"


def parser() -> Parser:
    made = command_parser(
        "list", "Jobs that wait or run, everyone's: running first, then in order of arrival."
    )
    add_output(made, quiet="print only ids")
    made.add_argument("--mine", action="store_true", help="only your jobs")
    made.add_argument("--user", metavar="NAME", help="only this user's jobs")
    made.add_argument("--tenant", metavar="T", help="only jobs of this tenant and those below it")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="ended jobs too, newest first")
    which.add_argument(
        "--start", action="store_true", help="only pending jobs, with their expected start, the soonest first"
    )
    made.add_argument("--status", metavar="S,…", help="only jobs of this status, such as running or failed")
    made.add_argument("--name", help="only jobs of this name")
    made.add_argument(
        "--limit", type=count, metavar="N", help=f"at most N (default for people: {_MOST_SHOWN}; 0: all)"
    )
    made.add_argument("--watch", action="store_true", help="show it anew every 2 s until Ctrl-C")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        if args.watch:
            from tgpu.cli.watching import watch  # noqa: PLC0415

            return watch(lambda: _answer(client, args))
        show(_answer(client, args), args)
    return OK


def _answer(client: Client, args: Namespace) -> Answer:
    limit = args.limit if args.limit is not None else 0 if args.json or args.quiet else _MOST_SHOWN
    found = list(
        client.jobs(
            limit=limit + 1 if limit else None,  # one more tells whether there are more
            status=args.status or (None if args.all else _PENDING if args.start else LIVE),
            user="me" if args.mine else args.user,
            name=args.name,
            within=args.tenant,
            order="newest" if args.all else "oldest",
            **({"expected_start": True} if args.start else {}),
        )
    )
    if not found and args.tenant is not None:
        check_names(client, tenants=args.tenant, users=None)
    jobs = found[:limit] if limit else found
    if args.start:
        jobs.sort(key=lambda job: (not job.get("expected_start"), job.get("expected_start"), job["job_id"]))
    elif not args.all:
        jobs.sort(key=lambda job: (_ORDER.get(job["status"], 9), job["job_id"]))

    def people(screen: Screen) -> Iterator[str]:
        _explain(client, jobs)
        more, tenants = len(found) > len(jobs), args.tenant is not None
        return _people(screen, jobs, more=more, tenants=tenants, starts=args.start)

    return Answer(jobs, people, [job["job_id"] for job in jobs])


def _explain(client: Client, jobs: list[dict[str, Any]]) -> None:
    """Why the first of those that wait do so: half a millisecond each, so not for all of a long queue."""
    waiting = [
        job
        for job in jobs
        if job["status"] in {"pending", "preempted"} and (job.get("held") or not job.get("reason"))
    ]
    for job in waiting[:_MOST_EXPLAINED]:
        try:
            job["reason"] = client.why(job["job_id"])["summary"]
        except TgpuError:
            return  # the list is worth more than its last column


def _people(
    screen: Screen, jobs: list[dict[str, Any]], *, more: bool, tenants: bool, starts: bool
) -> Iterator[str]:
    """`tenants`: whose they are is said even if they are all of one. `starts`: with expected starts."""
    if not jobs:
        yield "no jobs"
        return
    now = time.time()
    tenants = tenants or len({job.get("tenant_id") for job in jobs}) > 1
    columns = _WITH_START if starts else _COLUMNS
    yield from table(screen, columns, [_row(job, now, tenant=tenants, start=starts) for job in jobs])
    if more:
        yield "… and more; `--limit 0` shows all"


def _row(job: dict[str, Any], now: float, *, tenant: bool, start: bool) -> list[Any]:
    return [
        str(job["job_id"]),
        job.get("name") or "",
        job.get("user_id") or "",
        (job.get("tenant_id") or "") if tenant else "",
        rows.priority(job),
        rows.status(job),
        rows.gpus(job),
        rows.cpus(job),
        rows.memory(job),
        rows.elapsed(job, now),
        words.short_time(job.get("expected_start"), now) if start else job.get("assigned_node_id") or "",
        job.get("reason") or "",
    ]
