"""`tgpu doctor`: what is wrong here, and how to mend it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tgpu.cli import checks
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import FAILED, OK, UsageError
from tgpu.config import settings as config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_STYLES = {checks.OK: "green", checks.WARN: "yellow", checks.FAIL: "red"}


def parser() -> Parser:
    made = command_parser("doctor", "What is wrong here, and how to mend it. Ends with 1 if anything FAILs.")
    made.add_argument(
        "--settings", action="store_true", help="print every setting, its value and its meaning"
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
    return FAILED if any(finding.level == checks.FAIL for finding in found) else OK


def _report(screen: Screen, found: list[checks.Finding]) -> Iterator[str]:
    for finding in found:
        level = screen.paint(f"{finding.level:<4}", _STYLES[finding.level])
        advice = f" → {finding.advice}" if finding.advice else ""
        yield f"{level}  {finding.name:<9} {finding.text}{advice}"


def _settings() -> Answer:
    try:
        settings = config.load(os.environ)
    except config.SettingsError as error:
        raise UsageError(str(error)) from None
    rows: list[dict[str, Any]] = [
        {
            "name": "home",
            "value": str(settings.home),
            "source": _source("home", changed=False),
            "doc": "TGPU_HOME",
        }
    ]
    for key in config.KEYS:
        value = getattr(settings, key.name)
        shown = list(value) if isinstance(value, tuple) else value
        source = _source(key.name, changed=value != key.default)
        rows.append({"name": key.name, "value": shown, "source": source, "doc": key.metadata["doc"]})
    rows += [_pool_row(pool) for pool in settings.pools]

    def people(screen: Screen) -> Iterator[str]:
        for row in rows:
            yield f"{screen.paint(row['name'], 'bold')} = {row['value']!r}  ({row['source']})"
            yield f"    {row['doc']}"

    return Answer(rows, people)


def _pool_row(pool: config.PoolSettings) -> dict[str, Any]:
    said = {key: getattr(pool, key) for key in config.POOL_KEYS if getattr(pool, key) is not None}
    doc = "What this pool has otherwise than the settings of the same names say."
    return {"name": f"pools.{pool.name}", "value": said, "source": "the TOML file", "doc": doc}


def _source(name: str, *, changed: bool) -> str:
    """Flags come last in `load` and are not given here: a variable, else the file, else nothing was said."""
    variable = f"TGPU_{name.upper()}"
    if variable in os.environ:
        return variable
    return "the TOML file" if changed else "default"
