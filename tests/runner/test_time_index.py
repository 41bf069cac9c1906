"""The time index beside a stream's segments: exact, bounded, and whole after every kind of failure."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tests.small_disk import SmallDisk, mounted, needs_root
from tgpu.runner import logs, time_index
from tgpu.runner.output import Stream
from tgpu.runner.time_index import MAX_US, RECORD, LastWriter, TimeIndex

NOW_US = 1_800_000_000_000_000
SEGMENT = 1 << 18


def an_index(path: Path, segment: int = SEGMENT, writer: LastWriter | None = None) -> TimeIndex:
    index = TimeIndex(segment, writer or LastWriter())
    index.begin(str(path))
    return index


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stdout-times.0"


def test_output_has_the_time_of_its_arrival(path: Path) -> None:
    index = an_index(path)
    for at, ms in ((0, 0), (100, 20), (200, 25), (300, 40)):
        index.note(at, NOW_US + ms * 1000)
    index.close()
    first, second, last = (0, NOW_US), (100, NOW_US + 20_000), (300, NOW_US + 40_000)
    assert time_index.read(str(path), 0, 1000) == [first, second, last]
    assert time_index.read(str(path), 100, 300) == [second]
    assert time_index.read(str(path), 150, 301) == [(150, second[1]), last]
    assert time_index.read(str(path), 900, 901) == [(900, last[1])]


def test_two_streams_that_alternate_have_times_in_their_order(tmp_path: Path) -> None:
    writer = LastWriter()
    out, err = an_index(tmp_path / "out", writer=writer), an_index(tmp_path / "err", writer=writer)
    for turn in range(10):
        out.note(turn, NOW_US + 2 * turn)
        err.note(turn, NOW_US + 2 * turn + 1)
    assert [us - NOW_US for _, us in time_index.read(f"{tmp_path}/out", 0, 10)] == list(range(0, 20, 2))
    assert [us - NOW_US for _, us in time_index.read(f"{tmp_path}/err", 0, 10)] == list(range(1, 20, 2))


@pytest.mark.parametrize("interval_us", [1, 1_000, 1_000_000])
def test_index_of_single_bytes_stays_below_a_tenth_of_its_segment(path: Path, interval_us: int) -> None:
    index = an_index(path)
    for at in range(SEGMENT):
        index.note(at, NOW_US + at * interval_us)
    assert path.stat().st_size <= SEGMENT / 10
    _, last_us = time_index.read(str(path), SEGMENT - 1, SEGMENT)[-1]
    late_us = NOW_US + (SEGMENT - 1) * interval_us - last_us
    assert late_us <= max(time_index.INTERVAL_US, time_index.SHARE * RECORD * interval_us)


def test_index_of_two_streams_that_alternate_bytes_stays_below_a_tenth(tmp_path: Path) -> None:
    writer = LastWriter()
    both = [an_index(tmp_path / name, writer=writer) for name in ("out", "err")]
    for at in range(SEGMENT // 4):
        for index in both:
            index.note(at, NOW_US + at)
    assert (tmp_path / "out").stat().st_size <= SEGMENT / 10


def test_fast_output_gets_a_record_per_interval_and_not_per_read(path: Path) -> None:
    index = an_index(path, 32 << 20)
    for read in range(512):  # 32 MiB at 50 MB/s
        index.note(read << 16, NOW_US + read * 1311)
    assert path.stat().st_size <= RECORD * (512 * 1311 // time_index.INTERVAL_US + 1)


def test_record_that_a_crash_cut_off_is_not_read_and_written_over(path: Path) -> None:
    index = an_index(path)
    index.note(0, NOW_US)
    index.close()
    with path.open("ab") as file:
        file.write((20).to_bytes(5, "little") + b"\1" * 3)
    assert time_index.read(str(path), 0, 1 << 30) == [(0, NOW_US)]
    after = TimeIndex(SEGMENT, LastWriter())
    after.resume(str(path))
    after.note(50, NOW_US + 1)
    assert time_index.read(str(path), 0, 100) == [(0, NOW_US), (50, NOW_US + 1)]
    assert path.stat().st_size == 2 * RECORD


def test_output_that_could_not_be_written_does_not_date_what_follows(path: Path) -> None:
    """The disk was full at this offset for an hour."""
    index = an_index(path)
    index.note(0, NOW_US)
    index.note(10, NOW_US + 20_000)
    index.note(10, NOW_US + 3_600_000_000)
    assert time_index.read(str(path), 10, 11) == [(10, NOW_US + 3_600_000_000)]
    assert path.stat().st_size == 2 * RECORD


def test_clock_that_is_set_back_or_wrong_stops_no_output(path: Path) -> None:
    index = an_index(path)
    for at, us in enumerate((NOW_US, NOW_US - 5_000_000, -1, MAX_US + 1, NOW_US)):
        index.note(at, us)
    assert time_index.read(str(path), 0, 9) == [(0, NOW_US), (1, NOW_US - 5_000_000), (4, NOW_US)]


def test_index_is_removed_with_its_segment(tmp_path: Path) -> None:
    pipe, end = os.pipe()
    os.set_blocking(pipe, False)
    stream = Stream(pipe, str(tmp_path / "log"), "stdout", 2000)
    for _ in range(35):
        os.write(end, b"x" * 100)
        assert stream.pump()
    os.close(end)
    stream.close()
    names = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert names == ["stdout-times.2000", "stdout-times.3000", "stdout.2000", "stdout.3000"]
    part = logs.read(tmp_path / "log", "stdout", 0, 10_000)
    assert (part.offset, len(part.data), part.times[0][0]) == (2000, 1500, 2000)
    assert 3000 in {offset for offset, _ in part.times}


def test_output_without_an_index_has_no_times(tmp_path: Path) -> None:
    (tmp_path / "stdout.0").write_bytes(b"old")
    assert logs.read(tmp_path, "stdout", 0, 100).times == ()
    (tmp_path / "stdout.3").write_bytes(b"new")
    index = an_index(tmp_path / "stdout-times.3")
    index.note(1, NOW_US)
    assert logs.read(tmp_path, "stdout", 0, 100).times == ((0, None), (3, None), (4, NOW_US))


def test_damaged_index_yields_rising_offsets_within_the_output(tmp_path: Path) -> None:
    chance = random.Random(7)
    (tmp_path / "stdout.0").write_bytes(bytes(5000))
    for _ in range(200):
        damaged = bytearray()
        for _ in range(chance.randrange(40)):
            damaged += chance.randrange(6000).to_bytes(5, "little") + chance.randbytes(7)
        (tmp_path / "stdout-times.0").write_bytes(damaged + chance.randbytes(chance.randrange(RECORD)))
        part = logs.read(tmp_path, "stdout", chance.randrange(5000), 1000)
        offsets = [offset for offset, _ in part.times]
        assert offsets == sorted(set(offsets))
        assert all(part.offset <= offset < part.offset + len(part.data) for offset in offsets)
        assert all(us is None or 0 <= us <= MAX_US for _, us in part.times)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    yield from mounted(tmp_path / "disk", "1m")


@needs_root
def test_full_disk_costs_times_and_no_output_after_it(disk: SmallDisk) -> None:
    pipe, end = os.pipe()
    os.set_blocking(pipe, False)
    stream = Stream(pipe, str(disk.path / "log"), "stdout", 64 << 20)
    os.write(end, b"before\n")
    stream.pump()
    disk.fill()
    os.write(end, b"x" * 50_000)
    stream.pump()
    assert stream.lost > 0
    disk.empty()
    os.write(end, b"after\n")
    stream.pump()
    os.close(end)
    stream.close()
    part = logs.read(disk.path / "log", "stdout", 0, 1 << 20)
    assert part.data.endswith(b"after\n")
    assert part.times
    assert None not in dict(part.times).values()


def test_task_that_alternates_its_streams_is_put_in_order(machine: Machine, tmp_path: Path) -> None:
    gates = "; ".join(
        f"echo {word} >&{number}; until test -e {tmp_path}/{word}; do sleep 0.01; done"
        for word, number in (("one", 1), ("two", 2), ("three", 1), ("four", 2))
    )
    attempt = machine.shell(gates)
    for word, stream in (("one", "stdout"), ("two", "stderr"), ("three", "stdout"), ("four", "stderr")):
        machine.until(lambda word=word, stream=stream: word.encode() in machine.output(attempt, stream))
        (tmp_path / word).touch()
    machine.end_of(attempt)
    times = {
        (stream, offset): us
        for stream in ("stdout", "stderr")
        for offset, us in machine.runner.read_log(attempt, stream, 0, 100).times
    }
    order = sorted(times, key=lambda where: times[where])
    assert order == [("stdout", 0), ("stderr", 0), ("stdout", 4), ("stderr", 4)]
