"""`tgpu logs` with times: streams merged by them, and lines that begin with them."""

import subprocess
import threading

import pytest
from fake_tgpu import FakeTgpu, a_job, an_attempt

from tests.cli.cli_process import TGPU, Tgpu
from tgpu.cli.log_lines import Lines, merged

RUNNING = {"status": "running", "started_at": "2026-01-31T12:00:01.000Z", "attempts": [an_attempt()]}
ENDED = RUNNING | {"status": "completed", "attempts": [an_attempt(status="ended", exit_code=0)]}


def at(second: int) -> str:
    return f"2026-01-31T12:00:{second:02d}.000000Z"


@pytest.fixture
def both(server: FakeTgpu) -> FakeTgpu:
    """A job that has written to both streams in turn."""
    server.jobs = {1: a_job(1, **ENDED)}
    server.logs = {(1, "stdout"): b"one\nthree\nfive\n", (1, "stderr"): b"two\nfour\xff\n"}
    server.log_times = {
        (1, "stdout"): [(0, at(1)), (4, at(3)), (10, at(5))],
        (1, "stderr"): [(0, at(2)), (4, at(4))],
    }
    return server


def in_one(environ: dict[str, str], *words: str) -> list[bytes]:
    """Lines as a terminal shows them, both streams in one."""
    done = subprocess.run(
        [*TGPU, *words], env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("flags", [[], ["--follow"]])
def test_streams_are_merged_in_the_order_in_which_lines_arrived(
    environ: dict[str, str], flags: list[str]
) -> None:
    assert in_one(environ, "logs", "1", *flags) == [b"one", b"two", b"three", b"four\xff", b"five"]


def test_without_times_one_stream_comes_after_the_other(both: FakeTgpu, environ: dict[str, str]) -> None:
    both.log_times = {}
    assert in_one(environ, "logs", "1") == [b"one", b"three", b"five", b"two", b"four\xff"]
    both.knows_formats = False
    assert in_one(environ, "logs", "1") == [b"one", b"three", b"five", b"two", b"four\xff"]


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("flags", [["-t"], ["--timestamps", "--follow"]])
def test_lines_begin_with_their_times(tgpu: Tgpu, flags: list[str]) -> None:
    done = tgpu("logs", "1", "--stdout", *flags)
    assert done.stdout.splitlines() == [f"{at(1)} one", f"{at(3)} three", f"{at(5)} five"]
    assert done.stderr == ""


def test_output_without_times_says_so_once(both: FakeTgpu, tgpu: Tgpu) -> None:
    both.log_times = {}
    done = tgpu("logs", "1", "--stdout", "--timestamps")
    assert done.stdout.splitlines() == ["- one", "- three", "- five"]
    assert done.stderr == "tgpu: no times were recorded for this output: - stands in their place\n"


@pytest.mark.usefixtures("both")
def test_timestamps_and_json_exclude_each_other(tgpu: Tgpu) -> None:
    done = tgpu("logs", "1", "--json", "--timestamps")
    assert (done.returncode, "--timestamps and --json exclude each other" in done.stderr) == (2, True)


def test_line_that_is_unfinished_when_following_begins_gets_one_time(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, **RUNNING)}
    server.logs = {(1, "stdout"): b"un"}
    server.log_times = {(1, "stdout"): [(0, at(1)), (2, at(9))]}

    def finish() -> None:
        server.logs[1, "stdout"] += b"finished\nlast"
        server.change(1, "succeeded", **ENDED)

    threading.Timer(0.3, finish).start()
    done = tgpu("logs", "1", "--stdout", "-t", "-f")
    assert done.stdout.splitlines() == [f"{at(1)} unfinished", f"{at(9)} last"]


def test_line_keeps_the_time_of_its_beginning_across_chunks() -> None:
    lines = Lines()
    chunks = [("1", b"a\nb\nc"), ("2", b"c"), ("3", b"c\nd\n"), (None, b"e")]
    assert list(lines.of(chunks)) == [("1", b"a\nb\n"), ("1", b"ccc\n"), ("3", b"d\n")]
    assert list(lines.rest()) == [(None, b"e")]
    assert list(lines.rest()) == []


def test_streams_are_merged_across_a_clock_that_was_set_back() -> None:
    out = [("5", b"a\n"), ("2", b"b\n"), ("7", b"c\n")]
    err = [("6", b"x\n")]
    assert [block[1] for _, block in merged({"stdout": out, "stderr": err})] == [
        b"a\n",
        b"b\n",
        b"x\n",
        b"c\n",
    ]
