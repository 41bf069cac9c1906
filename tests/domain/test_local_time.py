"""Wall-clock times on the days on which clocks change."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tgpu.cli import moments
from tgpu.dialects.native import moments as when
from tgpu.dialects.slurm import moments as slurm_moments
from tgpu.domain.local_time import instant


@pytest.fixture(autouse=True)
def berlin() -> Iterator[None]:
    """Clocks skip 02:00 to 03:00 on 29 March 2026, and show it twice on 25 October."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


EXPECTED = [
    ("2026-03-29T01:30", "2026-03-29T00:30:00Z"),
    ("2026-03-29T02:30", "2026-03-29T01:30:00Z"),
    ("2026-03-29T03:30", "2026-03-29T01:30:00Z"),
    ("2026-07-01T12:00", "2026-07-01T10:00:00Z"),
    ("2026-10-25T02:30", "2026-10-25T00:30:00Z"),
    ("2026-12-01T12:00", "2026-12-01T11:00:00Z"),
]


@pytest.mark.parametrize(("text", "utc"), EXPECTED)
def test_skipped_hour_is_moved_forward_never_back(text: str, utc: str) -> None:
    found = instant(datetime.fromisoformat(text))
    assert f"{found:%Y-%m-%dT%H:%M:%SZ}" == utc
    assert found.tzinfo is UTC


@pytest.mark.parametrize(("text", "utc"), EXPECTED)
def test_every_parser_reads_a_wall_clock_time_alike(text: str, utc: str) -> None:
    winter = datetime(2026, 1, 10, 12)  # noqa: DTZ001  a wall-clock time
    assert when.coming("--begin", text, winter.timestamp()) == utc
    assert moments.in_future("--until", text, winter.timestamp()) == utc
    assert slurm_moments.rfc3339(slurm_moments.moment("--begin", text, winter)) == utc


def test_time_of_day_follows_the_offset_of_its_own_day() -> None:
    evening = datetime(2026, 3, 28, 20)  # noqa: DTZ001  the evening before clocks change
    for text, utc in (("02:30", "2026-03-29T01:30:00Z"), ("04:00", "2026-03-29T02:00:00Z")):
        assert when.coming("--begin", text, evening.timestamp()) == utc
        assert slurm_moments.rfc3339(slurm_moments.moment("--begin", text, evening)) == utc
    later = slurm_moments.moment("--begin", "now+12hours", evening)
    assert slurm_moments.rfc3339(later) == "2026-03-29T07:00:00Z"
