"""`tgpu report`: who was given how much of the machines, and how much of it was used."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentTypeError

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.exits import OK
from tgpu.cli.moments import moment
from tgpu.cli.nobody import check_names
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_MOST_DEPTH = 8
_EPILOG = """\
--by takes user, tenant, pool, gpu-type, class, node, cause, and one of day, week, month; several
with commas. Attempts are cut at the edges of the time asked for; what runs counts up to now.
TRIES are attempts. GPU-HOURS, CPU-HOURS and GB-HOURS (of memory) were given; GPU-USED, CPU-USED and
GB-USED say which part of them was used, GPU-WASTED how many hours were not, GPU-LOST how many went into
work that was thrown away. A column without any figure is left out; docs/accounting.md says more.
"""


def parser() -> Parser:
    made = command_parser("report", "Who was given how much, and how much of it was used.", _EPILOG)
    made.add_argument(
        "--by", default="user", metavar="WHAT,…", help="one row for each of these (default: user)"
    )
    made.add_argument("--since", default="30d", metavar="WHEN", help="30d, 12h or 2026-07-25 (default: 30d)")
    made.add_argument("--until", metavar="WHEN", help="likewise (default: now)")
    made.add_argument("--user", metavar="NAME,…", help="only what these users' jobs took")
    made.add_argument("--mine", action="store_true", help="only what your jobs took")
    made.add_argument("--tenant", metavar="T,…", help="only these tenants and those below them")
    made.add_argument(
        "--depth", type=_depth, metavar="N", help="tenants below N levels count as their ancestor there"
    )
    made.add_argument("--pool", metavar="POOL,…", help="only nodes of these pools")
    made.add_argument("--gpu-type", metavar="MODEL", help="only GPUs with this in their model's name")
    form = made.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the API's own object: rows, and their total")
    form.add_argument("--table", action="store_true", help="a table (the default)")
    form.add_argument("--csv", action="store_true", help="one line per row, every figure, in seconds")
    form.add_argument("--chart", action="store_true", help="bars; with `--by day`, week or month columns")
    return made


def _depth(text: str) -> int:
    """For argparse."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_DEPTH):
        raise ArgumentTypeError(f"must be a whole number from 1 to {_MOST_DEPTH}; got {text!r}")
    return int(text)


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    now = time.time()
    with Client() as client:
        report = client.report(
            by=args.by,
            since=moment("--since", args.since, now),
            until=moment("--until", args.until, now) if args.until else None,
            user="me" if args.mine else args.user,
            tenant=args.tenant,
            depth=args.depth,
            pool=args.pool,
            gpu_type=args.gpu_type,
        )
        if not report["rows"]:
            check_names(client, tenants=args.tenant, users=args.user)
    if args.csv:
        _write_csv(report)
        return OK

    def people(screen: Screen) -> Iterator[str]:
        if args.chart:
            from tgpu.cli.report_chart import chart  # noqa: PLC0415  draws only when asked

            return chart(screen, report)
        from tgpu.cli.report_table import report_lines  # noqa: PLC0415

        return report_lines(screen, report)

    show(Answer(report, people), args)
    return OK


def _write_csv(report: dict[str, Any]) -> None:
    import csv  # noqa: PLC0415  only this needs it

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*report["by"], *report["total"]])
    for row in report["rows"]:
        writer.writerow([*row["keys"].values(), *row["figures"].values()])
