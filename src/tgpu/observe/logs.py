"""Structured logs: one line per happening, to standard error."""

import logging
import sys
import traceback
from typing import Any

import structlog

_FRAMES = 12
"""The innermost ones of a traceback, which is enough to find a bug."""


def configure(level: str) -> None:
    """JSON for machines, short coloured lines for a person at a terminal."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def logger(part: str) -> "structlog.typing.FilteringBoundLogger":
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger(part=part)
    return bound


def trace_of(error: BaseException) -> str:
    """Where an error came from, without the values of variables: secrets may be among them."""
    return "".join(traceback.format_exception(error, limit=-_FRAMES))
