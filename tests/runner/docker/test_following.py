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
