"""`tgpu windows`: nodes kept for maintenance, or for somebody, from one moment to another."""

from __future__ import annotations

import time

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_action, add_actions, add_output, command_parser, with_action
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.table import Cell, Column, table
from tgpu.client import Client
from tgpu.client.errors import TgpuError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_COLUMNS = (
    Column("ID", right=True),
    Column("STATE"),
    Column("FOR", floor=8),
    Column("FROM"),
    Column("UNTIL"),
    Column("NODES", floor=8),
    Column("BY", floor=5, rank=2),
    Column("NAME", floor=8, rank=1),
)
_STYLES = {"open": "green", "coming": "yellow", "over": "dim", "cancelled": "dim"}
_PAST = frozenset({"over", "cancelled"})
_FLAGS = {
    "from": "--from",
    "until": "--until",
    "where": "--where",
    "tenant_id": "--for-tenant",
    "name": "--name",
}


def parser() -> Parser:
    made = command_parser(
        "windows",
        "Nodes kept for maintenance, or for a tenant, during a time. What might still run when a window "
        "opens is not started there; what runs there already is left alone (see `tgpu nodes drain`).",
    )
    actions = add_actions(made)
    listed = add_action(actions, "list", "windows that are open or to come (needs not be named)")
    listed.add_argument("-a", "--all", action="store_true", help="past and cancelled ones too")
    add_output(listed, quiet="print only ids")
    create = add_action(actions, "create", "keep nodes: by name, by label, or both")
    create.add_argument("nodes", nargs="*", metavar="NODE")
    create.add_argument(
        "--where",
        action="append",
        metavar="RULE",
        default=[],
        help="nodes, also future ones, with labels like `rack=r7`; repeatable: all must hold",
    )
    zone = time.strftime("%Z")
    create.add_argument(
        "--from",
        dest="from_",
        metavar="WHEN",
        help=f"2h from now, or YYYY-MM-DDThh:mm ({zone}, or with a zone: +02:00) (default: now)",
    )
    create.add_argument("--until", metavar="WHEN", help="the same way; at most a year ahead")
    create.add_argument("--for", dest="lasts", metavar="DURATION", help="instead of --until: how long")
    create.add_argument("--for-tenant", metavar="TENANT", help="who may use them meanwhile (default: nobody)")
    create.add_argument("--name", default="", help="what it is for")
    add_output(create, quiet="print only the id")
    cancel = add_action(actions, "cancel", "give the nodes back")
    cancel.add_argument("window_ids", nargs="+", metavar="ID")
    add_output(cancel, quiet="print only ids")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(with_action(argv, "list"))
    with Client() as client:
        show({"list": _list, "create": _create, "cancel": _cancel}[args.action](client, args), args)
    return OK


def _list(client: Client, args: Namespace) -> Answer:
    windows = [window for window in client.windows() if args.all or window["state"] not in _PAST]

    def people(screen: Screen) -> Iterator[str]:
        if windows:
            yield from table(screen, _COLUMNS, [_row(window) for window in windows])
        else:
            yield "no windows" if args.all else "no windows are open or to come"

    return Answer(windows, people, [window["window_id"] for window in windows])


def _row(window: dict[str, Any]) -> list[Any]:
    tenant = window.get("tenant_id")
    return [
        str(window["window_id"]),
        Cell(window["state"], _STYLES.get(window["state"], "")),
        "maintenance" if tenant is None else tenant,
        words.zoned_time(window["from"]),
        words.zoned_time(window["until"]),
        " ".join([*window["nodes"], *(f"[{rule}]" for rule in window["where"])]),
        str(window.get("created_by") or ""),
        str(window.get("name") or ""),
    ]


def _create(client: Client, args: Namespace) -> Answer:
    from tgpu.cli.refusals import in_flags  # noqa: PLC0415  a list does without

    if not args.nodes and not args.where:
        raise UsageError("which nodes? name them, or say --where RULE")
    if (args.until is None) == (args.lasts is None):
        raise UsageError("until when? say --until WHEN, or --for DURATION; one of the two")
    begins, ends = _span(args)
    with in_flags(_FLAGS | ({"until": "--for"} if args.until is None else {})):
        made = client.create_window(
            nodes=args.nodes,
            where=args.where,
            **({} if begins is None else {"from": begins}),
            until=ends,
            tenant_id=args.for_tenant,
            name=args.name,
        )
    whom = "for maintenance" if made["tenant_id"] is None else f"for {made['tenant_id']}"
    span = f"{words.zoned_time(made['from'])} to {words.zoned_time(made['until'])}"
    said = f"Window {made['window_id']} keeps the nodes {whom} from {span}"
    return Answer(made, lambda _: [said, *_overlaps(made)], [made["window_id"]])


def _overlaps(made: dict[str, Any]) -> Iterator[str]:
    others = made.get("overlaps") or []
    if others:
        which = f"window{'s' if len(others) > 1 else ''} {', '.join(map(str, others))}"
        yield f"It overlaps with {which}: meanwhile a node of both is only for whom all of them let in"


def _span(args: Namespace) -> tuple[str | None, str]:
    """(from, until) as RFC 3339; without --from the server's own clock says when now is."""
    from tgpu.cli.moments import in_future, later  # noqa: PLC0415  a list does without

    now = time.time()
    begins = None if args.from_ is None else in_future("--from", args.from_, now)
    if args.lasts is None:
        return begins, in_future("--until", args.until, now)
    return begins, later("--for", args.lasts, words.timestamp(begins) or now)


def _cancel(client: Client, args: Namespace) -> Answer:
    """One after the other; of those before one that is refused, it is said that they are cancelled."""
    done: list[str] = []
    for window_id in dict.fromkeys(args.window_ids):
        try:
            client.cancel_window(window_id)
        except TgpuError as error:
            before = f"cancelled: {', '.join(done)}; but " if done else ""
            raise TgpuError(error.status, error.title, f"{before}{error.detail}", error.problem) from None
        done.append(window_id)
    made = [{"window_id": window_id} for window_id in done]
    said = [f"Window {window_id} is cancelled" for window_id in done]
    return Answer(made[0] if len(made) == 1 else made, lambda _: said, done)
