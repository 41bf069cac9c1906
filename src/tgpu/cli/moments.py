"""A moment as people say it (`7d` ago, `2026-07-25`), as RFC 3339."""

from __future__ import annotations

from datetime import UTC, datetime

from tgpu.cli.exits import UsageError
from tgpu.domain.local_time import instant
from tgpu.domain.quantities import BadQuantityError, seconds

_LONGEST_DAYS = 366


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


def lifetime_s(name: str, text: str) -> int:
    """How long a token is good, in seconds."""
    try:
        found = seconds(name, text)
    except BadQuantityError:
        found = 0
    if not 0 < found <= _LONGEST_DAYS * 86400:
        raise UsageError(f"{name} must be a duration from 1s to {_LONGEST_DAYS}d, such as 90d; got {text!r}")
    return found


def check_order(since: str, until: str | None) -> None:
    """Of two moments, as they are made here."""
    if until is not None and since > until:
        raise UsageError(f"--since must be before --until; got {since} and {until}")


def _date(name: str, text: str) -> str:
    try:
        found = datetime.fromisoformat(text)
        return _rfc3339(instant(found) if found.tzinfo is None else found.astimezone(UTC))
    except ValueError:
        raise UsageError(
            f"{name} must be like 7d, 12h, 2026-07-25 or 2026-07-25T14:00; got {text!r}"
        ) from None


def _rfc3339(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%S}Z"
