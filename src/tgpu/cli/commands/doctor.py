"""`tgpu doctor`: what is wrong here, and how to mend it."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from tgpu.cli import checks, findings
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import FAILED, OK, UsageError
from tgpu.cli.screen import clean
from tgpu.client import Client, TgpuError, UnreachableError
from tgpu.config import settings as config
from tgpu.config.described import described

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_STYLES = {findings.OK: "green", findings.WARN: "yellow", findings.FAIL: "red"}


def parser() -> Parser:
    made = command_parser("doctor", "What is wrong here, and how to mend it. Ends with 1 if anything FAILs.")
    made.add_argument(
        "--settings",
        action="store_true",
        help="print every setting of the server, or of this place if none answers: its value and its meaning",
    )
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    if args.settings:
        show(_settings(), args)
        return OK
    found = list(checks.findings())
    show(Answer([finding._asdict() for finding in found], lambda s: _report(s, found)), args)
    return FAILED if any(finding.level == findings.FAIL for finding in found) else OK


def _report(screen: Screen, found: list[findings.Finding]) -> Iterator[str]:
    for finding in found:
        level = screen.paint(f"{finding.level:<4}", _STYLES[finding.level])
        advice = f" → {finding.advice}" if finding.advice else ""
        yield f"{level}  {finding.name:<9} {finding.text}{advice}"


def _settings() -> Answer:
    """The server's own, if one answers and tells them; else what a server started here would have."""
    with Client(timeout=5) as client:
        address = client.session.address
        try:
            return _listed("server", client.settings(), f"Settings of the server at {address}:")
        except UnreachableError:
            about = "No server answers: these are the settings with which `tgpu up` would start one here."
        except TgpuError as error:
            about = (
                f"The server at {address} does not tell you its settings ({error}): these are the ones with "
                "which `tgpu up` would start one here."
            )
    return _listed("here", _of_this_place(), about)


def _of_this_place() -> list[dict[str, Any]]:
    try:
        settings = config.load(os.environ)
    except config.SettingsError as error:
        raise UsageError(str(error)) from None
    return [asdict(row) for row in described(settings, os.environ)]


def _listed(of: str, rows: list[dict[str, Any]], about: str) -> Answer:
    def people(screen: Screen) -> Iterator[str]:
        yield about
        for row in rows:
            name = screen.paint(clean(row["name"]), "bold")
            yield f"{name} = {clean(repr(row['value']))}  ({clean(row['source'])})"
            yield f"    {clean(row['doc'])}"

    return Answer([{**row, "of": of} for row in rows], people)
