"""`tgpu down`: stops what `tgpu up` started."""

from __future__ import annotations

from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.node_flags import settings


def parser() -> Parser:
    return command_parser(
        "down", "Stop this home's server and agent. Running jobs go on, and are found again."
    )


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    from tgpu.wiring import up  # noqa: PLC0415  `--help` needs none of it

    return up.down(settings(args))
