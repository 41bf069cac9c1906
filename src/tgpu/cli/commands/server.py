"""`tgpu server`: only the server, in the foreground."""

from __future__ import annotations

import os

from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.node_flags import (
    add_server_flags,
    add_service_flag,
    install_service,
    overrides,
    settings,
)


def parser() -> Parser:
    made = command_parser("server", "Run only the server, in the foreground; `tgpu up` runs the agent too.")
    add_service_flag(made)
    add_server_flags(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    chosen = settings(args)
    if args.install_service:
        return install_service("server", chosen, overrides(args))
    from tgpu.config.described import BY_FLAG  # noqa: PLC0415  `--help` needs none of it
    from tgpu.wiring import server_process  # noqa: PLC0415

    if said := overrides(args):
        os.environ[BY_FLAG] = ",".join(said)
    return server_process.main(chosen)
