from datetime import UTC, datetime

import pytest

from tgpu.domain.periods import period_from_ms, period_until_ms
from tgpu.domain.quota import Period


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


@pytest.mark.parametrize(
    ("period", "at", "begins", "ends"),
    [
        (Period.DAY, "2026-03-01T00:00:00", "2026-03-01", "2026-03-02"),
        (Period.DAY, "2026-02-28T23:59:59", "2026-02-28", "2026-03-01"),
        (Period.WEEK, "2026-07-25T12:00:00", "2026-07-20", "2026-07-27"),  # a Saturday
        (Period.WEEK, "2026-07-20T00:00:00", "2026-07-20", "2026-07-27"),  # a Monday
        (Period.WEEK, "2027-01-02T01:00:00", "2026-12-28", "2027-01-04"),  # over the new year
        (Period.MONTH, "2026-01-31T23:59:59", "2026-01-01", "2026-02-01"),
        (Period.MONTH, "2026-02-28T23:59:59", "2026-02-01", "2026-03-01"),
        (Period.MONTH, "2028-02-29T10:00:00", "2028-02-01", "2028-03-01"),  # a leap year
        (Period.MONTH, "2026-12-31T23:00:00", "2026-12-01", "2027-01-01"),
        (Period.MONTH, "2026-04-30T00:00:00", "2026-04-01", "2026-05-01"),
    ],
)
def test_periods_begin_at_midnight(period: Period, at: str, begins: str, ends: str) -> None:
    assert period_from_ms(period, ms(at)) == ms(begins)
    assert period_until_ms(period, ms(at)) == ms(ends)
    assert period_from_ms(period, ms(ends)) == ms(ends)
    assert period_from_ms(period, ms(ends) - 1) == ms(begins)


def test_one_period_never_ends() -> None:
    assert period_from_ms(Period.EVER, ms("2026-07-25")) == 0
    assert period_until_ms(Period.EVER, ms("2026-07-25")) is None


def test_every_period_is_followed_by_the_next_one_without_a_gap() -> None:
    for period in (Period.DAY, Period.WEEK, Period.MONTH):
        at_ms = ms("2023-12-15")
        for _ in range(70):
            until_ms = period_until_ms(period, at_ms)
            assert until_ms is not None
            assert until_ms > at_ms
            assert period_from_ms(period, until_ms) == until_ms
            at_ms = until_ms
