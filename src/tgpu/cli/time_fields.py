"""A job's fields about time and other jobs, under the names people use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tgpu.cli.exits import UsageError
from tgpu.cli.screen import note
from tgpu.cli.words import local_time, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_JUST_NOW_S = 60


def _after(name: str, value: object) -> list[str]:
    """Read here already, so that what is wrong is told with the name that was written."""
    from tgpu.domain.needs import parse_needs  # noqa: PLC0415  only who uses it

    given = _texts(name, value)
    parse_needs(name, given)
    return given


def _needs(name: str, value: object) -> list[str]:
    from tgpu.domain.needs import parse_named_need  # noqa: PLC0415  only who uses it

    given = _texts(name, value)
    for text in given:
        parse_named_need(name, text)
    return given


def _texts(name: str, value: object) -> list[str]:
    """One, or a list of them; a number is a job's."""
    given = value if isinstance(value, list) else [value]
    for item in given:
        if not isinstance(item, str | int) or isinstance(item, bool):
            raise UsageError(f"{name} must be text, or a list of texts; got {item!r}")
    return [str(item) for item in given]


def _begin(name: str, value: object) -> str:
    """One that is past is in nobody's way: whoever wrote it may have meant another."""
    found = _moment(name, value)
    if (timestamp(found) or 0) < time.time() - _JUST_NOW_S:
        note(f"{name} {value} is past ({local_time(found)}): the job may start at once")
    return found


def _deadline(name: str, value: object) -> str:
    found = _moment(name, value)
    if (timestamp(found) or 0) < time.time():
        raise UsageError(f"{name} {value} is past ({local_time(found)}): give a moment to come")
    return found


def _moment(name: str, value: object) -> str:
    from tgpu.cli.when import coming  # noqa: PLC0415  only who uses it

    if not isinstance(value, str):
        raise UsageError(f"{name} must be a moment such as 16:00 or now+1hour; got {value!r}")
    return coming(name, value, time.time())


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false; got {value!r}")
    return value


TIME_FIELDS: dict[str, Callable[[str, Any], object]] = {
    "after": _after,
    "needs": _needs,
    "begin_at": _begin,
    "deadline_at": _deadline,
    "requeue_on_timeout": _flag,
    "hold": _flag,
}
TIME_ALIASES = {"dependency": "after", "begin": "begin_at", "deadline": "deadline_at"}
TIME_FRIENDLY = {"begin_at": "begin", "deadline_at": "deadline"}
TIME_FLAGS = (
    ("--begin", "begin", "MOMENT", "not before, such as 16:00, tomorrow 2am, now+1hour or 2026-01-20T12:34"),
    ("--deadline", "deadline", "MOMENT", "to be over by then: else it has failed"),
)
TIME_REPEATED = (
    (
        "--after",
        "after",
        "JOBS",
        "start once job 41 (or: last) has completed; or as --dependency; repeatable",
    ),
    (
        "--dependency",
        "dependency",
        "KIND:JOB[:JOB]",
        "afterok:41:42, afternotok:41, afterany:41, aftercorr:41 or singleton, several with commas",
    ),
)
TIME_SWITCHES = (
    ("--hold", "hold", "do not start it until `tgpu release`"),
    ("--requeue-on-timeout", "requeue_on_timeout", "let it wait again when it runs into its time limit"),
)
