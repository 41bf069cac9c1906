"""Arrays and parallel jobs at the command line."""

from pathlib import Path

import pytest
from fake_tgpu import FakeTgpu, Refusal, a_job

from tests.cli.cli_process import Tgpu


def test_flags_describe_an_array(server: FakeTgpu, tgpu: Tgpu) -> None:
    flags = "--array 0-999%50 --retries 3 --max-failures 10 --active-deadline 2h --suspend"
    done = tgpu("submit", "--no-export-env", *flags.split(), "--", "a")
    assert done.returncode == 0, done.stderr
    asked = server.submitted()[0]
    wanted = ("array", "retries", "max_failures", "active_deadline_s", "suspend")
    assert [asked[name] for name in wanted] == ["0-999%50", 3, 10, 7200, True]


def test_a_file_describes_a_parallel_job(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "command: a\ncompletions: 10\nparallelism: 2\ncompletion_mode: Indexed\nbackoff_limit: 4\n"
        "failure_rules:\n  - {action: fail-job, exit_codes: [42]}\n"
    )
    assert tgpu("submit", "-f", str(file)).returncode == 0
    asked = server.submitted()[0]
    assert (asked["completions"], asked["parallelism"], asked["completion_mode"]) == (10, 2, "Indexed")
    assert asked["failure_rules"] == [{"action": "fail-job", "exit_codes": [42]}]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--array 5-1", "--array: 5-1 is backwards; write 1-5"),
        ("--array 0-99999999", "--array may have at most 1,000,000 indices"),
        ("--array 0-9:2,4-8", "--array: 0-8:2 and 4-8 overlap"),
        ("--array 0-9%0", "%0 must say how many run at once, 1 or more"),
        ("--parallelism -1", "--parallelism must be a whole number, 0 or more; got '-1'; 0 suspends the job"),
        ("--completions 0", "--completions must be a whole number, 1 or more; got '0'"),
        ("--retries 99999999999", "--retries may be at most 2147483647; got '99999999999'"),
    ],
)
def test_what_cannot_be_meant_is_told(server: FakeTgpu, tgpu: Tgpu, flags: str, said: str) -> None:
    done = tgpu("submit", *flags.split(), "--", "a")
    assert (done.returncode, server.submitted()) == (2, [])
    assert said in done.stderr


def test_some_indices_are_cancelled(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {42: a_job(42)}
    server.fixed["/jobs/42/cancel"] = a_job(42)
    done = tgpu("cancel", "42.7", "42.[3-5,9]")
    assert done.returncode == 0, done.stderr
    assert [call["body"] for call in server.asked("POST", "/jobs/42/cancel")] == [
        {"indices": "7"},
        {"indices": "3-5,9"},
    ]
    assert "Of job 42, 3-5,9 is being cancelled" in done.stdout
    told = tgpu("cancel", "42.3-5")
    assert (told.returncode, "one is 42.7, several are '42.[3-9,12]'" in told.stderr) == (2, True)


def test_tasks_of_an_array_are_named_by_their_indices(server: FakeTgpu, tgpu: Tgpu) -> None:
    tasks = [a_task(at, 100 + 10 * at) for at in range(50)]
    events = [
        {"at": "2026-01-01T00:00:00Z", "kind": "failed", "task_index": 3, "data": {}},
        {
            "at": "2026-01-01T00:00:00Z",
            "kind": "cancel-requested",
            "task_index": None,
            "data": {"positions": "4-5"},
        },
    ]
    counts = {"failed": 1, "pending": 49}
    server.jobs = {
        42: a_job(42)
        | {"array": "100-590:10", "tasks": 50, "task_counts": counts, "task_list": tasks, "events": events}
    }
    shown = tgpu("show", "42").stdout
    assert "of these   1 failed, 49 pending" in shown
    assert "… and 10 more; `tgpu show 42.500` shows one of them" in shown
    assert "  130  failed" in shown
    assert "  -  cancel-requested  indices=140,150" in shown
    server.fixed["/jobs/42/tasks"] = {"tasks": [tasks[3]], "next_cursor": None}
    failed = tgpu("show", "42", "--status", "failed").stdout.splitlines()
    assert [line.split()[0] for line in failed] == ["TASK", "130"]


def a_task(position: int, index: int) -> dict[str, object]:
    return {
        "task_id": f"42.{index}",
        "task_index": position,
        "array_index": index,
        "group": "main",
        "status": "pending",
    }


def test_what_failed_is_tried_again(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/jobs/42/retry"] = {"restarted": [7], "job_id": 57, "indices": "3,9"}
    done = tgpu("retry", "42")
    assert done.stdout.splitlines() == [
        "Starts anew: 42.7",
        "Submitted job 57: job 42 again (indices 3,9)",
    ]
    assert tgpu("retry", "-q", "42.[3,9]").stdout == "57\n"
    assert tgpu("retry", "42", "--after", "afterany:57", "--after", "58").returncode == 0
    assert tgpu("retry", "42", "--no-needs").returncode == 0
    both = tgpu("retry", "42", "--no-needs", "--after", "57")
    assert (both.returncode, "--after and --no-needs contradict each other" in both.stderr) == (2, True)
    assert [call["body"] for call in server.asked("POST", "/jobs/42/retry")] == [
        {},
        {"indices": "3,9"},
        {"after": ["afterany:57", "58"]},
        {"after": []},
    ]


def test_jobs_are_suspended_and_resumed(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/jobs/42/suspend"] = server.fixed["/jobs/42/resume"] = a_job(42)
    assert tgpu("suspend", "42").stdout == "Suspended job 42\n"
    assert tgpu("resume", "42").stdout == "Resumed job 42\n"


def test_why_of_an_index_that_has_yet_to_begin_is_about_that_one(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, status="running", tasks=100, array="0-99")}
    rest = "98 of its 100 tasks have not begun, for at most 2 run at once"
    server.fixed |= {
        "/jobs/1/why": {
            "job_id": 1,
            "waiting": False,
            "summary": f"runs on n1; {rest}",
            "reasons": [{"code": "to-come", "text": rest, "data": {"tasks": 98}}],
        },
        "/jobs/1/tasks": {"tasks": [{"task_id": "1.70", "status": "pending", "reason": None}]},
    }
    assert tgpu("why", "1.70").stdout == f"Task 1.70: pending: {rest}\n"
    assert tgpu("why", "1").stdout == f"Job 1: runs on n1; {rest}\n"


def test_why_of_an_index_that_waits_behind_others_says_of_whom_it_tells(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, status="running", tasks=100, array="0-99")}
    server.fixed |= {
        "/jobs/1/why": {"job_id": 1, "waiting": True, "summary": "waits: needs 1 GPU", "position": 1},
        "/jobs/1/tasks": {"tasks": [{"task_id": "1.70", "status": "pending", "reason": None}]},
    }
    assert tgpu("why", "1.70").stdout.splitlines() == [
        "Task 1.70: pending; what follows is about the first of its job that waits",
        "Job 1: waits: needs 1 GPU",
        "  1st in line",
    ]


def test_a_change_that_is_refused_is_told_with_the_flag_that_was_typed(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1)}
    server.fixed["/jobs/1"] = Refusal(422, "at_once can be changed of an array", "invalid", field="at_once")
    for flag, text in (("--array", "%5"), ("--parallelism", "5")):
        assert f"{flag} can be changed of an array" in tgpu("edit", "1", flag, text).stderr
