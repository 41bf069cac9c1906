"""`tgpu users`: who has which role in which tenant."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_action, add_actions, add_output, command_parser, with_action
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.screen import clean
from tgpu.cli.table import Column, table
from tgpu.cli.tenant_flags import tenant_id
from tgpu.client import Client
from tgpu.client.tenancy import EVERYWHERE

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

ROLES = ("viewer", "user", "operator", "admin")
_COLUMNS = (
    Column("USER", floor=5),
    Column("TENANT", floor=8),
    Column("ROLE"),
    Column("GIVEN BY", floor=5, rank=1),
    Column("SINCE", rank=2),
)
_EXAMPLES = """\
examples:
  tgpu users
  tgpu users add ann lab/vision
  tgpu users add bob lab --role operator
  tgpu users add eve --everywhere --role viewer
  tgpu users remove ann lab/vision
A role holds in its tenant and in all below it:
  viewer    sees jobs, their details and output        user   also submits jobs
  operator  also ends others' jobs, and manages tenants, quotas and users below its own
  admin     does everything
Whom no line here names has what the setting `tenant_rules` gives them.
"""


def parser() -> Parser:
    made = command_parser("users", "Who has which role in which tenant.", _EXAMPLES)
    actions = add_actions(made)
    listed = add_action(actions, "list", "roles that were given (needs not be named)")
    listed.add_argument("--tenant", metavar="TENANT", type=tenant_id, help="only in this one")
    add_output(listed, quiet="print only names")
    added = add_action(actions, "add", "give somebody a role, or another one")
    _whom(added)
    added.add_argument("--role", choices=ROLES, default="user", help="(default: user)")
    add_output(added)
    removed = add_action(actions, "remove", "take it away")
    _whom(removed)
    add_output(removed)
    return made


def _whom(parser: Parser) -> None:
    parser.add_argument("user", metavar="USER")
    parser.add_argument("tenant", metavar="TENANT", nargs="?", type=tenant_id)
    parser.add_argument("--everywhere", action="store_true", help="instead of a tenant: in all of them")


def main(argv: list[str]) -> int:
    args = parser().parse_args(with_action(argv, "list"))
    with Client() as client:
        show({"list": _list, "add": _add, "remove": _remove}[args.action](client, args), args)
    return OK


def _list(client: Client, args: Namespace) -> Answer:
    members = client.members(args.tenant)

    def people(screen: Screen) -> Iterator[str]:
        if not members:
            yield "nobody was given a role"
            return
        yield from table(screen, _COLUMNS, [_row(one) for one in members])
        if not all(map(_has_account, members)):
            yield (
                "no account: whoever gets an account of that name gets the role; "
                "`tgpu users remove` takes it away"
            )

    return Answer(members, people, dict.fromkeys(one["user_id"] for one in members))


def _has_account(member: dict[str, Any]) -> bool:
    return bool(member.get("has_account", True))


def _row(member: dict[str, Any]) -> list[str]:
    return [
        str(member["user_id"]) + ("" if _has_account(member) else " (no account)"),
        "everywhere" if member["tenant_id"] == EVERYWHERE else str(member["tenant_id"]),
        str(member["role"]),
        str(member.get("by") or ""),
        words.local_time(member.get("at")),
    ]


def _add(client: Client, args: Namespace) -> Answer:
    where = _where(args)
    made = client.set_member(args.user, where, args.role)
    return Answer(made, lambda _: [f"{clean(args.user)} is {args.role} {_in(where)}"])


def _remove(client: Client, args: Namespace) -> Answer:
    where = _where(args)
    client.remove_member(args.user, where)
    gone = {"user_id": args.user, "tenant_id": where}
    return Answer(gone, lambda _: [f"{clean(args.user)} has no role of their own {_in(where)} any more"])


def _where(args: Namespace) -> str:
    if (args.tenant is None) == (not args.everywhere):
        raise UsageError("where? name a tenant, or say --everywhere; one of the two")
    return EVERYWHERE if args.everywhere else str(args.tenant)


def _in(where: str) -> str:
    return "everywhere" if where == EVERYWHERE else f"in {clean(where)}"
