"""`tgpu restore`: a backup in the place of the database file; or a database that was put back made ready."""

from __future__ import annotations

import time
from pathlib import Path

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import OK, REFUSED, UNREACHABLE, CommandError, UsageError
from tgpu.cli.node_flags import settings

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tgpu.config.settings import Settings
    from tgpu.store.sqlite_copies import Restored

_MORE = """\
The server must be stopped. The file that is there is kept beside the new one. Job ids go on behind the newest
that was given out, so that none means two jobs. When the server starts again it first asks every node what
runs there: what the backup knows is adopted, what it does not know is stopped, and only then new tasks start.
With PostgreSQL: stop all servers, put the database back with pg_restore or from the archive, then say
`tgpu restore --database`, before the first server starts.
"""


def parser() -> Parser:
    made = command_parser("restore", "Put a backup back.", _MORE)
    made.add_argument("file", nargs="?", metavar="FILE", help="what `tgpu backup` made")
    made.add_argument(
        "--database", action="store_true", help="PostgreSQL was put back: make it ready for use"
    )
    made.add_argument("--other-cluster", action="store_true", help="it may be the backup of another cluster")
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    if args.database == (args.file is not None):
        raise UsageError("what was put back? say FILE, or --database")
    chosen = settings(args)
    from tgpu.store.port import StoreUnavailableError, StoreUnusableError  # noqa: PLC0415  not for --help

    try:
        show(_database(chosen) if args.database else _file(chosen, args), args)
    except StoreUnusableError as error:
        raise CommandError(str(error), REFUSED) from None
    except StoreUnavailableError as error:
        raise CommandError(str(error), UNREACHABLE) from None
    return OK


def _database(chosen: Settings) -> Answer:
    from tgpu.store.postgres_restoring import mark_restored  # noqa: PLC0415  not for --help

    if not chosen.store:
        raise CommandError("this installation keeps its facts in a file: `tgpu restore FILE`", REFUSED)
    counts_from = mark_restored(_url(chosen))
    next_job_id = counts_from.last_job_id + 1
    lines = [
        "The database is ready: start the servers. What runs on the nodes is settled before new tasks start.",
        f"The next job is {next_job_id}: ids up to there may have been given out since the backup was made.",
    ]
    return Answer({"epoch": counts_from.epoch, "next_job_id": next_job_id}, lambda _: lines)


def _url(chosen: Settings) -> str:
    from tgpu.config.secret_file import store_url  # noqa: PLC0415  not for --help
    from tgpu.config.settings import SettingsError  # noqa: PLC0415

    try:
        return store_url(chosen)
    except SettingsError as error:
        raise CommandError(str(error), REFUSED) from None


def _file(chosen: Settings, args: Namespace) -> Answer:
    from tgpu.store.sqlite_copies import CopyError, put_back  # noqa: PLC0415  not for --help

    if chosen.store:
        raise CommandError(
            "this installation keeps its facts in PostgreSQL: put the database back with pg_restore, then "
            "say `tgpu restore --database`",
            REFUSED,
        )
    now_ms = time.time_ns() // 1_000_000
    try:
        restored = put_back(chosen.database, Path(args.file), now_ms, of_another=args.other_cluster)
    except CopyError as error:
        raise CommandError(str(error), REFUSED) from None
    data = {
        "cluster_id": restored.cluster_id,
        "jobs": restored.jobs,
        "epoch": restored.epoch,
        "kept_as": None if restored.kept_as is None else str(restored.kept_as),
        "forgotten": restored.forgotten,
        "changed": restored.changed,
    }
    return Answer(data, lambda _: _people(restored))


def _people(restored: Restored) -> Iterator[str]:
    yield f"Put back: {words.plural(restored.jobs, 'job')}."
    if restored.kept_as is not None:
        yield f"What was there before is kept as {restored.kept_as}"
    if restored.forgotten:
        yield (
            f"Submitted since the backup, and unknown from now on: jobs {words.ranges(restored.forgotten)}. "
            "What runs of them is stopped when the server starts: submit them again."
        )
    if restored.changed:
        yield (
            f"Back to how they stood when the backup was made: jobs {words.ranges(restored.changed)}. "
            "Those that ended since are tried again, unless they were submitted with --no-requeue."
        )
    yield "Start the server: `tgpu up`. What runs on the nodes is settled before new tasks start."
