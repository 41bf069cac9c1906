"""`tgpu server`: only the server, in the foreground."""

from __future__ import annotations

from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.node_flags import add_server_flags, settings


def parser() -> Parser:
    made = command_parser("server", "Run only the server, in the foreground; `tgpu up` runs the agent too.")
    add_server_flags(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    chosen = settings(args)
    from tgpu.wiring import server_process  # noqa: PLC0415  `--help` needs none of it

    return server_process.main(chosen)
