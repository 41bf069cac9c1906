"""`tgpu stats`: the cluster in figures."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import OK
from tgpu.cli.screen import clean
from tgpu.cli.table import Column, table
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_WHOLE = 1000
"""From here on nobody reads decimals."""


def parser() -> Parser:
    made = command_parser("stats", "The cluster in figures.")
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        stats = client.stats()
    show(Answer(stats, lambda screen: _lines(screen, stats, "")), args)
    return OK


def _lines(screen: Screen, part: dict[str, Any], indent: str) -> Iterator[str]:
    """Whatever figures the server has: a new one shows up here without a new client."""
    width = max((len(_label(name)) for name in part), default=0)
    for name, value in part.items():
        if name == "start_estimates":
            yield f"{indent}{screen.paint(f'{_label(name):<{width}}', 'bold')}  {_calibration(value)}"
            continue
        label = screen.paint(f"{_label(name):<{width}}", "bold")
        if isinstance(value, dict) and any(isinstance(item, dict) for item in value.values()):
            yield f"{indent}{label.rstrip()}"
            yield from _lines(screen, value, f"{indent}  ")
        elif isinstance(value, dict):
            figures = "  ".join(f"{_label(key)} {_figure(item)}" for key, item in value.items())
            yield f"{indent}{label}  {figures or '-'}"
        elif name == "alerts" and value:
            yield f"{indent}{label.rstrip()}"
            for alert in value:
                yield f"{indent}  {screen.paint(clean(alert['name']), 'yellow')}: {clean(alert['text'])}"
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{indent}{label.rstrip()}"
            columns = [Column(_label(key).upper()) for key in value[0]]
            for line in table(
                screen, columns, [[_figure(row.get(key)) for key in value[0]] for row in value]
            ):
                yield f"{indent}  {line}"
        else:
            yield f"{indent}{label}  {_figure(value)}"


def _calibration(found: dict[str, Any]) -> str:
    """`83 % of 412 jobs started inside their interval (target 80 %), median error 1m35s`."""
    if not found.get("count"):
        return "no job has started after an estimate yet"
    jobs = words.plural(found["count"], "job")
    return (
        f"{100 * found['inside']:.0f} % of {jobs} started inside the estimated interval (target "
        f"{100 * found['target']:.0f} %), median error {words.duration(found['median_error_s'])}"
    )


def _label(name: str) -> str:
    return clean(name).replace("_", " ")


def _figure(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= _WHOLE else f"{round(value, 3):g}"
    return "-" if value is None or value == [] else clean(value)
