"""Inside a running job: programs beside it, and a terminal of its own, with real terminals at both ends."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.at_terminal import DETACH, at_terminal
from tests.end_to_end.unix_users import USERS, accounts, as_user
from tests.end_to_end.whole_tgpu import TGPU, Installation
from tgpu.client import Client
from tgpu.client.terminal import Over, Terminal

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")


@pytest.fixture
def job(shared: Installation) -> int:
    job_id = shared.sleeper("--gpus", "2", "--env", "COLOUR=blue")
    shared.wait_status(job_id, "running")
    return job_id


def run_inside(
    installation: Installation, job_id: int, *words: str, **options: object
) -> subprocess.CompletedProcess[str]:
    return installation.tgpu("exec", str(job_id), "--", *words, check=False, **options)


def test_a_program_runs_with_what_the_job_has_and_its_exit_code_comes_back(
    shared: Installation, job: int
) -> None:
    done = run_inside(
        shared,
        job,
        "sh",
        "-c",
        "pwd; echo $COLOUR $CUDA_VISIBLE_DEVICES; echo oh >&2; cat; exit 5",
        input="typed\n",
    )
    devices = ",".join(map(str, shared.show(job)["devices"]))
    assert done.stdout == f"{shared.files}\nblue {devices}\ntyped\n"
    assert (done.stderr, done.returncode) == ("oh\n", 5)
    assert run_inside(shared, job, "sh", "-c", "kill -TERM $$").returncode == 143
    assert shared.tgpu("logs", str(job)).stdout == ""


def test_at_a_terminal_it_has_one_of_the_same_size(shared: Installation, job: int) -> None:
    with at_terminal(shared, "exec", f"{job}.0", "--", "bash", "--norc", rows=33, cols=91) as person:
        person.type(b"stty size; echo $TERM\n")
        person.until(b"33 91\r\nxterm\r\n")
        person.resize(40, 70)
        person.type(b"sleep 0.3; stty size\n")
        person.until(b"40 70\r\n")
        person.type(b"sleep 100\n")
        time.sleep(0.3)
        person.type(b"\x03")
        person.type(b"echo code $?; exit 9\n")
        person.until(b"code 130\r\n")
        assert person.ends() == 9
    assert shared.status(job) == "running"


def test_much_goes_through_whole_and_what_nobody_reads_is_not_kept(shared: Installation, job: int) -> None:
    done = subprocess.run(
        [TGPU, "exec", str(job), "--", "sh", "-c", "tee /dev/null | sha256sum"],
        env=shared.environ, input=b"x" * 3_000_000, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    direct = subprocess.run(["sha256sum"], input=b"x" * 3_000_000, capture_output=True, check=True)
    assert done.stdout == direct.stdout
    with (
        shared.client() as client,
        Terminal(client.session, job, ["sh", "-c", "echo $$; cat /dev/zero"]) as shell,
    ):
        first = next(shell.hear())
        pid = int(first.data.split(b"\n")[0])
        time.sleep(1)
        written = Path(f"/proc/{pid}/io").read_text()
        time.sleep(0.5)
        assert Path(f"/proc/{pid}/io").read_text() == written, "it waits for who does not read"
    shared.wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the program went with its user")


def test_what_cannot_be_done_says_why(shared: Installation, job: int) -> None:
    done = run_inside(shared, job, "nonsense")
    assert (done.returncode, done.stderr) == (127, "tgpu: nonsense: command not found\n")
    done = shared.tgpu("attach", str(job), check=False)
    assert done.returncode == 6
    assert "its stdin is /dev/null" in done.stderr
    done = shared.tgpu("exec", f"{job}.7", "--", "true", check=False)
    assert (done.returncode, done.stderr) == (4, f"tgpu: job {job} has no task 7; its last is 0\n")
    done = shared.tgpu("exec", f"{job}.0.9", "--", "true", check=False)
    assert (done.returncode, "has no attempt 9" in done.stderr) == (4, True)
    waiting = shared.sleeper("--gpus", "8")
    done = run_inside(shared, waiting, "true")
    assert (done.returncode, f"`tgpu why {waiting}`" in done.stderr) == (6, True)
    shared.tgpu("cancel", "--now", str(job), str(waiting))
    shared.wait_status(job, "cancelled")
    done = run_inside(shared, job, "true")
    assert (done.returncode, "is over" in done.stderr) == (6, True)
    assert run_inside(shared, 9999, "true").returncode == 4


def test_who_is_inside_goes_when_the_job_goes(shared: Installation, job: int) -> None:
    with at_terminal(
        shared, "exec", str(job), "--", "sh", "-c", "trap '' HUP TERM; echo up $$; sleep 100; sleep 100"
    ) as person:
        person.until(b"up ")
        pid = int(person.seen.split()[0]) if person.seen.endswith(b"\n") else None
        shared.tgpu("cancel", "--now", str(job))
        assert person.ends() in (1, 137)
    shared.wait_status(job, "cancelled")
    assert pid is None or not Path(f"/proc/{pid}").exists()


@root_only
def test_it_is_within_the_jobs_own_memory_limit(shared: Installation) -> None:
    job_id = shared.sleeper("--memory", "64M")
    shared.wait_status(job_id, "running")
    own = run_inside(shared, job_id, "cat", "/proc/self/cgroup").stdout
    assert f"/{job_id}.0.1" in own
    hungry = "x = bytearray(300 << 20); x[::4096] = b'1' * len(x[::4096])"
    done = run_inside(shared, job_id, "python3", "-c", hungry)
    assert done.returncode in (1, 137)


@root_only
def test_only_its_user_and_administrators_come_in_and_all_of_it_is_noted(shared: Installation) -> None:
    with accounts():
        client = shared.client()
        job = as_user(USERS[0], lambda: client.submit("sleep 100", cwd="/tmp"))["job_id"]
        shared.wait_status(job, "running")

        def who() -> str:
            with Terminal(client.session, job, ["id", "-un"]) as shell:
                said = b""
                while True:
                    for piece in shell.hear():
                        if isinstance(piece, Over):
                            return said.decode().strip()
                        said += piece.data

        assert as_user(USERS[0], who) == USERS[0]
        assert who() == USERS[0], "an administrator is inside as the job's user"
        refused = as_user(USERS[1], who)
        assert (refused["refused"], USERS[0] in refused["detail"]) == (403, True)
        lines = [
            line for line in shared.json("audit", "--action", "job.enter") if line["target"] == f"job/{job}"
        ]
        assert {line["user_id"] for line in lines} == {USERS[0], "root"}
        assert lines[0]["after"] == {"attempt": f"{job}.0.1", "command": "id -un", "user": USERS[0]}
        client.cancel(job, now=True)
        shared.wait_status(job, "cancelled")


def test_a_revoked_token_ends_it_within_seconds(shared: Installation, job: int) -> None:
    token = shared.json("token", "create", "--actions", "read,enter")
    address = (shared.home / "run" / "address").read_text().strip()
    remote = {"TGPU_SERVER": address, "TGPU_TOKEN": token["token"]}
    environ = {**shared.environ, **remote}
    person = subprocess.Popen(
        [TGPU, "exec", str(job), "--", "sh", "-c", "echo up; sleep 100"],
        env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert person.stdout is not None
    assert person.stdout.readline() == "up\n"
    shared.tgpu("token", "revoke", str(token["token_id"]))
    said = person.communicate(timeout=60)[1]
    assert (person.returncode, "you may not be here any more" in said) == (1, True)
    narrow = shared.json("token", "create", "--actions", "read,logs")["token"]
    done = subprocess.run(
        [TGPU, "exec", str(job), "--", "true"],
        env={**environ, "TGPU_TOKEN": narrow}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "good for enter" in done.stderr) == (5, True)


# A job with a terminal of its own


@pytest.fixture
def home_alone(up: Installation) -> Iterator[Installation]:
    yield up
    up.tgpu("cancel", "--now", "all", check=False)


def test_a_job_with_a_terminal_is_left_and_come_back_to_through_restarts(home_alone: Installation) -> None:
    up = home_alone
    with at_terminal(up, "run", "--pty", "--", "bash", "--norc", rows=31, cols=97) as person:
        person.type(b"stty size; echo job $TGPU_JOB_ID\n")
        person.until(b"31 97\r\njob ")
        person.type(b"sleep 100\n")
        time.sleep(0.3)
        person.type(b"\x03echo was $?\n")
        person.until(b"was 130\r\n")
        person.type(DETACH)
        assert person.ends() == 0
        assert b"runs on: `tgpu attach 1` comes back to it" in person.seen
    with (
        at_terminal(up, "attach", "1", rows=20, cols=60) as person,
        at_terminal(up, "attach", "last") as other,
    ):
        person.until(b"was 130\r\n")
        other.until(b"was 130\r\n")
        person.type(b"echo before $((1+1))\n")
        for one in (person, other):
            one.until(b"before 2\r\n")
        other.close_window()
        up.kill("agent", "server")
        up.up()
        up.wait_until(lambda: up.status(1) == "running", "the job runs on")
        time.sleep(1)
        person.type(b"\n")
        person.until(b"before 2\r\n", 30)
        person.type(b"echo after $((2+2)); exit 7\n")
        person.until(b"after 4\r\n")
        assert person.ends() == 7
    assert up.wait_status(1, "failed")["exit_code"] == 7
    assert "after 4" in up.tgpu("logs", "1").stdout


def test_a_closed_window_leaves_the_job_and_other_keys_may_be_chosen(shared: Installation) -> None:
    with at_terminal(shared, "run", "--pty", "--detach-keys", "ctrl-x,x", "--", "cat") as person:
        person.type(b"one\n")
        person.until(b"one\r\none\r\n")
        person.close_window()
        shared.wait_until(
            lambda: not Path(f"/proc/{person.pid}").exists() or _is_zombie(person.pid), "it left"
        )
    job_id = shared.json("list")[0]["job_id"]
    assert shared.status(job_id) == "running"
    with at_terminal(shared, "attach", "--detach-keys", "ctrl-x,x", str(job_id)) as person:
        person.until(b"one\r\n")
        person.type(b"\x10\x11\x18y\x18x")
        assert person.ends() == 0
    with at_terminal(shared, "attach", str(job_id)) as person:
        person.until(b"one\r\n")
        person.type(b"\n\x04")
        assert person.ends() == 0, "the job's own exit code"
    shared.wait_status(job_id, "completed")


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_sigterm_leaves_the_job_and_says_so(shared: Installation) -> None:
    with at_terminal(shared, "run", "--pty", "--", "sh", "-c", "echo up; sleep 100") as person:
        person.until(b"up\r\n")
        os.kill(person.pid, signal.SIGTERM)
        assert person.ends() == 143
        assert b"runs on" in person.seen


def test_what_comes_by_a_pipe_is_typed_and_its_end_too(shared: Installation) -> None:
    done = shared.tgpu("run", "--pty", "--", "bash", "--norc", input="echo a$((1+1)); exit 5\n", check=False)
    assert "a2\n" in done.stdout.replace("\r", "")
    assert done.returncode == 5
    ended = shared.tgpu("run", "--pty", "--", "sh", "-c", "cat; echo its end", input="one\n")
    assert "its end" in ended.stdout


def test_job_of_a_narrow_token_makes_no_wider_one_over_the_socket(shared: Installation) -> None:
    token = shared.tgpu("token", "create", "-q", "--actions", "read,submit").stdout.strip()
    script = f"export TGPU_HOME={shared.home}; setsid {TGPU} token create -q; {TGPU} list -q; true"
    with Client(f"unix://{shared.home}/run/tgpu.sock", token=token) as narrow:
        job_id = narrow.submit(["sh", "-c", script], cwd=str(shared.files))["job_id"]
    shared.wait_status(job_id, "completed", within_s=60)
    said = shared.tgpu("logs", str(job_id))
    assert f"the key of job {job_id} is good only for read, submit" in said.stdout + said.stderr
    assert str(job_id) in said.stdout.split(), "it may still read"
