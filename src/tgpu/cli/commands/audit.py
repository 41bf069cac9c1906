"""`tgpu audit`: who changed what, when, from where, and what it was before."""

from __future__ import annotations

import time

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser, count
from tgpu.cli.audit_changes import ACTIONS, changes, is_action
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.moments import check_order, moment
from tgpu.cli.table import Column, table
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_MOST_SHOWN = 50
_COLUMNS = (
    Column("ID", right=True, rank=2),
    Column("WHEN"),
    Column("WHO", floor=5),
    Column("FROM", floor=6, rank=1),
    Column("ACTION"),
    Column("TARGET", floor=8),
    Column("CHANGE", floor=12),
)
_EXAMPLES = """\
examples:
  tgpu audit --since 7d
  tgpu audit --user bob --action tenant.update
  tgpu audit --target lab --json          lab and everything below it, before and after in full
"""


def parser() -> Parser:
    made = command_parser("audit", "Who changed what, the newest first.", _EXAMPLES)
    add_output(made)
    made.add_argument("--user", metavar="NAME", help="only what this user changed")
    made.add_argument("--action", metavar="ACTION", help="such as tenant.update, or only tenant")
    made.add_argument("--target", metavar="TARGET", help="only changes of this, and of what is below it")
    made.add_argument("--since", metavar="WHEN", help="7d, 12h or 2026-07-25")
    made.add_argument("--until", metavar="WHEN", help="likewise")
    made.add_argument(
        "--limit", type=count, metavar="N", help=f"at most N (default for people: {_MOST_SHOWN}; 0: all)"
    )
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    limit = args.limit if args.limit is not None else 0 if args.json else _MOST_SHOWN
    now = time.time()
    since = moment("--since", args.since, now) if args.since else None
    until = moment("--until", args.until, now) if args.until else None
    if since is not None:
        check_order(since, until)
    filters = {
        "user": args.user,
        "action": args.action,
        "target": args.target,
        "since": since,
        "until": until,
    }
    with Client() as client:
        found = list(client.audit(limit=limit + 1 if limit else None, **filters))
    if not found and args.action and not is_action(args.action):
        # Only then: a newer server may know more of them than this client.
        raise UsageError(f"there is no action {args.action!r}; there are: {', '.join(ACTIONS)}")
    entries = found[:limit] if limit else found

    def people(screen: Screen) -> Iterator[str]:
        if not entries:
            yield "no such lines in that time"
            return
        yield from table(screen, _COLUMNS, [_row(entry) for entry in entries])
        if len(found) > len(entries):
            yield "more with `--limit 0`"

    show(Answer(entries, people), args)
    return OK


def _row(entry: dict[str, Any]) -> list[str]:
    return [
        str(entry["audit_id"]),
        words.local_time(entry["at"]),
        str(entry["user_id"]),
        _from(entry),
        str(entry["action"]),
        str(entry["target"]),
        changes(entry),
    ]


def _from(entry: dict[str, Any]) -> str:
    """`socket`, `token 3 10.0.0.7`, or `job 42 token 3 10.0.0.7`."""
    via, token = str(entry.get("via") or ""), entry.get("token_id")
    by_token = "" if token is None else str(token) if via == "token" else f"token {token}"
    return " ".join(part for part in (via, by_token, str(entry.get("address") or "")) if part)
