"""What a job that is done once more waits for (of `retry` and `rerun`), as flags say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.cli.exits import UsageError
from tgpu.cli.fields import job_fields
from tgpu.cli.selectors import needs_by_number

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from tgpu.client import Client


def add_after(made: ArgumentParser, *, instead: bool) -> None:
    """`instead`: it waits for something if nothing is said."""
    made.add_argument(
        "--after",
        action="append",
        metavar="JOBS",
        help="it waits for job 57 (or: last), or as afterany:57; repeatable"
        + (", instead of what it waited for" if instead else ""),
    )
    if instead:
        made.add_argument("--no-needs", action="store_true", help="it waits for no other job")


def after_of(args: Namespace, client: Client) -> list[str] | None:
    """None: nothing was said."""
    nothing = getattr(args, "no_needs", False)
    if args.after is None:
        return [] if nothing else None
    if nothing:
        raise UsageError("--after and --no-needs contradict each other")
    return list(job_fields({"after": needs_by_number(client, args.after)}, "--")["after"])
