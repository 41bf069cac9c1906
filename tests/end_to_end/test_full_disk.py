"""A whole installation on a disk that fills up, whose log lines cannot be written either."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.whole_tgpu import TGPU, Installation
from tests.small_disk import SmallDisk, mounted, needs_root

LONG_S = 90.0
RESERVED = 900_000  # bytes


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    yield from mounted(tmp_path / "disk", "16m")


@pytest.fixture
def speechless(disk: SmallDisk) -> Iterator[Installation]:
    """Server and agent whose output goes to /dev/full."""
    one = Installation(disk.path / "home")
    one.environ |= {"TGPU_SIMULATE_GPUS": "8", "TGPU_PRIVATE_TMP": "off"}
    with Path("/dev/full").open("wb") as full:
        parts = [
            subprocess.Popen([TGPU, part], env=one.environ, stdout=full, stderr=full, cwd="/")
            for part in ("server", "agent")
        ]
    try:
        one.wait_until((one.home / "run" / "tgpu.sock").exists, "a server", LONG_S)
        yield one
        assert [part.poll() for part in parts] == [None, None], "both live on"
    finally:
        one.remove()
        for part in parts:
            part.wait()


@needs_root
def test_installation_on_a_full_disk_loses_nothing_and_recovers_by_itself(
    speechless: Installation, disk: SmallDisk
) -> None:
    one = speechless
    gate = one.files / "gate"
    ends = one.submit("--", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done; exit 9")
    sleeper = one.sleeper()
    for job_id in (ends, sleeper):
        one.wait_status(job_id, "running", within_s=LONG_S)
    one.wait_until(lambda: _reserve(one.home / "tgpu.db-wal") > RESERVED, "a reserve", LONG_S)
    disk.fill()
    one.wait_until(lambda: bool(_node(one)["disk_shortage"]), "the node says so", LONG_S)
    refused = one.tgpu("submit", "--", "true", check=False)
    assert refused.returncode == 3
    assert "disk_reserve" in refused.stderr
    assert refused.stderr.count("\n") == 1
    gate.touch()
    assert one.wait_status(ends, "failed", within_s=LONG_S)["exit_code"] == 9
    one.tgpu("cancel", str(sleeper))
    one.wait_status(sleeper, "cancelled", within_s=LONG_S)
    disk.empty()
    one.wait_until(lambda: not _node(one)["disk_shortage"], "the node is back", LONG_S)
    one.wait_until(
        lambda: one.tgpu("submit", "--", "true", check=False).returncode == 0, "it submits", LONG_S
    )
    one.wait_status(sleeper + 1, "completed", within_s=LONG_S)
    assert len(one.json("list", "--all")) == 3


def _reserve(path: Path) -> int:
    found = path.stat()
    return found.st_blocks * 512 - found.st_size


def _node(one: Installation) -> dict[str, object]:
    with one.client() as client:
        (node,) = client.nodes()
    return dict(node)
