"""Starting and stopping: one at a time, clear words, and running jobs run on."""

import signal
import socket
import sqlite3
import subprocess

from tests.end_to_end.whole_tgpu import TGPU, Installation


def in_the_foreground(installation: Installation) -> tuple["subprocess.Popen[str]", str]:
    """Started, and all it said to introduce itself. Whoever runs these tests in the background of a script
    ignores Ctrl-C; a terminal does not."""
    process = subprocess.Popen(
        ["env", "--default-signal=INT", TGPU, "up", "--simulate-gpus", "2"],
        env=installation.environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    while "why it waits" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return process, said


def test_a_second_up_is_refused_and_changes_nothing(shared: Installation) -> None:
    pid = shared.pid("server")
    again = shared.tgpu("up", "--detach", check=False)
    assert again.returncode == 1
    assert "already runs" in again.stderr
    assert "tgpu down" in again.stderr
    assert again.stderr.count("\n") == 1
    assert shared.pid("server") == pid


def test_down_leaves_running_jobs_running_and_up_finds_them(up: Installation) -> None:
    job_id = up.submit("--", "sh", "-c", "sleep 2; exit 4")
    up.wait_status(job_id, "running")
    up.tgpu("down")
    assert up.pid("server") is None
    assert up.pid("agent") is None
    up.up()
    assert up.wait_status(job_id, "failed")["exit_code"] == 4


def test_down_needs_no_settings_that_can_be_read(up: Installation) -> None:
    (up.home / "tgpu.toml").write_text("this is [not TOML")
    up.tgpu("down")
    assert (up.pid("server"), up.pid("agent")) == (None, None)
    (up.home / "tgpu.toml").unlink()


def test_down_without_up_says_so(installation: Installation) -> None:
    done = installation.tgpu("down", check=False)
    assert done.returncode == 1
    assert "nothing runs" in done.stderr


def test_in_the_foreground_it_introduces_itself_and_ctrl_c_leaves_jobs_running(
    installation: Installation,
) -> None:
    process, said = in_the_foreground(installation)
    assert str(installation.home / "run" / "tgpu.sock") in said
    assert "http://127.0.0.1:" in said
    assert "serves" in said
    job_id = installation.submit("--", "sh", "-c", "sleep 2; exit 5")
    installation.wait_status(job_id, "running")
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "run on" in rest
    assert installation.pid("server") is None
    installation.up()
    assert installation.wait_status(job_id, "failed")["exit_code"] == 5


def test_in_the_foreground_a_killed_part_comes_back(installation: Installation) -> None:
    process, _ = in_the_foreground(installation)
    for part in ("server", "agent"):
        installation.kill(part)
        installation.wait_until(lambda part=part: installation.pid(part) is not None, f"{part} is back")
    installation.wait_until(
        lambda: installation.tgpu("run", "--", "true", check=False).returncode == 0, "works again"
    )
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_socket_path_that_is_too_long_is_refused_with_advice(installation: Installation) -> None:
    installation.environ["TGPU_HOME"] = str(installation.home / ("x" * 100))
    done = installation.tgpu("up", "--detach", check=False)
    assert done.returncode != 0
    assert "TGPU_HOME" in done.stderr
    assert "shorter" in done.stderr


def test_a_password_that_others_can_read_is_refused(installation: Installation) -> None:
    file = installation.home.parent / "settings.toml"
    file.write_text('store = "postgresql://tgpu:secret@127.0.0.1:1/tgpu"\n')
    installation.environ |= {"TGPU_CONFIG": str(file), "TGPU_LISTEN": "0.0.0.0:0"}
    for mode, beware in ((0o644, True), (0o600, False)):
        file.chmod(mode)
        done = installation.tgpu("up", "--detach", check=False)
        assert (f"can be read by other users: chmod 600 {file}" in done.stderr) == beware
        assert ("needs TLS" in done.stderr) != beware, "it need not start for that"
        assert "secret" not in done.stderr


def test_a_corrupt_database_is_refused_and_left_alone(up: Installation) -> None:
    up.tgpu("down")
    database = up.home / "tgpu.db"
    for name in ("tgpu.db-wal", "tgpu.db-shm"):
        (up.home / name).unlink(missing_ok=True)
    database.write_bytes(b"this is not a database" * 1000)
    done = up.tgpu("up", "--detach", check=False)
    assert done.returncode == 1
    assert str(database) in done.stderr
    assert done.stderr.count("\n") == 1
    assert database.read_bytes().startswith(b"this is not")


def test_a_database_of_a_newer_version_is_refused(up: Installation) -> None:
    up.tgpu("down")
    with sqlite3.connect(up.home / "tgpu.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("UPDATE compatibility SET oldest_server = '9999'")
    done = up.tgpu("up", "--detach", check=False)
    assert done.returncode == 1
    assert "newer" in done.stderr


def test_two_homes_do_not_disturb_each_other(up: Installation) -> None:
    other = Installation(up.home.parent / "other")
    other.up()
    mine = up.submit("--name", "mine", "--", "sleep", "60")
    assert [job["job_id"] for job in other.json("list")] == []
    other.tgpu("down")
    up.wait_status(mine, "running")


def test_after_a_crash_the_same_flags_hold_and_after_a_clean_stop_they_do_not(up: Installation) -> None:
    waiting = up.sleeper("--gpus", "8")
    up.wait_status(waiting, "running")
    up.kill("agent", "server")
    said = up.tgpu("up", "--detach").stdout
    assert "1 task runs on: taking up simulate_gpus = 8" in said
    assert up.json("nodes")[0]["gpu_total"] == 8
    up.tgpu("cancel", str(waiting))
    up.wait_status(waiting, "cancelled")
    up.kill("agent", "server")
    assert "It was killed last time: taking up simulate_gpus = 8" in up.tgpu("up", "--detach").stdout
    up.tgpu("down")
    up.tgpu("up", "--detach")
    assert up.json("nodes")[0]["gpu_total"] == 0


def test_a_clean_stop_leaves_no_pid_and_no_socket_behind(up: Installation) -> None:
    up.tgpu("down")
    run = up.home / "run"
    assert [path.name for path in run.iterdir() if path.is_socket()] == []
    assert [path.read_text() for path in run.glob("*.pid")] == ["", ""]


def test_a_job_finds_the_server_that_runs_it(shared: Installation) -> None:
    job_id = shared.submit("--", TGPU, "list", "--json")
    shared.wait_status(job_id, "completed", "failed")
    assert f'"job_id": {job_id}' in shared.tgpu("logs", str(job_id)).stdout


def test_flags_with_which_nothing_came_up_are_not_taken_up_again(installation: Installation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        failed = installation.tgpu("up", "--detach", "--listen", listen, check=False)
        assert failed.returncode == 1
        assert "choose another address or port" in failed.stderr
        run = installation.home / "run"
        assert [path.name for path in run.iterdir() if path.is_socket()] == []
        assert (run / "server.pid").read_text() == ""
        said = installation.tgpu("up", "--detach").stdout
    assert "again" not in said
    beyond = installation.tgpu("up", "--detach", "--listen", "0.0.0.0:1", check=False)
    assert beyond.returncode == 1
