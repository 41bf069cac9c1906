"""Structured logs: one line per happening, to standard error."""

import logging
import sys
import traceback
from typing import Any

import structlog

from tgpu.observe.log_output import Rotation, guard_standard_streams
from tgpu.observe.repetition import KEY, RepetitionLimit

_FRAMES = 12
"""The innermost ones of a traceback, which is enough to find a bug."""


def configure(level: str, rotation: Rotation | None = None) -> None:
    """JSON for machines, short coloured lines for a person at a terminal. Nothing that this process logs or
    prints from now on can fail; `rotation` bounds its log file."""
    guard_standard_streams(rotation)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        RepetitionLimit(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=True)
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_LibraryLogs()], level=logging.WARNING, force=True)


def logger(part: str) -> "structlog.typing.FilteringBoundLogger":
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger(part=part)
    return bound


def trace_of(error: BaseException) -> str:
    """Where an error came from, without the values of variables: secrets may be among them."""
    return "".join(traceback.format_exception(error, limit=-_FRAMES))


class _LibraryLogs(logging.Handler):
    """What libraries log (the HTTP server, asyncio), written and limited like our own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields = {KEY: str(record.msg), "exc_info": record.exc_info or None}
            logger(record.name).log(record.levelno, record.getMessage(), **fields)
        except Exception:  # noqa: BLE001  a line that cannot be formatted must not fail its caller
            self.handleError(record)
