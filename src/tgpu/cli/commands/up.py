"""`tgpu up`: server and agent of this machine in one command."""

from __future__ import annotations

from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.node_flags import add_node_flags, add_server_flags, check_policy, overrides, settings

_MORE = """\
Without --detach it stays in the foreground; Ctrl-C stops it, and jobs go on. The logs are in TGPU_HOME,
run/server.log and run/agent.log.
Every other setting: `tgpu doctor --settings`.
"""


def parser() -> Parser:
    made = command_parser("up", "Start tgpu on this machine: its server and its agent.", _MORE)
    how = made.add_mutually_exclusive_group()
    how.add_argument("--detach", action="store_true", help="return when it is ready")
    how.add_argument(
        "--install-service",
        action="store_true",
        help="write a systemd unit, and say what to type to start it",
    )
    how.add_argument(
        "--reload", action="store_true", help="start anew when its source changes (for developers)"
    )
    add_node_flags(made)
    add_server_flags(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    # A wrong setting is told here, in one line, rather than by a process in the background.
    check_policy(settings(args))
    from tgpu.wiring import up  # noqa: PLC0415  `--help` needs none of it

    return up.run(
        overrides(args), detach=args.detach, install_service=args.install_service, reload=args.reload
    )
