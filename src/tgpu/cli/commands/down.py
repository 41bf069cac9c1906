"""`tgpu down`: stops what `tgpu up` started."""

from __future__ import annotations

import os

from tgpu.cli.arguments import Parser, command_parser


def parser() -> Parser:
    return command_parser(
        "down", "Stop this home's server and agent. Running jobs go on, and are found again."
    )


def main(argv: list[str]) -> int:
    parser().parse_args(argv)
    from tgpu.config.settings import Settings, default_home  # noqa: PLC0415  `--help` needs none of it
    from tgpu.wiring import up  # noqa: PLC0415

    # Only where it lives matters here: what a broken settings file started can still be stopped.
    return up.down(Settings(home=default_home(os.environ)))
