"""What people type who know other tools, or who slip: each is told what is meant, before anything waits."""

import os
import time
from pathlib import Path

import pytest
from fake_tgpu import FakeTgpu, a_job

from tests.cli.cli_process import Tgpu
from tgpu.cli.commands.completion import whole_parser
from tgpu.dialects.native.moments import coming
from tgpu.dialects.slurm import launching


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["--aray", "0-9"], "--array"),
        (["--mem", "16G"], "--memory"),
        (["--gres", "gpu:2"], "--gpus 2"),
        (["--gres=gpu:a100:4"], "--gpus 4 --gpu-type a100"),
        (["--gres=craynetwork:1"], "--gpus N, or --resource NAME=N"),
        (["--partition", "long"], "--pool"),
        (["-plong"], "--pool"),
        (["--job-name=x"], "--name"),
        (["-J", "x"], "--name"),
        (["-n", "4"], "--ntasks"),
        (["-c", "4"], "--cpus"),
        (["-t", "30"], "--time"),
        (["--depends", "41"], "--after"),
        (["--wrap", "hostname"], "-- COMMAND"),
        (["--mem=1", "-t", "30"], "--memory and --time"),
    ],
)
def test_a_flag_of_another_scheduler_is_answered_with_ours(
    server: FakeTgpu, tgpu: Tgpu, typed: list[str], meant: str
) -> None:
    done = tgpu("submit", *typed, "--", "a")
    assert (done.returncode, server.submitted()) == (2, [])
    assert f"; did you mean {meant}? (see `tgpu submit --help`)" in done.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("kill", "cancel"),
        ("ls", "list"),
        ("status", "list"),
        ("ps", "list"),
        ("queue", "list"),
        ("top", "list --watch"),
    ],
)
def test_a_command_of_another_tool_is_answered_with_ours(tgpu: Tgpu, typed: str, meant: str) -> None:
    assert tgpu(typed).stderr == f"tgpu: there is no `tgpu {typed}`; did you mean `tgpu {meant}`?\n"


def test_no_help_shows_a_sign_that_is_meant_for_the_parser() -> None:
    for name, parser in whole_parser()._subparsers._group_actions[0].choices.items():
        assert "%%" not in parser.format_help(), name


def test_a_script_that_is_not_here_is_refused_at_once(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    (tmp_path / "work" / "folder").mkdir()
    for word in ("nosuch.sh", "nosuch.py", "nosuch.bash", "nosuch.R", "bin/nosuch", "./nosuch"):
        done = tgpu("submit", word, "--epochs", "3")
        said = f"tgpu: there is no {word} in {tmp_path}/work: check the name"
        assert (done.returncode, done.stderr[: len(said)]) == (2, said)
    assert "./folder is a folder: name a script in it" in tgpu("submit", "./folder").stderr
    assert server.submitted() == []


@pytest.mark.parametrize(
    "words",
    [
        ["nosuch"],
        ["/opt/nosuch.sh"],
        ["python bin/train.py"],
        ["--", "./nosuch.sh"],
        ["--cwd", "/data", "nosuch.sh"],
        ["--image", "bb:1", "./nosuch.sh"],
    ],
)
def test_what_may_be_there_on_nodes_is_taken(server: FakeTgpu, tgpu: Tgpu, words: list[str]) -> None:
    assert tgpu("submit", *words).stdout == "Submitted job 1\n"
    assert server.running


def test_a_program_on_path_may_be_called_like_a_script(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "tool.sh"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert tgpu("submit", "tool.sh", PATH=f"{tool.parent}:{os.environ['PATH']}").stdout == "Submitted job 1\n"
    assert server.submitted()[0]["command"] == ["tool.sh"]


def test_bare_seconds_for_a_script_of_slurm_s_are_told(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -n 1\n")
    assert tgpu("submit", "--time", "90", str(script)).stderr == (
        "tgpu: --time 90 is 90 seconds here, unlike `#SBATCH --time`: for minutes say --time 90m\n"
    )
    assert tgpu("submit", "--time", "90m", str(script)).stderr == ""
    assert [job["time_limit_s"] for job in server.submitted()] == [90, 5400]


def test_a_need_that_can_never_be_met_is_told_though_it_is_taken(server: FakeTgpu, tgpu: Tgpu) -> None:
    tgpu("submit", "--", "a")
    server.jobs[1]["status"] = "failed"
    done = tgpu("submit", "--after", "1", "--", "b")
    assert (done.returncode, done.stdout) == (0, "Submitted job 2\n")
    assert done.stderr == (
        "tgpu: job 1 has failed and cannot meet afterok:1 any more: the new job fails by it\n"
    )
    assert tgpu("submit", "--dependency", "afternotok:1,afterany:1", "--", "b").stderr == ""
    server.jobs[1]["status"] = "completed"
    assert tgpu("submit", "--after", "1", "--", "b").stderr == ""


@pytest.mark.parametrize(
    ("flags", "text", "said"),
    [
        ([], "command: a\ndepends_on: b", "-: unknown key 'depends_on'; did you mean 'needs'?"),
        ([], "command: a\ndependsOn: b", "-: unknown key 'dependsOn'; did you mean 'needs'?"),
        (
            ["--name", "x"],
            "command: a\n---\ncommand: b",
            "--name renames them all: leave it out, for - has 2 jobs",
        ),
        (["--deadline", "2020-01-01"], "command: a", "--deadline 2020-01-01 is past (2020-01-01 00:00:00): "),
    ],
)
def test_a_slip_in_a_file_or_beside_it(
    server: FakeTgpu, tgpu: Tgpu, *, flags: list[str], text: str, said: str
) -> None:
    done = tgpu("submit", *flags, "-f", "-", stdin=text)
    assert (done.returncode, server.submitted()) == (2, [])
    assert said in done.stderr


def test_a_begin_that_is_past_is_taken_and_told(server: FakeTgpu, tgpu: Tgpu) -> None:
    done = tgpu("submit", "--begin", "2020-01-01", "--", "a")
    assert (
        done.stderr == "tgpu: --begin 2020-01-01 is past (2020-01-01 00:00:00): the job may start at once\n"
    )
    assert tgpu("submit", "--begin", "now", "--", "a").stderr == ""
    assert server.submitted()[0]["begin_at"] == "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("typed", "moment"),
    [
        ("2am", "2026-07-26T02:00:00Z"),
        ("12am", "2026-07-26T00:00:00Z"),
        ("4:30 PM", "2026-07-25T16:30:00Z"),
        ("tomorrow", "2026-07-26T00:00:00Z"),
        ("tomorrow 02:00", "2026-07-26T02:00:00Z"),
        ("Tomorrow noon", "2026-07-26T12:00:00Z"),
        ("today 18:00", "2026-07-25T18:00:00Z"),
    ],
)
def test_moments_as_people_say_them(monkeypatch: pytest.MonkeyPatch, typed: str, moment: str) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert coming("--begin", typed, 1784980800) == moment  # 2026-07-25 12:00


def test_a_home_in_quotes_is_the_caller_s(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    tgpu("submit", "--output", "~/out-%j.txt", "--", "a")
    assert server.submitted()[0]["output"] == f"{tmp_path}/out-%j.txt"


def test_no_snapshot_is_taken_of_a_whole_machine(server: FakeTgpu, tgpu: Tgpu) -> None:
    done = tgpu("submit", "--snapshot", "--cwd", "/", "--", "a")
    assert (done.returncode, server.submitted()) == (2, [])
    assert "a snapshot of / would be one of the whole machine" in done.stderr


def test_launchers_that_jobs_would_not_see_are_told(
    tgpu: Tgpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tgpu.runner.private_tmp.SHARED", (str(tmp_path / "tmp"),))
    done = tgpu("slurm", "install", "--to", str(tmp_path / "tmp" / "bin"))
    assert f"tgpu: {tmp_path}/tmp/bin is out of sight for jobs that have a /tmp of their own" in done.stderr
    assert tgpu("slurm", "install", "--to", str(tmp_path / "bin")).stderr == ""


def test_show_tells_how_failures_are_taken_and_which_script_it_is(server: FakeTgpu, tgpu: Tgpu) -> None:
    limits = {"backoff_limit_per_index": 1, "max_failures": 5, "active_deadline_s": 3600}
    server.jobs = {
        1: a_job(1, **limits, ttl_after_finished_s=60, snapshot="sha256:" + "0" * 64, snapshot_root="/code"),
        2: a_job(
            2,
            dialect="slurm",
            annotations={"script": "/home/ann/job.sh"},
            command=launching.command("#!/bin/sh\n", ["--lr", "3"]),
        ),
    }
    shown = tgpu("show", "1").stdout
    assert (
        "1 failure of each index tried again, stops once more than 5 have failed, "
        "over 1h00m after its submission, forgotten 1m00s after its end\n"
    ) in shown
    assert "/code, in no commit  (sha256:000000000000…)\n" in shown
    script = tgpu("show", "2").stdout
    assert "/home/ann/job.sh --lr 3  (as it was when it was submitted)\n" in script
    assert "/bin/sh" not in script


def test_of_an_array_that_failed_the_first_index_is_named(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {
        1: a_job(
            1, status="failed", array="0-9", reason="exit code 7", exit_code=7, cause="exit-code", attempts=[]
        )
    }
    server.fixed["/jobs/1/tasks"] = {"tasks": [{"task_id": "1.4"}, {"task_id": "1.6"}], "next_cursor": 9}
    assert tgpu("wait", "1").stdout == "Job 1 failed: exit code 7; the first that failed is 1.4\n"
    assert server.asked("GET", "/jobs/1/tasks")[-1]["query"]["status"] == "failed"


def test_why_of_one_task_is_its_job_s_while_it_waits(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, array="0-9")}
    server.fixed["/jobs/1/why"] = {"job_id": 1, "summary": "it waits for room"}
    task = {"task_id": "1.4", "status": "running", "node_id": "n1"}
    server.fixed["/jobs/1/tasks"] = {"tasks": [task], "next_cursor": None}
    assert tgpu("why", "1.4").stdout == "Task 1.4: running on n1\n"
    server.fixed["/jobs/1/tasks"] = {"tasks": [task | {"status": "pending"}], "next_cursor": None}
    assert tgpu("why", "1.4").stdout == "Job 1: it waits for room\n"
