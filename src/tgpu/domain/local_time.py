"""Wall-clock times of this machine's time zone."""

from datetime import UTC, datetime


def instant(wall: datetime) -> datetime:
    """The moment, in UTC, at which local clocks show a naive `wall` time. Of an hour that happens twice, the
    first; a time that clocks skip is moved forward by as much as they are, never to an earlier moment."""
    first, second = (wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    skipped = first.astimezone().replace(tzinfo=None, fold=0) != wall.replace(fold=0)
    return max(first, second) if skipped else first
