"""What people write, and the exact integers it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.domain.ids import AttemptId
from tgpu.domain.quantities import (
    MAX_CPU_MILLI,
    MAX_MIB,
    BadQuantityError,
    mib,
    milli,
    seconds,
    size_in_words,
    whole,
)
from tgpu.domain.tenant import lineage, parent_of


@pytest.mark.parametrize(
    ("written", "meant"), [(1, 1000), (0.25, 250), ("0.001", 1), (2.5, 2500), ("1e1", 10000), (0.1, 100)]
)
def test_a_decimal_is_thousandths(written: object, meant: int) -> None:
    assert milli("cpu_request", written, MAX_CPU_MILLI) == meant


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (-1, "must not be negative"),
        (0.0001, "at most 3 decimals"),
        (10**18, "may be at most 1000000"),
        ("abc", "must be a number"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (True, "must be a number"),
        (None, "must be a number"),
    ],
)
def test_a_bad_decimal_is_refused_by_name(written: object, says: str) -> None:
    with pytest.raises(BadQuantityError, match=f"cpu_request.*{says}"):
        milli("cpu_request", written, MAX_CPU_MILLI)


@given(st.integers(0, MAX_CPU_MILLI))
def test_thousandths_survive_the_way_through_a_decimal(number: int) -> None:
    assert milli("x", f"{number // 1000}.{number % 1000:03}", MAX_CPU_MILLI) == number


@pytest.mark.parametrize(
    ("written", "meant"),
    [("512", 512), ("512M", 512), ("16G", 16384), ("16GiB", 16384), ("1.5G", 1536), ("1T", 2**20), ("1K", 1)],
)
def test_a_size_is_mebibytes_and_a_part_is_rounded_up(written: str, meant: int) -> None:
    assert mib("memory", written) == meant


@pytest.mark.parametrize("written", ["", "G", "16X", "-1G", "1e30T", "16 G B"])
def test_a_bad_size_is_refused(written: str) -> None:
    with pytest.raises(BadQuantityError, match="memory"):
        mib("memory", written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("90", 90),
        ("90s", 90),
        ("15m", 900),
        ("2h30m", 9000),
        ("1d", 86400),
        ("01:30:00", 5400),
        ("10:00", 600),
        ("1-12:00:00", 129600),
        ("1-12:00", 129600),
        ("1w", 604800),
    ],
)
def test_a_duration_is_seconds(written: str, meant: int) -> None:
    assert seconds("time", written) == meant


@pytest.mark.parametrize(
    "written", ["", "abc", "1x", "h", "1-99:99:99", "99:99", "1:2:3:4", "9999999999d", "-5"]
)
def test_a_bad_duration_is_refused(written: str) -> None:
    with pytest.raises(BadQuantityError, match="time"):
        seconds("time", written)


@pytest.mark.parametrize(
    ("size_mib", "words"),
    [
        (0, "0 MiB"),
        (512, "512 MiB"),
        (1024, "1 GiB"),
        (1536, "1.5 GiB"),
        (4384, "4.281 GiB"),
        (16384, "16 GiB"),
        (102400, "100 GiB"),
        (1572864, "1.5 TiB"),
        (1048577, "1024.001 GiB"),
        (10485760, "10 TiB"),
    ],
)
def test_a_size_is_told_as_people_write_it(size_mib: int, words: str) -> None:
    assert size_in_words(size_mib) == words


def test_a_whole_number_is_whole_and_bounded() -> None:
    assert whole("mem_request_mb", 512.0, MAX_MIB) == 512
    with pytest.raises(BadQuantityError, match="whole number"):
        whole("mem_request_mb", 0.5, MAX_MIB)
    with pytest.raises(BadQuantityError, match="at most"):
        whole("mem_request_mb", MAX_MIB + 1, MAX_MIB)


def test_an_attempt_id_is_read_as_it_is_written() -> None:
    assert AttemptId.parse(str(AttemptId(42, 7, 1))) == AttemptId(42, 7, 1)
    for text in ("", "42", "42.7", "42.7.x", "42.7.1.0", "-1.0.1"):
        with pytest.raises(ValueError, match="not an attempt id"):
            AttemptId.parse(text)


def test_a_tenant_knows_its_ancestors_from_the_root() -> None:
    assert lineage("a/b/c") == ("a", "a/b", "a/b/c")
    assert parent_of("a/b/c") == "a/b"
    assert parent_of("a") is None
