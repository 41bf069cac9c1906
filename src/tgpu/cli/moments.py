"""A moment as people say it (`7d` ago, `2026-07-25`), as RFC 3339."""

from __future__ import annotations

from datetime import UTC, datetime

from tgpu.cli.exits import UsageError
from tgpu.domain.quantities import BadQuantityError, seconds


def moment(name: str, text: str, now: float) -> str:
    """So long before `now`, or a date or time on this machine's clock."""
    try:
        return _rfc3339(datetime.fromtimestamp(now - seconds(name, text), UTC))
    except BadQuantityError:
        return _date(name, text)


def in_future(name: str, text: str, now: float) -> str:
    """So long after `now`, or a date or time on this machine's clock."""
    try:
        return _rfc3339(datetime.fromtimestamp(now + seconds(name, text), UTC))
    except BadQuantityError:
        return _date(name, text)


def later(name: str, text: str, start: float) -> str:
    """So long after `start`."""
    try:
        return _rfc3339(datetime.fromtimestamp(start + seconds(name, text), UTC))
    except BadQuantityError as error:
        raise UsageError(str(error)) from None


def _date(name: str, text: str) -> str:
    try:
        return _rfc3339(datetime.fromisoformat(text).astimezone(UTC))
    except ValueError:
        raise UsageError(
            f"{name} must be like 7d, 12h, 2026-07-25 or 2026-07-25T14:00; got {text!r}"
        ) from None


def _rfc3339(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%S}Z"
