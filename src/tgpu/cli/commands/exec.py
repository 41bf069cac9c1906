"""`tgpu exec`: runs a program inside a running job."""

from __future__ import annotations

import sys

from tgpu.cli import terminal_loop
from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.command_words import split
from tgpu.cli.detach_keys import DetachKeys
from tgpu.cli.exits import FAILED, UsageError
from tgpu.cli.inside import add_target, target_of
from tgpu.cli.screen import note
from tgpu.client import Client
from tgpu.client.terminal import Terminal

_EXAMPLES = """\
examples:
  tgpu exec 42 -- nvidia-smi
  tgpu exec 42.3 -- bash
  tgpu exec --no-tty last -- tar c results > results.tar
The program runs beside the job's own: as the same user, in the same directory, with the same
environment, limits and GPUs. It ends when the job ends, and gets SIGHUP when this command goes away.
The exit code is the program's own; 127 if there is no such program.
"""


def parser() -> Parser:
    made = command_parser("exec", "Run a program inside a running job.", _EXAMPLES)
    made.add_argument(
        "--no-tty", action="store_true", help="no terminal for it, also where this command has one"
    )
    add_target(made)
    made.add_argument("words", nargs="...", metavar="[--] COMMAND", help="the program and its arguments")
    return made


def main(argv: list[str]) -> int:
    flags, after = split(argv)
    args = parser().parse_args(flags)
    if after is not None and args.words:
        raise UsageError(f"{args.words[0]!r} before `--` is neither a flag nor the job")
    command = after or args.words
    if not command:
        raise UsageError(f"say what to run: tgpu exec {args.job} -- bash")
    tty = not args.no_tty and sys.stdin.isatty() and sys.stdout.isatty()
    with Client() as client:
        job_id, task, attempt = target_of(client, args.job)
        terminal = Terminal(
            client.session,
            job_id,
            command,
            task=task,
            attempt=attempt,
            tty=tty,
            size=terminal_loop.size(),
            term=terminal_loop.term(),
        )
        with terminal:
            if tty:
                with terminal_loop.raw_terminal():
                    over = terminal_loop.connect(terminal, tty=True, keys=DetachKeys(b""))
            else:
                over = terminal_loop.connect(terminal, tty=False, keys=DetachKeys(b""))
    if over is None:
        return FAILED
    if over.detail:
        note(over.detail)
    return FAILED if over.exit_code is None else over.exit_code
