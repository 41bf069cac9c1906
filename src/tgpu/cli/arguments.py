"""The parser of one command: one-line errors, and the options that many commands share."""

from __future__ import annotations

import argparse
import re
import sys
from itertools import pairwise

from tgpu.cli.exits import UsageError
from tgpu.cli.screen import Screen

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, NoReturn

    Actions = Any  # argparse has no public name for what add_subparsers returns

_WIDEST = 100
_NEGATIVE = re.compile(r"-\.?\d")
_OUTPUT = frozenset({"--json", "-q", "--quiet"})


class _Help(argparse.RawDescriptionHelpFormatter):
    """Finds the terminal's width itself: argparse would import shutil for it, even when it only parses."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(Screen(sys.stdout).width or _WIDEST, _WIDEST))


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line instead of printing the usage over it."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401  as ArgumentParser
        super().__init__(**given)
        self.elsewhere: dict[str, str] = {}  # flags of other schedulers, and what they are called here
        # To argparse `-5` is a value and `-5G` an unknown flag: of `--memory -5G` it would say that there is
        # no value, instead of what is wrong with it.
        self._negative_number_matcher = _NEGATIVE

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:  # noqa: ANN401  as ArgumentParser
        """What an action does not know is its own error: argparse would let the whole command say it."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            typed = list(sys.argv[1:] if args is None else args)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._did_you_mean(unknown, typed)}")
        return found, unknown

    def _did_you_mean(self, unknown: list[str], typed: list[str]) -> str:
        from tgpu.cli.flag_slips import meant  # noqa: PLC0415  only a slip needs it

        behind = dict(pairwise(typed))
        known = self._option_string_actions
        found = (
            meant(flag, behind.get(flag), known, self.elsewhere) for flag in unknown if flag.startswith("-")
        )
        instead = list(dict.fromkeys(filter(None, found)))
        return f"; did you mean {' and '.join(instead)}?" if instead else ""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def command_parser(name: str, doc: str, epilog: str | None = None) -> Parser:
    return Parser(
        prog=f"tgpu {name}",
        description=doc,
        epilog=epilog,
        allow_abbrev=False,  # a shortened flag would change its meaning when another is added
        formatter_class=_Help,
    )


def add_actions(parser: Parser) -> Actions:
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)


def add_action(actions: Actions, name: str, doc: str, epilog: str | None = None) -> Parser:
    made: Parser = actions.add_parser(
        name, help=doc, description=f"{doc[0].upper()}{doc[1:]}.", epilog=epilog, allow_abbrev=False,
        formatter_class=_Help,
    )  # fmt: skip
    return made


def with_action(argv: list[str], usual: str, *, unless: Collection[str] = ()) -> list[str]:
    """With the usual action where none is named: before flags, and before any word that is none of `unless`,
    if that is said. How to print may stand before the action, as after it."""
    at = next((at for at, word in enumerate(argv) if word not in _OUTPUT), len(argv))
    first = argv[at] if at < len(argv) else ""
    named = first in unless if unless else bool(first) and not first.startswith("-")
    if named or first in {"-h", "--help"}:
        return [first, *argv[:at], *argv[at + 1 :]]
    return [usual, *argv]


def add_output(parser: argparse.ArgumentParser, *, quiet: str | None = None, again: bool = False) -> None:
    """`again`: of an action whose command has them too: what was said before it is not unsaid after it."""
    default = argparse.SUPPRESS if again else False
    parser.add_argument(
        "--json",
        action="store_true",
        default=default,
        help="print the API's own objects: one, or a list of them",
    )
    if quiet:
        parser.add_argument("-q", "--quiet", action="store_true", default=default, help=quiet)


def add_jobs(parser: argparse.ArgumentParser, *, default: str | None = None, tasks: bool = False) -> None:
    """`tasks`: one task of a job may be named, too."""
    unless_said = ", or one task: 42.3" if tasks else ""
    unless_said += f" (default: {default}, your newest)" if default else ""
    parser.add_argument(
        "jobs", nargs="*" if default else "+", metavar="JOBS", default=[default] if default else None,
        help="which jobs: 42, 42-45, 3,7-12, last, last-1, all" + unless_said,
    )  # fmt: skip


def count(text: str) -> int:
    """A whole number from 0, for argparse."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be a whole number from 0; got {text!r}")
    return int(text)
