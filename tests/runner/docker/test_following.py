"""The engine's copy of a container's output, and what is known of it already."""

from pathlib import Path

from tgpu.runner import logs
from tgpu.runner.docker.following import STDOUT, Follower


def lines(first: int, last: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(first, last))


def take_copy(follower: Follower, copy: bytes) -> None:
    """As an engine sends it: a frame for each line."""
    follower.begin_copy(forgets_ends=True)
    for line in copy.splitlines(keepends=True):
        follower.copied(bytes((STDOUT, 0, 0, 0)) + len(line).to_bytes(4, "big") + line)


def kept(folder: Path) -> bytes:
    return logs.read(folder, "stdout", 0, 1 << 20).data


def test_what_is_known_is_passed_over(tmp_path: Path) -> None:
    follower = Follower(tmp_path, 1 << 20)
    follower.printed(STDOUT, lines(0, 100) + b"line 1")
    take_copy(follower, lines(0, 200))
    follower.close()
    assert kept(tmp_path) == lines(0, 200)


def test_what_an_engine_lost_as_it_was_stopped_costs_nothing_that_came_later(tmp_path: Path) -> None:
    """Twice, and each time it is read from its beginning."""
    follower = Follower(tmp_path, 1 << 20)
    follower.printed(STDOUT, lines(0, 100))
    take_copy(follower, lines(0, 94) + lines(100, 150))
    assert kept(tmp_path) == lines(0, 150)
    take_copy(follower, lines(0, 94) + lines(100, 170))
    assert kept(tmp_path) == lines(0, 170)
    follower.printed(STDOUT, lines(170, 180))
    take_copy(follower, lines(0, 94) + lines(100, 175) + lines(183, 200))
    follower.close()
    assert kept(tmp_path) == lines(0, 180) + lines(183, 200)


def test_lines_that_are_alike_are_never_doubled(tmp_path: Path) -> None:
    follower = Follower(tmp_path, 1 << 20)
    follower.printed(STDOUT, b"y\n" * 100)
    take_copy(follower, b"y\n" * 90 + b"y\n" * 20)
    follower.close()
    assert kept(tmp_path) == b"y\n" * 110


def test_times_go_on_behind_a_record_that_an_agent_did_not_finish(tmp_path: Path) -> None:
    first = Follower(tmp_path, 1 << 20)
    first.printed(STDOUT, b"one\n")
    first.close()
    with (tmp_path / "stdout-times.0").open("ab") as file:
        file.write(b"\0\0\0")
    second = Follower(tmp_path, 1 << 20)
    second.printed(STDOUT, b"two\n")
    second.close()
    times = logs.read(tmp_path, "stdout", 0, 100).times
    assert [offset for offset, _ in times] == [0, 4]
    assert times[0][1] <= times[1][1]


STAMPS = ("2026-11-18T16:40:50.250731123Z", "2026-11-18T16:40:51.000000000Z", "2026-11-18T17:40:52+01:00")
STAMPS_US = (1_795_020_050_250_731, 1_795_020_051_000_000, 1_795_020_052_000_000)


def frame(number: int, text: str) -> bytes:
    return bytes((number, 0, 0, 0)) + len(text).to_bytes(4, "big") + text.encode()


def test_output_printed_while_no_agent_ran_has_the_times_of_the_engine(tmp_path: Path) -> None:
    follower = Follower(tmp_path, 1 << 20)
    follower.begin_copy(stamped=True)
    copy = frame(1, f"{STAMPS[0]} a\n") + frame(2, f"{STAMPS[1]} b\n") + frame(1, f"{STAMPS[2]} c\n")
    follower.copied(copy + frame(1, "2026-11-18T16:40:53 no zone\n"))
    follower.close()
    out, err = (logs.read(tmp_path, name, 0, 100) for name in ("stdout", "stderr"))
    assert (out.data, err.data) == (b"a\nc\n2026-11-18T16:40:53 no zone\n", b"b\n")
    assert out.times[:2] == ((0, STAMPS_US[0]), (2, STAMPS_US[2]))
    assert err.times == ((0, STAMPS_US[1]),)


def test_streams_of_a_copy_that_alternate_within_milliseconds_keep_their_order(tmp_path: Path) -> None:
    follower = Follower(tmp_path, 1 << 20)
    follower.begin_copy(stamped=True)
    follower.copied(
        b"".join(
            frame(number, f"2026-11-18T16:40:50.00{turn}000000Z {turn}\n")
            for turn, number in enumerate((1, 2, 1, 2))
        )
    )
    follower.close()
    times = {
        us: (name, offset)
        for name in ("stdout", "stderr")
        for offset, us in logs.read(tmp_path, name, 0, 100).times
    }
    assert [times[us] for us in sorted(times)] == [("stdout", 0), ("stderr", 0), ("stdout", 2), ("stderr", 2)]


def test_stamped_copy_is_passed_over_as_far_as_it_is_known(tmp_path: Path) -> None:
    follower = Follower(tmp_path, 1 << 20)
    follower.printed(STDOUT, b"one\ntw")
    follower.begin_copy(stamped=True)
    follower.copied(frame(1, f"{STAMPS[0]} one\n") + frame(1, f"{STAMPS[1]} two\n"))
    follower.close()
    assert kept(tmp_path) == b"one\ntwo\n"


def test_lines_that_begin_with_a_time_of_their_own_are_kept_whole(tmp_path: Path) -> None:
    follower = Follower(tmp_path, 1 << 20)
    follower.begin_copy()
    follower.copied(frame(1, f"{STAMPS[0]} own\n"))
    follower.begin_copy(stamped=True)
    follower.copied(frame(1, f"{STAMPS[0]} {STAMPS[0]} own\n") + frame(1, f"{STAMPS[1]} {STAMPS[1]} next\n"))
    follower.close()
    assert kept(tmp_path) == f"{STAMPS[0]} own\n{STAMPS[1]} next\n".encode()
