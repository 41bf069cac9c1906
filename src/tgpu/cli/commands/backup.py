"""`tgpu backup`: a copy of the database file, of one moment, while the server runs."""

from __future__ import annotations

from pathlib import Path

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import OK, REFUSED, CommandError
from tgpu.cli.node_flags import settings

_MORE = """\
The copy holds every job with its environment, and the cluster's own secrets: keep it as safe as the original.
Nodes' records and jobs' output are not part of it.
"""


def parser() -> Parser:
    made = command_parser("backup", "Copy the database file, while the server runs.", _MORE)
    made.add_argument("file", metavar="FILE", help="a new file; nothing is ever replaced")
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    chosen = settings(args)
    if chosen.store:
        raise CommandError(
            "this installation keeps its facts in PostgreSQL, which has means of its own: pg_dump, or "
            "continuous archiving (docs/backup.md)",
            REFUSED,
        )
    from tgpu.store.port import StoreUnusableError  # noqa: PLC0415  `--help` needs none of it
    from tgpu.store.sqlite_copies import CopyError, back_up  # noqa: PLC0415

    try:
        copied = back_up(chosen.database, Path(args.file))
    except (CopyError, StoreUnusableError) as error:
        raise CommandError(str(error), REFUSED) from None
    data = {"file": args.file, "cluster_id": copied.cluster_id, "jobs": copied.jobs, "bytes": copied.bytes}
    size = words.size(copied.bytes / 2**20)
    show(Answer(data, lambda _: [f"Copied to {args.file}: {words.plural(copied.jobs, 'job')}, {size}"]), args)
    return OK
