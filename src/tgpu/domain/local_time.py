"""Wall-clock times of this machine's time zone."""

from datetime import UTC, datetime


def instant(wall: datetime) -> datetime:
    """The moment, in UTC, at which local clocks show a naive `wall` time. Of an hour that happens twice, the
    first; a time that clocks skip is moved forward by as much as they are, never to an earlier moment."""
    first, second = (wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    skipped = first.astimezone().replace(tzinfo=None, fold=0) != wall.replace(fold=0)
    return max(first, second) if skipped else first


def local_words(moment: str) -> str:
    """An RFC 3339 time as local clocks show it: `2026-07-25 14:03:11`."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"
