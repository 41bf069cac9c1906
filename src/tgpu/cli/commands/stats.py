"""`tgpu stats`: the cluster in figures."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import OK
from tgpu.cli.screen import clean
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def parser() -> Parser:
    made = command_parser("stats", "The cluster in figures.")
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        stats = client.stats()
    show(Answer(stats, lambda _: _lines(stats, "")), args)
    return OK


def _lines(part: dict[str, Any], indent: str) -> Iterator[str]:
    """Whatever figures the server has: a new one shows up here without a new client."""
    width = max((len(name) for name in part), default=0)
    for name, value in part.items():
        label = clean(name).replace("_", " ")
        if isinstance(value, dict):
            yield f"{indent}{label}"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{label:<{width}}  {_figure(value)}"


def _figure(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return words.number(value)
    return clean("-" if value is None else value)
