"""`tgpu promote` on a living installation: jobs run through it, and the cluster is the same afterwards."""

import json
from functools import partial

import pytest

from tests.end_to_end.whole_tgpu import Installation, after
from tests.postgres_server import PostgresServer, postgres, postgres_url

__all__ = ["postgres", "postgres_url"]


@pytest.mark.timeout(180)
def test_jobs_run_through_a_promotion_and_are_recorded(up: Installation, postgres_url: str) -> None:
    ended = up.submit("--", "true")
    up.wait_status(ended, "completed")
    # One ends while no server is there, the other afterwards.
    short = up.submit("--gpus", "1", "--", "sh", "-c", "sleep 4; echo short")
    gate = up.files / "gate"
    long = up.submit("--gpus", "1", *after(gate, "echo long"))
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
    gate.touch()
    for job, text in ((short, "short\n"), (long, "long\n")):
        up.wait_status(job, "completed", within_s=60)
        assert len(up.show(job)["attempts"]) == 1
        # Its agent may be about to come back once more: then the answer is to try again shortly.
        logs = partial(up.tgpu, "logs", str(job), check=False)
        up.wait_until(lambda logs=logs: logs().returncode == 0, "its output is there")
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
    (up.home / "tgpu.toml").chmod(0o600)
    up.up()
    assert up.show(job)["status"] == "completed"
    refused = up.tgpu("backup", str(up.files / "copy"), check=False)
    assert (refused.returncode, "pg_dump" in refused.stderr) == (6, True)
    again = up.tgpu("promote", "--to", postgres_url).stdout
    assert (
        again == "Nothing was done: this installation keeps its facts there already: nothing is left to do.\n"
    )
    refused = up.tgpu("promote", "--to", "postgresql://u@127.0.0.1:1/x", check=False)
    assert (refused.returncode, "in a database already" in refused.stderr) == (6, True)


def server_pid(installed: Installation) -> str:
    return (installed.home / "run" / "server.pid").read_text()


@pytest.mark.timeout(180)
def test_a_second_promotion_leaves_the_server_alone_and_doctor_asks_for_the_setting(
    up: Installation, postgres_url: str
) -> None:
    up.tgpu("promote", "--to", postgres_url, "--stop")
    pid = server_pid(up)
    again = up.tgpu("promote", "--to", postgres_url, "--stop")
    assert "nothing is left to move" in again.stdout
    assert "Every server needs this line in its settings" in again.stdout
    assert "stopping the server" not in again.stderr
    assert server_pid(up) == pid
    assert up.submit("--", "true") == 1

    def said_of_database() -> dict[str, str]:
        found = json.loads(up.tgpu("doctor", "--json", check=False).stdout)
        (finding,) = (each for each in found if each["name"] == "database")
        return finding  # type: ignore[no-any-return]

    runs = said_of_database()
    assert (runs["level"], 'store = "postgresql://tgpu@127.0.0.1:' in runs["advice"]) == ("warn", True)
    up.tgpu("down")
    stands = said_of_database()
    assert (stands["level"], 'store = "postgresql://tgpu@127.0.0.1:' in stands["advice"]) == ("FAIL", True)


@pytest.mark.timeout(180)
def test_a_promotion_that_cannot_be_is_refused_before_anything_is_stopped(
    up: Installation, postgres: PostgresServer
) -> None:
    job = up.submit("--", "true")
    up.wait_status(job, "completed")
    pid = server_pid(up)
    foreign, used = postgres.new_database("template1"), postgres.new_database()
    postgres.execute("CREATE TABLE others (x int)", foreign)
    postgres.execute("INSERT INTO servers VALUES ('s', '', '', '', 0, 0)", used)
    for url, code, why in (
        ("mysql://127.0.0.1/x", 6, "begins with postgresql://"),
        ("postgresql://u@127.0.0.1:1/x", 3, "nothing was moved, and this installation goes on"),
        (postgres.url("nowhere"), 6, "nowhere"),
        (postgres.url(foreign), 6, "is the database of another program"),
        (postgres.url(used), 6, "is not empty"),
        (postgres.url(foreign, user="stranger"), 6, "stranger"),
    ):
        refused = up.tgpu("promote", "--to", url, "--stop", check=False)
        assert (refused.returncode, why in refused.stderr) == (code, True), (url, refused.stderr)
        assert "stopping" not in refused.stderr
        assert "when it is back" not in refused.stderr
    assert server_pid(up) == pid
    assert up.show(job)["status"] == "completed"
    for name in (foreign, used):
        postgres.drop(name)
