"""Logging that cannot fail: full disks, rotation, and the limit for repeated lines."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tgpu.observe.log_output import LogOutput, Rotation
from tgpu.observe.repetition import KEY, MOST_KEYS, PER_WINDOW, WINDOW_S, RepetitionLimit


@pytest.fixture
def log(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "server.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    yield path, descriptor
    os.close(descriptor)


def test_log_file_is_rotated_and_only_the_configured_number_is_kept(log: tuple[Path, int]) -> None:
    path, descriptor = log
    output = LogOutput(descriptor, Rotation(path, max_bytes=100, keep=2))
    for number in range(40):
        output.write(f"line {number:04}\n")
    kept = [path.with_name(name) for name in ("server.log.2", "server.log.1", "server.log")]
    assert sorted(kept) == sorted(path.parent.iterdir())
    lines = "".join(each.read_text() for each in kept).splitlines()
    assert lines == [f"line {number:04}" for number in range(40 - len(lines), 40)]
    assert all(each.stat().st_size < 120 for each in kept)


def test_log_without_rotated_files_starts_over(log: tuple[Path, int]) -> None:
    path, descriptor = log
    output = LogOutput(descriptor, Rotation(path, max_bytes=50, keep=0))
    for number in range(40):
        output.write(f"line {number:04}\n")
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_size < 80
    assert path.read_text().endswith("line 0039\n")


def test_file_that_is_not_the_configured_log_is_never_renamed(log: tuple[Path, int]) -> None:
    path, descriptor = log
    other = path.with_name("other.log")
    other.touch()
    output = LogOutput(descriptor, Rotation(other, max_bytes=10, keep=1))
    for _ in range(10):
        output.write("a line that is longer than that\n")
    assert sorted(path.parent.iterdir()) == sorted([path, other])


def test_lines_lost_on_a_full_disk_are_counted_in_the_log(log: tuple[Path, int]) -> None:
    path, descriptor = log
    output = LogOutput(descriptor)
    kept, full = os.dup(descriptor), os.open("/dev/full", os.O_WRONLY)
    try:
        os.dup2(full, descriptor)
        output.write("first\n")
        output.write("second\n")
        os.dup2(kept, descriptor)
        output.write("third\n")
    finally:
        os.close(kept)
        os.close(full)
    report, third = path.read_text().splitlines()
    assert json.loads(report)["lines"] == 2
    assert third == "third"


PROGRAM = """
import logging, pathlib, sys
from tgpu.observe.logs import configure, logger
configure("info")
print("a line")
print("a line", file=sys.stderr, flush=True)
logger("test").info("something happened")
logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
sys.stdout.flush()
pathlib.Path(sys.argv[1]).touch()
"""


@pytest.mark.parametrize("where", [">/dev/full 2>&1", ">&- 2>&-"])
def test_process_whose_output_cannot_be_written_goes_on(where: str, tmp_path: Path) -> None:
    line = f'exec "{sys.executable}" -c "$PROGRAM" {tmp_path}/reached {where}'
    environ = {**os.environ, "PROGRAM": PROGRAM}
    done = subprocess.run(["sh", "-c", line], env=environ, check=False, timeout=60)
    assert (tmp_path / "reached").exists()
    assert done.returncode == 0


def _passes(limit: RepetitionLimit, **fields: object) -> dict[str, object] | None:
    try:
        return dict(limit(None, "info", fields))
    except structlog.DropEvent:
        return None


def test_repeated_line_is_limited_and_the_next_one_says_how_many_are_missing() -> None:
    now = 0.0
    limit = RepetitionLimit(lambda: now)
    passed = [_passes(limit, part="api", event="bad request", number=n) for n in range(PER_WINDOW + 7)]
    assert sum(each is not None for each in passed) == PER_WINDOW
    assert _passes(limit, part="api", event="another") is not None
    now = WINDOW_S
    again = _passes(limit, part="api", event="bad request")
    assert again is not None
    assert again["suppressed"] == 7


def test_library_message_is_recognised_by_its_template() -> None:
    limit = RepetitionLimit(lambda: 0.0)
    passed = [
        _passes(limit, part="lib", event=f"peer {n} failed", **{KEY: "peer %s failed"}) for n in range(500)
    ]
    assert sum(each is not None for each in passed) == PER_WINDOW
    assert passed[0] == {"part": "lib", "event": "peer 0 failed"}


def test_memory_of_the_limit_is_bounded() -> None:
    limit = RepetitionLimit(lambda: 0.0)
    for number in range(3 * MOST_KEYS):
        _passes(limit, part="x", event=str(number))
    assert len(limit._windows) <= MOST_KEYS
