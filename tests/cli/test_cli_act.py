"""Commands that act and wait: cancel, wait, logs, run."""

import json
import os
import pty
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fake_tgpu import FakeTgpu, Refusal, a_job, an_attempt

from tests.cli.cli_process import TGPU, Tgpu
from tgpu.cli.commands import wait

STARTED = {"status": "running", "started_at": "2026-01-31T12:00:01.000Z", "attempts": [an_attempt()]}


def ended(**attempt: Any) -> dict[str, Any]:
    """A job's changes at its end."""
    status = "completed" if attempt.get("exit_code") == 0 else "failed"
    return {
        "status": status,
        "exit_code": attempt.get("exit_code"),
        "cause": attempt.get("cause", "exited"),
        "reason": attempt.get("reason"),
        "attempts": [an_attempt(**{"cause": "exited", **attempt, "status": "ended"})],
    }


def later(seconds: float, action: Any) -> None:
    threading.Timer(seconds, action).start()


def test_cancelling_says_what_became_of_each(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1), 2: a_job(2, status="completed"), 3: a_job(3)}
    assert tgpu("cancel", "1").stdout == "Job 1 is being cancelled\n"
    assert server.asked("DELETE", "/jobs/1")
    several = tgpu("cancel", "1-3", "9")
    assert several.stdout == "Job 1 is being cancelled\nJob 3 is being cancelled\n"
    assert several.stderr == "tgpu: job 2 has already ended\ntgpu: job 9 does not exist\n"
    assert several.returncode == 4
    assert tgpu("cancel", "9").returncode == 4


def test_cancelling_now_says_so_to_the_server(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1), 2: a_job(2), 3: a_job(3)}
    done = tgpu("cancel", "--now", "1")
    assert done.stdout == "Job 1 is being cancelled\n", done.stderr
    assert server.asked("DELETE", "/jobs/1")[-1]["query"] == {"now": "true"}
    tgpu("cancel", "2-3", "--now")
    assert server.asked("POST", "/jobs/cancel")[-1]["body"] == {"job_ids": [2, 3], "now": True}


def test_cancelling_all_of_nothing_is_no_error(server: FakeTgpu, tgpu: Tgpu) -> None:
    assert server.running
    done = tgpu("cancel", "all")
    assert (done.returncode, done.stderr) == (0, "tgpu: you have no jobs that wait or run\n")


def test_a_long_queue_is_cancelled_page_by_page_and_counted(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {n: a_job(n) for n in range(1, 2501)} | {2501: a_job(2501, user_id="bob")}
    done = tgpu("cancel", "all")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2,500 jobs are being cancelled\n", "")
    assert [request["method"] for request in server.requests] == ["GET", "POST"] * 3
    ids = [request["body"]["job_ids"] for request in server.asked("POST", "/jobs/cancel")]
    assert [(part[0], part[-1]) for part in ids] == [(2500, 1501), (1500, 501), (500, 1)]
    few = tgpu("cancel", "all,2501,2500", "--json")
    assert json.loads(few.stdout)["cancelling"][:2] == [2501, 2500]
    assert len(json.loads(few.stdout)["cancelling"]) == 2501


def test_of_a_cancellation_that_breaks_off_it_is_told_how_far_it_came(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {n: a_job(n) for n in range(1, 1501)}
    cancel_many = server._cancel_many

    def once(ids: list[int]) -> dict[str, Any]:
        server.fixed["/jobs/cancel"] = Refusal(503, "the database is away", "store-unavailable")
        return cancel_many(ids)

    server._cancel_many = once  # type: ignore[method-assign]
    done = tgpu("cancel", "all")
    assert done.stderr == (
        "tgpu: 1,000 jobs are being cancelled; then it went wrong\ntgpu: the database is away\n"
    )
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (ended(exit_code=0), 0),
        (ended(exit_code=3), 3),
        (ended(cause="signalled", signal=11), 139),
        (ended(cause="out-of-memory", signal=9), 137),
        (ended(cause="time-limit", signal=15), 152),
        (ended(cause="disk-limit", signal=9), 153),
        (ended(cause="could-not-start", reason="it could not be started: No such file or directory"), 127),
        (ended(cause="could-not-start", reason="it could not be started: x: command not found"), 127),
        (ended(cause="could-not-start", reason="it could not be started: Permission denied"), 126),
        (ended(cause="node-lost"), 1),
        ({"status": "cancelled", "cause": "cancelled", "attempts": []}, 130),
    ],
)
def test_wait_ends_as_the_job_did(server: FakeTgpu, tgpu: Tgpu, end: dict[str, Any], code: int) -> None:
    server.jobs = {1: a_job(1, **end), 2: a_job(2, **ended(exit_code=0))}
    assert tgpu("wait", "1").returncode == code
    assert tgpu("wait", "1,2", "--quiet").returncode == code


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ({"status": "completed", "exit_code": 0, "reason": "exit code 0"}, 0, "completed"),
        (
            {"status": "failed", "cause": "exited", "exit_code": 7, "reason": "exit code 7"},
            7,
            "failed: exit code 7",
        ),
        (
            {"status": "failed", "cause": "signalled", "signal": 9, "reason": "killed by signal 9"},
            137,
            "failed: killed by signal 9",
        ),
    ],
)
def test_wait_for_one_task_ends_as_that_did(
    server: FakeTgpu, tgpu: Tgpu, *, end: dict[str, Any], code: int, said: str
) -> None:
    server.jobs = {1: a_job(1, **STARTED, array="0-9"), 2: a_job(2, **ended(exit_code=0))}
    running = {"task_id": "1.4", "status": "running", "reason": None}
    server.fixed["/jobs/1/tasks"] = {"tasks": [running], "next_cursor": None}

    def over() -> None:
        server.fixed["/jobs/1/tasks"] = {"tasks": [running | end], "next_cursor": None}
        server.change(1, "failed" if code else "succeeded")

    assert tgpu("wait", "1.4", "--timeout", "0.2s").stderr == "tgpu: not ended in time: 1.4\n"
    later(0.5, over)
    done = tgpu("wait", "1.4", "2")
    assert (done.returncode, done.stdout) == (code, f"Task 1.4 {said}\nJob 2 completed\n")
    assert server.asked("GET", "/jobs/1/tasks")[-1]["query"]["index"] == "4"


def test_waiting_for_many_counts_them_and_names_only_failures(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {n: a_job(n, **ended(exit_code=0)) for n in range(1, 31)}
    server.jobs[7] |= ended(exit_code=2, reason="exit code 2")
    done = tgpu("wait", "1-30")
    assert done.stdout == "Job 7 failed: exit code 2\n29 of 30 jobs completed\n"
    assert done.returncode == 2


def test_wait_survives_a_restart_of_the_server(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, **STARTED)}

    def restart() -> None:
        server.stop()
        time.sleep(0.3)
        server.start()
        later(0.3, lambda: server.change(1, "succeeded", **ended(exit_code=0)))

    later(0.5, restart)
    done = tgpu("wait", "1", "--json")
    assert (done.returncode, json.loads(done.stdout)["status"], done.stderr) == (0, "completed", "")


def test_wait_gives_up_with_124(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1)}
    done = tgpu("wait", "1", "--timeout", "1s")
    assert (done.returncode, done.stderr) == (124, "tgpu: not ended in time: 1\n")


@pytest.mark.parametrize("timeout", ["0.2s", "0.2", ".2"])
def test_wait_takes_parts_of_a_second(server: FakeTgpu, tgpu: Tgpu, timeout: str) -> None:
    server.jobs = {1: a_job(1)}
    assert tgpu("wait", "1", "--timeout", timeout).returncode == 124
    assert wait._timeout(timeout) == 0.2


@pytest.mark.parametrize("timeout", ["0.2x", "1.2.3", ".", "-0.5", "soon"])
def test_a_timeout_that_cannot_be_meant_is_refused(server: FakeTgpu, tgpu: Tgpu, timeout: str) -> None:
    assert server.running
    done = tgpu("wait", "1", f"--timeout={timeout}")
    assert (done.returncode, "must be a duration such as 90s" in done.stderr) == (2, True)


@pytest.mark.parametrize("flags", [[], ["--follow"], ["--json"]])
def test_output_that_rotation_has_dropped_is_told_once_per_stream(
    server: FakeTgpu, tgpu: Tgpu, flags: list[str]
) -> None:
    server.jobs = {1: a_job(1, **ended(exit_code=0))}
    server.logs = {(1, "stdout"): b"x" * 2000 + b"kept\n", (1, "stderr"): b"y" * 2000}
    server.kept_from = 2000
    done = tgpu("logs", "1", *flags)
    assert "xx" not in done.stdout
    assert "kept" in done.stdout
    assert sorted(done.stderr.splitlines()) == [
        "tgpu: the first 2,000 bytes of stderr are no longer kept",
        "tgpu: the first 2,000 bytes of stdout are no longer kept",
    ]


def test_a_tail_does_not_ask_for_what_was_dropped(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, **ended(exit_code=0))}
    server.kept_from = 2000
    assert tgpu("logs", "1", "--tail", "3").stderr == ""


def test_logs_keep_stdout_and_stderr_apart(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, **ended(exit_code=0))}
    server.logs = {(1, "stdout"): b"out\n", (1, "stderr"): b"err\n"}
    both = tgpu("logs", "1")
    assert (both.stdout, both.stderr) == ("out\n", "err\n")
    one = tgpu("logs", "1", "--stderr", "--tail", "5", "--attempt", "1")
    assert (one.stdout, one.stderr) == ("", "err\n")
    query = server.asked("GET", "/jobs/1/logs")[-1]["query"]
    assert query == {"stream": "stderr", "tail": "5", "attempt": "1", "task": "0"}
    assert json.loads(tgpu("logs", "1", "--json").stdout) == {
        "job_id": 1,
        "stdout": "out\n",
        "stderr": "err\n",
    }
    assert tgpu("logs", "9").returncode == 4


def test_logs_follow_until_the_end(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, **STARTED)}
    server.logs = {(1, "stdout"): b"one\n", (1, "stderr"): b"oops\n"}

    def finish() -> None:
        server.logs[1, "stdout"] += b"two\n"
        server.change(1, "succeeded", **ended(exit_code=0))

    later(0.6, finish)
    done = tgpu("logs", "-f", "1")
    assert (done.stdout, done.stderr, done.returncode) == ("one\ntwo\n", "oops\n", 0)


def starts_and_ends(server: FakeTgpu, **attempt: Any) -> None:
    """Every submitted job runs at once and ends a little later."""

    def begin(job: dict[str, Any]) -> None:
        job_id = job["job_id"]
        server.logs = {(job_id, "stdout"): b"out\n", (job_id, "stderr"): b"err\n"}
        later(0.2, lambda: server.change(job_id, "started", **STARTED))
        later(0.5, lambda: server.change(job_id, "failed", **ended(**attempt)))

    server.on_submit = begin


def test_run_shows_the_output_and_ends_as_the_job(server: FakeTgpu, tgpu: Tgpu) -> None:
    starts_and_ends(server, exit_code=7, reason="exit code 7")
    done = tgpu("run", "--gpus", "1", "--", "python", "train.py")
    assert (done.stdout, done.returncode) == ("out\n", 7)
    assert done.stderr == "tgpu: job 1 submitted\nerr\ntgpu: job 1 failed: exit code 7\n"
    assert server.submitted()[0]["gpu_request"] == 1


def test_quiet_run_prints_only_the_output_of_the_job(server: FakeTgpu, tgpu: Tgpu) -> None:
    starts_and_ends(server, exit_code=0)
    done = tgpu("run", "-q", "hostname")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 0)


def test_run_without_a_terminal_prints_job_id_and_reason(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/jobs/1/why"] = {"job_id": 1, "waiting": True, "summary": "needs 2 GPUs", "position": 1}
    starts_and_ends(server, exit_code=0)
    lines = tgpu("run", "hostname").stderr.splitlines()
    assert lines == ["tgpu: job 1 submitted", "tgpu: job 1 pending · 1st in line · needs 2 GPUs", "err"]


def interrupted(server: FakeTgpu, environ: dict[str, str], times: int) -> tuple[int, str]:
    """`tgpu run` that gets Ctrl-C once or twice; its exit code and what it printed."""
    process = subprocess.Popen([*TGPU, "run", "--", "a"], env=environ, stderr=subprocess.PIPE, text=True)
    until_asked(server, "GET", "/jobs/1")
    process.send_signal(signal.SIGINT)
    until_asked(server, "DELETE", "/jobs/1")  # two signals at once could arrive as one
    if times == 1:
        server.change(1, "cancelled", status="cancelled", cause="cancelled", reason="cancelled by ann")
    else:
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def until_asked(server: FakeTgpu, method: str, path: str) -> None:
    deadline = time.monotonic() + 60
    while not server.asked(method, path):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_ctrl_c_cancels_the_job_and_waits_for_its_end(server: FakeTgpu, environ: dict[str, str]) -> None:
    code, said = interrupted(server, environ, times=1)
    assert server.asked("DELETE", "/jobs/1")
    assert (code, said.splitlines()) == (
        130,
        [
            "tgpu: job 1 submitted",
            "tgpu: cancelling job 1; Ctrl-C again leaves at once",
            "tgpu: job 1 cancelled by ann",
        ],
    )


def test_a_second_ctrl_c_leaves_at_once(server: FakeTgpu, environ: dict[str, str]) -> None:
    code, said = interrupted(server, environ, times=2)
    assert (code, said.partition("\n")[2]) == (130, "tgpu: cancelling job 1; Ctrl-C again leaves at once\n")


def test_sigterm_leaves_the_job_running_and_says_so(server: FakeTgpu, environ: dict[str, str]) -> None:
    process = subprocess.Popen([*TGPU, "run", "--", "a"], env=environ, stderr=subprocess.PIPE, text=True)
    until_asked(server, "GET", "/jobs/1")
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert said.partition("\n")[2] == "tgpu: terminated; job 1 runs on: `tgpu logs -f 1` shows it\n"
    assert process.returncode == 143
    assert not server.asked("DELETE", "/jobs/1")


def on_a_terminal(args: list[str], environ: dict[str, str], cwd: Path) -> str:
    """What a person would see: all three streams are one terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*TGPU, *args], env=environ, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    process.wait(timeout=60)
    os.close(ours)
    return seen.decode()


def test_a_terminal_sees_why_its_job_waits(server: FakeTgpu, environ: dict[str, str], tmp_path: Path) -> None:
    server.fixed["/jobs/1/why"] = {
        "job_id": 1,
        "waiting": True,
        "summary": "All GPUs are taken.",
        "position": 3,
    }
    starts_and_ends(server, exit_code=0)
    seen = on_a_terminal(["run", "--", "a"], environ | {"TERM": "xterm"}, tmp_path)
    assert "job 1 pending · 3rd in line · All GPUs are taken." in seen
    assert "out\r\n" in seen


def test_colour_is_for_terminals_without_no_color(
    server: FakeTgpu, environ: dict[str, str], tmp_path: Path, tgpu: Tgpu
) -> None:
    server.jobs = {1: a_job(1, name="n" * 200, reason="r" * 200)}
    seen = on_a_terminal(["list"], environ | {"TERM": "xterm", "COLUMNS": "90"}, tmp_path)
    plain = on_a_terminal(["list"], environ | {"TERM": "xterm", "COLUMNS": "90", "NO_COLOR": "1"}, tmp_path)
    assert "\x1b[33mpending" in seen
    assert "\x1b" not in plain
    assert "…" in plain
    assert max(len(line) for line in plain.splitlines()) <= 90
    assert "n" * 200 in tgpu("list").stdout


def test_nodes_with_windows_fit_the_terminal(
    server: FakeTgpu, environ: dict[str, str], tmp_path: Path
) -> None:
    windows = [
        {"window_id": n, "name": "", "tenant_id": None, "until": f"2030-01-31T1{n}:00:00.000Z"}
        for n in (1, 2)
    ]
    amounts = {"mem_total_mb": 257_000, "mem_allocated_mb": 1000, "cpu_total": 64, "gpu_total": 8}
    node = {
        "node_id": "machine-17",
        "status": "draining",
        "pool": "training",
        "drain": {"reason": "a new kernel, and new fans", "by": "ann"},
        "windows": windows,
        "generic_total": {"fpga": 2, "nvlink": 4},
        "labels": {"rack": "r7"},
    }
    server.fixed["/nodes"] = {"nodes": [node | amounts]}
    seen = on_a_terminal(["nodes"], environ | {"TERM": "dumb", "COLUMNS": "80"}, tmp_path)
    assert "maint" in seen
    assert max(len(line) for line in seen.splitlines()) <= 80


def test_a_terminal_sees_how_far_it_is_with_many_jobs(
    server: FakeTgpu, environ: dict[str, str], tmp_path: Path
) -> None:
    assert server.running
    command = ["submit", "--count", "10001", "--no-export-env", "--", "a"]
    seen = on_a_terminal(command, environ | {"TERM": "xterm"}, tmp_path)
    assert "submitted 10,000 of 10,001 jobs" in seen
    assert "Submitted 10,001 jobs: 1-10001" in seen
    cancelled = on_a_terminal(["cancel", "all"], environ | {"TERM": "xterm"}, tmp_path)
    assert "5,000 jobs are being cancelled" in cancelled
    assert cancelled.endswith("10,001 jobs are being cancelled\r\n")


def test_a_job_that_never_began_has_no_output_that_could_be_missing(server: FakeTgpu, tgpu: Tgpu) -> None:
    reason = "could not be started: there is no image bb:9"
    attempt = {"number": 1, "status": "failed", "started_at": None}
    server.jobs = {
        1: a_job(
            1, status="failed", cause="could-not-start", reason=reason, started_at=None, attempts=[attempt]
        )
    }
    done = tgpu("logs", "1")
    assert done.returncode == 0
    assert done.stderr == f"tgpu: job 1 has no output: it never began (failed: {reason})\n"


def test_run_of_one_that_never_began_says_only_why(server: FakeTgpu, tgpu: Tgpu) -> None:
    refused = an_attempt(status="ended", cause="could-not-start", started_at=None, exit_code=None)
    end = {
        "status": "failed",
        "cause": "could-not-start",
        "reason": "could not be started: there is no image bb:9",
        "attempts": [refused],
    }

    def begin(job: dict[str, Any]) -> None:
        later(0.2, lambda: server.change(job["job_id"], "failed", **end))

    server.on_submit = begin
    done = tgpu("run", "--image", "bb:9")
    assert done.stderr.splitlines() == [
        "tgpu: job 1 submitted",
        "tgpu: job 1 failed: could not be started: there is no image bb:9",
    ]
    assert done.returncode == 126
