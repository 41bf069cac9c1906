"""A job's fields about time and other jobs, under the names people use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tgpu.dialects.native.problems import JobFieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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
            raise JobFieldError(f"{name} must be text, or a list of texts; got {item!r}")
    return [str(item) for item in given]


def past_begin(given: Mapping[str, object], fields: Mapping[str, Any]) -> str | None:
    """A warning, if the job may start at once though it was written with a begin time. One that is past is in
    nobody's way, but another one may have been meant."""
    from tgpu.domain.local_time import local_words  # noqa: PLC0415  2 ms that only times need

    key = next((key for key in ("begin", "begin_at") if key in given), None)
    if key is None or _timestamp(fields["begin_at"]) >= time.time() - _JUST_NOW_S:
        return None
    return f"{key} {given[key]} is past ({local_words(fields['begin_at'])}): the job may start at once"


def _deadline(name: str, value: object) -> str:
    from tgpu.domain.local_time import local_words  # noqa: PLC0415

    found = _moment(name, value)
    if _timestamp(found) < time.time():
        raise JobFieldError(f"{name} {value} is past ({local_words(found)}): give a moment to come")
    return found


def _timestamp(moment: str) -> float:
    from datetime import datetime  # noqa: PLC0415  2 ms that only times need

    return datetime.fromisoformat(moment).timestamp()


def _moment(name: str, value: object) -> str:
    from tgpu.dialects.native.moments import coming  # noqa: PLC0415  only who uses it

    if not isinstance(value, str):
        raise JobFieldError(f"{name} must be a moment such as 16:00 or now+1hour; got {value!r}")
    return coming(name, value, time.time())


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise JobFieldError(f"{name} must be true or false; got {value!r}")
    return value


TIME_FIELDS: dict[str, Callable[[str, Any], object]] = {
    "after": _after,
    "needs": _needs,
    "begin_at": _moment,
    "deadline_at": _deadline,
    "requeue_on_timeout": _flag,
    "hold": _flag,
}
TIME_ALIASES = {"dependency": "after", "begin": "begin_at", "deadline": "deadline_at"}
TIME_FRIENDLY = {"begin_at": "begin", "deadline_at": "deadline"}
