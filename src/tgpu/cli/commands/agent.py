"""`tgpu agent`: only this machine's agent, in the foreground."""

from __future__ import annotations

from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.node_flags import add_node_flags, settings


def parser() -> Parser:
    made = command_parser("agent", "Run only this machine's agent, in the foreground; `tgpu up` runs both.")
    add_node_flags(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    chosen = settings(args)
    from tgpu.wiring import agent_process  # noqa: PLC0415  `--help` needs none of it

    return agent_process.main(chosen)
