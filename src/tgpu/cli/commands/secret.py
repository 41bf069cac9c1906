"""`tgpu secret`: keeps what a job needs and nobody shall read."""

from __future__ import annotations

import sys

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_action, add_actions, add_output, command_parser, with_action
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.screen import clean
from tgpu.cli.table import Column, table
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable
    from typing import BinaryIO

    from tgpu.cli.screen import Screen

_COLUMNS = (Column("NAME", floor=8), Column("SET"))
_MOST_BYTES = 64 << 10
_EXAMPLES = """\
examples:
  tgpu secret set hf-token                    asks for it, without showing it
  tgpu secret set hf-token < token.txt
  tgpu secret set wandb --from ~/.wandb-key
  tgpu submit --secret HF_TOKEN=hf-token -- python train.py
A newline at its end is left out. A job gets it in a variable when it starts; it is shown to nobody, not
to you either, and stands in no log.
"""


def parser() -> Parser:
    made = command_parser("secret", "Values that your jobs get and nobody is shown.", _EXAMPLES)
    actions = add_actions(made)
    put = add_action(actions, "set", "keep one under a name, or another one in its place")
    put.add_argument("name", metavar="NAME")
    put.add_argument("--from", dest="file", metavar="FILE", help="what is in this file (default: stdin)")
    add_output(put)
    add_output(
        add_action(actions, "list", "the names of yours (needs not be named)"), quiet="print only names"
    )
    removed = add_action(actions, "remove", "forget one")
    removed.add_argument("name", metavar="NAME")
    add_output(removed)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(with_action(argv, "list"))
    if getattr(args, "name", None) is not None and ("/" in args.name or args.name in {"", ".", ".."}):
        raise UsageError(f"a secret is named like hf-token; got {args.name!r}")
    body = _body(args) if args.action == "set" else b""
    with Client() as client:
        if args.action == "set":
            client.set_secret(args.name, body)
            answer = _told(args.name, "is kept")
        elif args.action == "remove":
            client.remove_secret(args.name)
            answer = _told(args.name, "is forgotten; jobs that need it and have not started will fail")
        else:
            answer = _list(client)
    show(answer, args)
    return OK


def _list(client: Client) -> Answer:
    secrets = client.secrets()

    def people(screen: Screen) -> Iterable[str]:
        rows = [[str(one["name"]), words.local_time(one.get("set_at"))] for one in secrets]
        return table(screen, _COLUMNS, rows) if rows else ["no secrets"]

    return Answer(secrets, people, [one["name"] for one in secrets])


def _told(name: str, what: str) -> Answer:
    return Answer({"name": name}, lambda _: [f"Secret {clean(name)} {what}"])


def _body(args: Namespace) -> bytes:
    if args.file is not None:
        try:
            with open(args.file, "rb") as file:  # noqa: PTH123  pathlib costs more than all of this
                return _checked(file, args.file)
        except OSError as error:
            raise UsageError(f"cannot read {args.file}: {error.strerror}") from None
    if sys.stdin.isatty():
        from getpass import getpass  # noqa: PLC0415  only a terminal needs it

        return getpass(f"{args.name}: ").encode()
    return _checked(sys.stdin.buffer, "stdin")


def _checked(file: BinaryIO, name: str) -> bytes:
    body = file.read(_MOST_BYTES + 2)
    body = body.removesuffix(b"\n").removesuffix(b"\r")
    if not body:
        raise UsageError(f"there is nothing in {name}; give the secret there, or with --from FILE")
    if len(body) > _MOST_BYTES:
        raise UsageError(f"a secret has at most {_MOST_BYTES >> 10} KiB; there is more in {name}")
    return body
