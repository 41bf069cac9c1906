from dataclasses import replace

from tgpu.domain.start_estimate import Calibration, Horizon, Score, StartEstimate, calibration_of, horizon_of


def made(started_ms: int | None, expected_ms: int = 60_000) -> StartEstimate:
    return StartEstimate(1, 0, expected_ms - 10_000, expected_ms, expected_ms + 20_000, started_ms)


def test_calibration_counts_starts_inside_their_interval_by_horizon() -> None:
    hour = 2 * 3_600_000
    scored = [made(50_000), made(80_000), made(80_001), made(hour + 5_000, hour), made(None)]
    found = calibration_of(scored)
    assert found.whole == Score(4, 0.75, 15.0)
    assert found.by_horizon[Horizon.MINUTES] == Score(3, 0.6667, 20.0)
    assert found.by_horizon[Horizon.HOURS] == Score(1, 1.0, 5.0)
    assert found.by_horizon[Horizon.LONGER] == Score()


def test_calibration_of_nothing_has_no_figures() -> None:
    assert calibration_of([]) == Calibration(Score(), dict.fromkeys(Horizon, Score()))


def test_ends_of_an_interval_are_inside() -> None:
    assert made(50_000).is_inside
    assert made(80_000).is_inside
    assert not made(49_999).is_inside
    assert not replace(made(50_000), started_ms=None).is_inside


def test_horizons_begin_where_the_one_before_ends() -> None:
    minutes = [0, 599_999, 600_000, 3_599_999, 3_600_000, 6 * 3_600_000 - 1, 6 * 3_600_000]
    assert [horizon_of(ahead) for ahead in minutes] == [
        Horizon.MINUTES, Horizon.MINUTES, Horizon.HOUR, Horizon.HOUR, Horizon.HOURS, Horizon.HOURS,
        Horizon.LONGER,
    ]  # fmt: skip
