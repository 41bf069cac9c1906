"""`tgpu edit`: changes jobs that still wait."""

from __future__ import annotations

from tgpu.cli.altering import each
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.change_flags import add_change_flags, changes_of, flags_of_fields
from tgpu.cli.exits import UsageError
from tgpu.cli.refusals import in_flags
from tgpu.cli.selectors import resolve
from tgpu.client import Client

_EXAMPLES = """\
examples:
  tgpu edit 42 --time 2h --priority 5
  tgpu edit 42-45 --gpus 1 --without pool
  tgpu edit last --begin 22:00
  tgpu edit 42 --array %5
A job is changed only while all of it waits; it keeps its place in line. How many of an array are live at once
can be changed while some of it runs.
"""


def parser() -> Parser:
    made = command_parser("edit", "Change jobs that still wait.", _EXAMPLES)
    add_jobs(made)
    add_change_flags(made)
    add_output(made, quiet="print only the jobs' ids")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    changes = changes_of(args)
    if not changes:
        raise UsageError("nothing to change: say what, such as --time 2h (see `tgpu edit --help`)")
    with Client() as client, in_flags(flags_of_fields(args)):
        return each(
            args, resolve(client, args.jobs), lambda on, job_id: on.edit(job_id, **changes), client, "Changed"
        )
