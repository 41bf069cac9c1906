"""However long a task runs, its course stays short, and nothing of what matters is lost."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgpu.agent.use.series import MOST, Sample, Series

SAMPLES = st.lists(
    st.builds(
        lambda seconds, cpu, memory, written: Sample(
            seconds, {"cpu_milli": cpu, "memory_mib": memory}, {"disk_written_bytes": written}
        ),
        st.floats(0.05, 40),
        st.floats(0, 64_000),
        st.floats(0, 1e6),
        st.integers(0, 10**12),
    ),
    min_size=1,
    max_size=1200,
)


@settings(max_examples=25, deadline=None)
@given(SAMPLES, st.booleans())
def test_totals_and_the_largest_values_stay_what_they_are(samples: list[Sample], restart: bool) -> None:
    series = Series(5.0)
    for at, sample in enumerate(samples):
        series.add(sample)
        if restart and at == len(samples) // 2:
            series = Series.found(series.step_s, series.packed())
    assert len(series) <= MOST
    assert {len(column) for column in series.columns.values()} == {len(series)}
    seconds = sum(sample.seconds for sample in samples)
    assert sum(series.columns["seconds"]) == pytest.approx(seconds)
    for name in ("cpu_milli", "memory_mib"):
        total = sum(sample.seconds * sample.means[name] for sample in samples)
        assert series.total(name) == pytest.approx(total, rel=1e-6, abs=1e-6)
        assert series.largest(name) == max(sample.means[name] for sample in samples)
    assert series.total("disk_written_bytes") == sum(s.sums["disk_written_bytes"] for s in samples)


def steady(count: int, step_s: float = 5.0) -> Series:
    series = Series(step_s)
    for number in range(count):
        series.add(Sample(step_s, {"cpu_milli": float(number)}, {}))
    return series


def test_stretches_become_twice_as_long_when_there_would_be_too_many() -> None:
    assert (len(steady(MOST)), steady(MOST).step_s) == (MOST, 5.0)
    thinned = steady(MOST + 1)
    assert (len(thinned), thinned.step_s) == (MOST // 2 + 1, 10.0)
    assert list(thinned.columns["cpu_milli"][:3]) == [0.5, 2.5, 4.5]
    assert list(thinned.columns["cpu_milli_peak"][:3]) == [1.0, 3.0, 5.0]
    day = steady(24 * 720)
    assert MOST // 2 <= len(day) <= MOST
    assert all(later > earlier for earlier, later in pairwise(day.columns["cpu_milli"]))


def test_short_looks_are_gathered_into_one_stretch() -> None:
    series = Series(5.0)
    for _ in range(5):
        series.add(Sample(1.0, {"cpu_milli": 100.0}, {"net_sent_bytes": 3}))
    series.add(Sample(1.0, {"cpu_milli": 700.0}, {}))
    assert list(series.columns["seconds"]) == [5.0, 1.0]
    assert series.columns["net_sent_bytes"][0] == 15


def test_what_could_not_be_told_for_a_while_is_left_open() -> None:
    series = Series(5.0)
    for gpu in (None, 50.0, None):
        series.add(Sample(5.0, {} if gpu is None else {"gpu_percent": gpu}, {}))
    assert [math.isnan(value) for value in series.columns["gpu_percent"]] == [True, False, True]
    assert (series.total("gpu_percent"), series.largest("gpu_percent")) == (250.0, 50.0)
    assert (series.total("cpu_milli"), series.largest("cpu_milli")) == (None, None)


def test_half_a_file_is_no_course() -> None:
    whole = steady(3).packed()
    assert len(Series.found(5.0, {**whole, "cpu_milli": whole["cpu_milli"][:-3]})) == 0
    assert len(Series.found(5.0, {})) == 0
