"""When the periods begin over which GPU-hours are counted: at midnight UTC."""

from datetime import UTC, datetime, timedelta

from tgpu.domain.quota import Period

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def period_from_ms(period: Period, at_ms: int) -> int:
    """The beginning of the period that this moment lies in."""
    return _ms(_beginning(period, _EPOCH + at_ms * _MS))


def period_until_ms(period: Period, at_ms: int) -> int | None:
    """The beginning of the next one, if this one ends."""
    begun = _beginning(period, _EPOCH + at_ms * _MS)
    if period is Period.DAY:
        return _ms(begun + timedelta(days=1))
    if period is Period.WEEK:
        return _ms(begun + timedelta(days=7))
    if period is Period.MONTH:
        return _ms((begun + timedelta(days=31)).replace(day=1))
    return None


def _beginning(period: Period, moment: datetime) -> datetime:
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if period is Period.WEEK:
        return day - timedelta(days=day.weekday())
    if period is Period.MONTH:
        return day.replace(day=1)
    return _EPOCH if period is Period.EVER else day


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MS
