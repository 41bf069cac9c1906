"""`tgpu token`: makes, lists and revokes tokens for access over TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.table import Column, table
from tgpu.client import Client
from tgpu.domain.quantities import BadQuantityError, seconds

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_COLUMNS = (
    Column("ID"),
    Column("USER", floor=5),
    Column("CREATED", rank=1),
    Column("EXPIRES"),
    Column("NOTE", floor=8),
)


def parser() -> Parser:
    made = command_parser("token", "Tokens for access over TCP; on this machine the socket needs none.")
    actions = made.add_subparsers(
        dest="action", metavar="create|list|revoke", required=True, parser_class=Parser
    )
    create = actions.add_parser("create", help="make one; it is shown this once")
    create.add_argument("--user", metavar="NAME", help="for whom (default: yourself; others: administrators)")
    create.add_argument("--expires", metavar="DURATION", help="such as 30d")
    create.add_argument("--note", help="what it is for")
    add_output(create, quiet="print only the token")
    add_output(actions.add_parser("list", help="those that exist"), quiet="print only ids")
    revoke = actions.add_parser("revoke", help="make one useless")
    revoke.add_argument("token_id", metavar="ID")
    add_output(revoke)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        answer = {"create": _create, "list": _list, "revoke": _revoke}[args.action](client, args)
    show(answer, args)
    return OK


def _create(client: Client, args: Namespace) -> Answer:
    try:
        lifetime = None if args.expires is None else seconds("--expires", args.expires)
    except BadQuantityError as error:
        raise UsageError(str(error)) from None
    asked = {"user_id": args.user, "expires_in_s": lifetime, "note": args.note}
    made = client.create_token(**{name: value for name, value in asked.items() if value is not None})

    def people(screen: Screen) -> Iterator[str]:
        yield made["token"]
        if screen.is_terminal:
            yield screen.paint(
                "shown this once; use it as TGPU_TOKEN or in a file `token` (mode 600) in TGPU_HOME", "dim"
            )

    return Answer(made, people, [made["token"]])


def _list(client: Client, _args: Namespace) -> Answer:
    tokens = client.tokens()

    def people(screen: Screen) -> Iterable[str]:
        return table(screen, _COLUMNS, [_row(token) for token in tokens]) if tokens else ["no tokens"]

    return Answer(tokens, people, [token["token_id"] for token in tokens])


def _revoke(client: Client, args: Namespace) -> Answer:
    answer = client.revoke_token(args.token_id) or {"token_id": args.token_id}
    return Answer(answer, lambda _: [f"Token {args.token_id} is revoked"])


def _row(token: dict[str, Any]) -> list[str]:
    return [
        str(token["token_id"]),
        str(token.get("user_id") or ""),
        words.local_time(token.get("created_at")),
        _expiry(token),
        str(token.get("note") or ""),
    ]


def _expiry(token: dict[str, Any]) -> str:
    if token.get("revoked"):
        return "revoked"
    return words.local_time(token["expires_at"]) if token.get("expires_at") else "never"
