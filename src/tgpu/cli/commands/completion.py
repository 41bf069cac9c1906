"""`tgpu completion`: prints a script that completes commands and flags."""

from __future__ import annotations

from importlib import import_module

from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.catalogue import COMMANDS, module_of
from tgpu.cli.exits import OK

_HOW = """\
  bash:  tgpu completion bash > ~/.local/share/bash-completion/completions/tgpu
  zsh:   tgpu completion zsh > ~/.zfunc/_tgpu     (with ~/.zfunc in fpath)
  fish:  tgpu completion fish > ~/.config/fish/completions/tgpu.fish
  tcsh:  tgpu completion tcsh > ~/.tgpu.tcsh      (and source it)
"""


def parser() -> Parser:
    made = command_parser("completion", "Print a shell's completion script.", _HOW)
    made.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    import shtab  # noqa: PLC0415  completing `tgpu completion` itself must stay quick

    print(shtab.complete(whole_parser(), shell=args.shell))
    return OK


def whole_parser() -> Parser:
    """Every command in one parser: what completion and documentation need, and dispatch does not."""
    whole = Parser(prog="tgpu")
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subparsers(dest="command", parser_class=Parser)
    for name, doc in COMMANDS.items():
        own = import_module(module_of(name)).parser()
        commands.add_parser(name, help=doc, parents=[own], add_help=False)
    return whole
