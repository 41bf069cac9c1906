"""Backups of a living installation, and what happens to what runs when an old one is put back."""

import json
import time
from pathlib import Path

import pytest

from tests.end_to_end.whole_tgpu import Installation


def beats(file: Path) -> int:
    """How often the task that writes there has done so."""
    return len(file.read_text().splitlines()) if file.exists() else 0


def beating(file: Path, seconds: int = 300) -> list[str]:
    return ["--", "sh", "-c", f"for i in $(seq {5 * seconds}); do echo $$ >> {file}; sleep 0.2; done"]


@pytest.mark.timeout(180)
def test_after_a_restore_nothing_runs_twice_and_nothing_is_lost_silently(up: Installation) -> None:
    adopted, waiting, younger = (up.files / name for name in ("adopted", "waiting", "younger"))
    runs = up.submit("--gpus", "1", *beating(adopted))
    blocker = up.submit("--gpus", "7", "--no-requeue", "--", "sleep", "300")
    up.wait_status(blocker, "running")
    waits = up.submit("--gpus", "7", *beating(waiting))
    copy = up.files / "copy.db"
    assert json.loads(up.tgpu("backup", "--json", str(copy)).stdout)["jobs"] == 3
    assert up.tgpu("backup", str(copy), check=False).returncode == 6

    up.tgpu("cancel", str(blocker))
    up.wait_status(waits, "running")
    new = up.submit(*beating(younger))
    up.wait_status(new, "running")
    up.wait_until(lambda: beats(waiting) > 2 and beats(younger) > 2, "all run")
    up.tgpu("down")
    refused = up.tgpu("restore", "--database", check=False)
    assert refused.returncode == 6
    said = json.loads(up.tgpu("restore", "--json", str(copy)).stdout)
    assert (said["forgotten"], said["changed"]) == ([new], [blocker, waits])
    assert beats(younger) > 2, "what runs, runs on until the server decides"
    up.up()

    # What the backup knew to run is adopted, in the same process.
    up.wait_status(runs, "running")
    assert len(set(adopted.read_text().split())) == 1
    # What it knew to wait was stopped where it ran before it is started anew, under a name of its own.
    up.wait_status(waits, "running", within_s=60)
    first, second = dict.fromkeys(waiting.read_text().split())
    lines = waiting.read_text().split()
    assert lines == [first] * lines.count(first) + [second] * lines.count(second)
    assert [attempt["number"] for attempt in up.show(waits)["attempts"]] == [2]
    # What it knew to run, and has ended since, is not said to run.
    assert up.show(blocker)["reason"].startswith("its node lost it: the node has no record of it")
    # What it did not know is stopped and unknown; its id means nobody else.
    stopped = beats(younger)
    time.sleep(1)
    assert beats(younger) == stopped
    assert up.tgpu("show", str(new), check=False).returncode == 4
    assert up.submit("--", "true") == new + 1
    assert "does not know these attempts: they are stopped" in (up.home / "run" / "server.log").read_text()


def test_a_backup_cannot_be_put_back_under_a_running_server(up: Installation) -> None:
    copy = up.files / "copy.db"
    up.tgpu("backup", str(copy))
    refused = up.tgpu("restore", str(copy), check=False)
    assert refused.returncode == 6
    assert "is in use by the server with process id" in refused.stderr
    assert up.tgpu("restore", check=False).returncode == 2
