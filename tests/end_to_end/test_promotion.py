"""`tgpu promote` on a living installation: jobs run through it, and the cluster is the same afterwards."""

import json

import pytest

from tests.end_to_end.whole_tgpu import Installation
from tests.postgres_server import postgres, postgres_url

__all__ = ["postgres", "postgres_url"]


@pytest.mark.timeout(180)
def test_jobs_run_through_a_promotion_and_are_recorded(up: Installation, postgres_url: str) -> None:
    ended = up.submit("--", "true")
    up.wait_status(ended, "completed")
    # One ends while no server is there, the other afterwards.
    short = up.submit("--gpus", "1", "--", "sh", "-c", "sleep 4; echo short")
    long = up.submit("--gpus", "1", "--", "sh", "-c", "sleep 25; echo long")
    waiting = up.submit("--gpus", "7", "--", "true")
    for job in (short, long):
        up.wait_status(job, "running")
    refused = up.tgpu("promote", "--to", postgres_url, check=False)
    assert refused.returncode == 6
    assert "the server runs (pid" in refused.stderr
    attempt = up.show(long)["attempts"]
    said = json.loads(up.tgpu("promote", "--to", postgres_url, "--stop", "--json").stdout)
    assert (said["rows"]["jobs"], said["server_started"]) == (4, True)
    assert said["setting"].startswith('store = "postgresql://tgpu:PASSWORD@127.0.0.1:')
    assert up.show(ended)["status"] == "completed"
    for job, text in ((short, "short\n"), (long, "long\n")):
        up.wait_status(job, "completed", within_s=60)
        assert len(up.show(job)["attempts"]) == 1
        assert up.tgpu("logs", str(job)).stdout == text
    assert up.show(long)["attempts"][0]["started_at"] == attempt[0]["started_at"]
    up.wait_status(waiting, "completed")
    assert up.submit("--", "true") == waiting + 1


@pytest.mark.timeout(180)
def test_the_old_file_is_refused_until_the_settings_name_the_database(
    up: Installation, postgres_url: str
) -> None:
    job = up.submit("--", "true")
    up.wait_status(job, "completed")
    up.tgpu("down")
    assert "Moved to postgresql://tgpu@127.0.0.1:" in up.tgpu("promote", "--to", postgres_url).stdout
    refused = up.tgpu("up", "--detach", "--simulate-gpus", "8", check=False)
    assert refused.returncode == 1
    assert "tgpu.db was promoted to postgresql://tgpu@127.0.0.1:" in refused.stderr
    (up.home / "tgpu.toml").write_text(f'store = "{postgres_url}"\n')
    up.up()
    assert up.show(job)["status"] == "completed"
    refused = up.tgpu("backup", str(up.files / "copy"), check=False)
    assert (refused.returncode, "pg_dump" in refused.stderr) == (6, True)
    assert up.tgpu("promote", "--to", postgres_url, check=False).returncode == 6


def test_a_database_that_is_not_there_moves_nothing(up: Installation) -> None:
    job = up.submit("--", "true")
    up.wait_status(job, "completed")
    done = up.tgpu("promote", "--to", "postgresql://u@127.0.0.1:1/x", "--stop", check=False)
    assert done.returncode == 3
    assert "starting the server on its file again" in done.stderr
    assert up.show(job)["status"] == "completed"
