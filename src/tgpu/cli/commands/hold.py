"""`tgpu hold`: jobs that wait are not started for now."""

from __future__ import annotations

from tgpu.cli.altering import each
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.selectors import resolve
from tgpu.client import Client


def parser() -> Parser:
    made = command_parser(
        "hold", "Keep jobs that wait from being started, until they are released. What runs goes on."
    )
    add_jobs(made)
    add_output(made, quiet="print only the jobs' ids")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        return each(args, resolve(client, args.jobs), Client.hold, client, "Held")
