"""`tgpu nodes join-token` and `join-tokens`: what lets new nodes in."""

from __future__ import annotations

import time

from tgpu.cli import words
from tgpu.cli.answer import Answer
from tgpu.cli.arguments import add_output
from tgpu.cli.exits import UsageError
from tgpu.cli.table import Cell, Column, table

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator
    from typing import Any

    from tgpu.cli.screen import Screen
    from tgpu.client import Client

    Actions = Any  # argparse has no public name for what add_subparsers returns

_COLUMNS = (
    Column("ID"),
    Column("STATE"),
    Column("BY", floor=5),
    Column("EXPIRES"),
    Column("NODES LEFT", right=True),
    Column("POOL", floor=5, rank=1),
    Column("ONLY FOR", floor=8, rank=2),
    Column("NOTE", floor=8),
)
ACTIONS = ("join-token", "join-tokens")
_LIMIT_FLAGS = {"node_name": "--name", "address": "--address", "labels": "--label", "serves": "--serves"}
_ANY_NUMBER = "any"
_GOOD = "good"


def add_actions(actions: Actions) -> None:
    make = actions.add_parser("join-token", help="make a token that lets a node in; it is shown this once")
    make.add_argument("--expires", metavar="DURATION", default="1h", help="such as 1h or 7d (default: 1h)")
    make.add_argument(
        "--uses", metavar="N", default="1", help="how many nodes it lets in, or `any` (default: 1)"
    )
    make.add_argument("--name", metavar="NODE", help="only the node of this name may join by it")
    make.add_argument("--pool", metavar="POOL", help="where those nodes belong, whatever they say")
    make.add_argument("--address", metavar="CIDR", help="only from this network, such as 10.0.0.0/24")
    make.add_argument(
        "--label",
        dest="labels",
        action="append",
        metavar="KEY[=VALUE]",
        help="a label that those nodes may have; repeatable (default: any)",
    )
    make.add_argument("--serves", metavar="USER", help="they run only jobs of this user (default: any)")
    make.add_argument("--note", help="what it is for")
    add_output(make, quiet="print only the token", again=True)
    listed = actions.add_parser("join-tokens", help="list them, or revoke one: join-tokens revoke ID")
    listed.add_argument("what", nargs="?", choices=("list", "revoke"), default="list", help="(default: list)")
    listed.add_argument("token_id", nargs="?", metavar="ID")
    add_output(listed, quiet="print only ids", again=True)


def answer(client: Client, args: Namespace) -> Answer:
    if args.action == "join-token":
        return _create(client, args)
    if args.what == "list":
        return _list(client)
    if args.token_id is None:
        raise UsageError("which one? `tgpu nodes join-tokens` lists them; then: join-tokens revoke ID")
    client.revoke_join_token(args.token_id)
    return Answer({"token_id": args.token_id}, lambda _: [f"Join token {args.token_id} is revoked"])


def _create(client: Client, args: Namespace) -> Answer:
    from tgpu.cli.moments import lifetime_s  # noqa: PLC0415  `tgpu nodes` does without
    from tgpu.cli.refusals import in_flags  # noqa: PLC0415

    if args.uses != _ANY_NUMBER and not (args.uses.isascii() and args.uses.isdigit()):
        raise UsageError(f"--uses must be a whole number, or `any`; got {args.uses!r}")
    expires_in_s = lifetime_s("--expires", args.expires)
    limits = {
        "node_name": args.name,
        "address": args.address,
        "labels": args.labels,
        "serves": args.serves,
    }
    with in_flags({"uses": "--uses", "pool": "--pool", "note": "--note", **_LIMIT_FLAGS}):
        made = client.create_join_token(
            expires_in_s=expires_in_s,
            uses=None if args.uses == _ANY_NUMBER else int(args.uses),
            pool=args.pool,
            note=args.note or "",
            **{name: limit for name, limit in limits.items() if limit is not None},
        )

    def people(screen: Screen) -> Iterator[str]:
        yield made["token"]
        if screen.is_terminal:
            yield screen.paint(
                "shown this once; on the new node, in a file of mode 600: "
                "tgpu agent --server https://HOST:7480 --join @FILE",
                "dim",
            )

    return Answer(made, people, [made["token"]])


def _list(client: Client) -> Answer:
    tokens = client.join_tokens()

    def people(screen: Screen) -> Iterable[str]:
        return table(screen, _COLUMNS, [_row(token) for token in tokens]) if tokens else ["no join tokens"]

    return Answer(tokens, people, [token["token_id"] for token in tokens])


def _row(token: dict[str, Any]) -> list[Any]:
    left = token.get("uses_left")
    return [
        str(token["token_id"]),
        Cell(state := _state(token), "green" if state == _GOOD else "dim"),
        str(token.get("created_by") or ""),
        words.local_time(token["expires_at"]) if token.get("expires_at") else "never",
        _ANY_NUMBER if left is None else str(left),
        str(token.get("pool") or ""),
        _only_for(token),
        str(token.get("note") or ""),
    ]


def _only_for(token: dict[str, Any]) -> str:
    """`node n1, from 10.0.0.0/24, labels zone=a ssd, jobs of ann`: what it limits its nodes to."""
    name, address, labels, serves = (token.get(limit) for limit in _LIMIT_FLAGS)
    said = [
        f"node {name}" if name else "",
        f"from {address}" if address else "",
        f"labels {' '.join(labels)}" if labels else "",
        f"jobs of {serves}" if serves else "",
    ]
    return ", ".join(filter(None, said))


def _state(token: dict[str, Any]) -> str:
    """Whether it lets nodes in, or why not."""
    if token.get("revoked"):
        return "revoked"
    if token.get("uses_left") == 0:
        return "used"
    ends = words.timestamp(token.get("expires_at"))
    return "expired" if ends is not None and ends <= time.time() else _GOOD
