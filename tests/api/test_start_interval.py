"""Expected starts as callers see them."""

from tgpu.api.start_interval import interval_out
from tgpu.domain.start_estimate import StartInterval


def test_start_beyond_the_last_year_is_shown_as_its_end() -> None:
    out = interval_out(StartInterval(0, 10**16, 10**17, "time limits"))
    assert (out.expected[:4], out.latest[:4]) == ("9999", "9999")
