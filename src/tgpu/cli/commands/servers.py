"""`tgpu servers`: the cluster's servers, and who leads."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import OK
from tgpu.cli.table import Column, table
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_COLUMNS = (
    Column("SERVER", floor=12),
    Column("ROLE"),
    Column("VERSION"),
    Column("RUNS SINCE"),
    Column("HEARD"),
    Column("ID", rank=1),
)


def parser() -> Parser:
    made = command_parser("servers", "The cluster's servers that were seen within the last seconds.")
    add_output(made, quiet="print only the servers' addresses")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        servers = client.cluster()["servers"]
    names = [_name(server) for server in servers]
    show(Answer(servers, lambda screen: _people(screen, servers), names), args)
    return OK


def _people(screen: Screen, servers: list[dict[str, Any]]) -> Iterator[str]:
    yield from table(screen, _COLUMNS, [_row(server) for server in servers])
    if not any(server["leads"] for server in servers):
        yield "No server leads: a new one is being chosen. If it stays so, `tgpu doctor` looks closer."


def _row(server: dict[str, Any]) -> list[str]:
    return [
        _name(server),
        "leads" if server["leads"] else "follows",
        str(server["version"]),
        words.local_time(server["started_at"]),
        _heard(server.get("heard_s")),
        str(server["server_id"]),
    ]


def _heard(ago_s: float | None) -> str:
    """A server of an older version does not tell."""
    return "-" if ago_s is None else f"{words.duration(ago_s)} ago"


def _name(server: dict[str, Any]) -> str:
    """One that listens on no TCP address is reached on its own machine alone."""
    return str(server["url"] or "this machine's")
