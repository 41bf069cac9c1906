"""`tgpu agent`: only this machine's agent, in the foreground."""

from __future__ import annotations

from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.node_flags import (
    add_joining_flags,
    add_node_flags,
    add_service_flag,
    install_service,
    overrides,
    settings,
)
from tgpu.cli.secret_flags import join_token, whole_path

_MORE = """\
Without --server it serves the server on this machine, or the cluster that it has joined before.
To make this machine a node of a cluster, once:
  tgpu agent --server https://HOST:7480 --join @FILE
where FILE (mode 600) holds what `tgpu nodes join-token` on a machine of the cluster prints. The node's key is
kept in TGPU_HOME.
"""


def parser() -> Parser:
    made = command_parser(
        "agent", "Run only this machine's agent, in the foreground; `tgpu up` runs both.", _MORE
    )
    add_service_flag(made)
    add_joining_flags(made)
    add_node_flags(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    chosen = settings(args)
    join = join_token(args.join)
    if args.install_service:
        return install_service("agent", chosen, {**overrides(args), "join_token": join and whole_path(join)})
    from tgpu.wiring import agent_process  # noqa: PLC0415  `--help` needs none of it

    return agent_process.main(chosen, join)
