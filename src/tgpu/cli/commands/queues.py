"""`tgpu queues`: how much waits by tenant and class, and what the first job of each waits for."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import OK
from tgpu.cli.table import Column, table
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tgpu.cli.screen import Screen

_COLUMNS = (
    Column("TENANT", floor=8),
    Column("CLASS"),
    Column("WAITING", right=True),
    Column("WEIGHT", right=True, rank=3),
    Column("SHARE/WEIGHT", right=True),
    Column("SHARE", right=True, rank=1),
    Column("FIRST JOB", right=True),
    Column("WAITS FOR", floor=12, rank=2),
)
_WHAT = """\
SHARE is the largest part that the tenant, with all below it, has of anything: CPUs, memory, GPUs.
Inside a class, the smallest SHARE/WEIGHT is served first.
"""


def parser() -> Parser:
    made = command_parser(
        "queues", "How much waits, by tenant and class, and what the first job waits for.", _WHAT
    )
    add_output(made, quiet="print only the queues' ids")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        queues = client.queues()
    ids = [queue["queue_id"] for queue in queues]
    show(Answer(queues, lambda screen: _people(screen, queues), ids), args)
    return OK


def _people(screen: Screen, queues: list[dict[str, Any]]) -> Iterable[str]:
    if not queues:
        return ["nothing waits"]
    return table(screen, _COLUMNS, [_row(queue) for queue in queues])


def _row(queue: dict[str, Any]) -> list[str]:
    return [
        str(queue["tenant_id"]),
        str(queue["priority_class"]),
        str(queue["depth"]),
        words.number(queue.get("weight")),
        words.number(queue.get("weighted_share")),
        words.number(queue.get("dominant_share")),
        str(queue.get("head_job_id") or "-"),
        next((str(reason["text"]) for reason in queue.get("head_reasons") or []), ""),
    ]
