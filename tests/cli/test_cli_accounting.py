"""Commands that account: report and history."""

import csv
import io
import json
import re

import pytest
from fake_tgpu import FakeTgpu, Refusal, a_job, an_attempt

from tests.cli.cli_process import Tgpu
from tgpu.cli.commands.history import _CAUSES, _STATES
from tgpu.domain.lifecycle import Cause, Status

HOUR = 3600.0


def figures(gpu_s: float = 0.0, **more: object) -> dict[str, object]:
    return {
        "attempts": 3, "jobs": 2, "wait_mean_s": 75.0, "wait_max_s": 90.0, "run_s": gpu_s, "cpu_s": 2 * gpu_s,
        "cpu_used_s": gpu_s, "cpu_measured_s": 2 * gpu_s, "cpu_wasted_s": gpu_s, "mem_mb_s": 0,
        "mem_used_mb_s": None, "mem_measured_mb_s": 0, "mem_wasted_mb_s": None, "gpu_s": gpu_s,
        "gpu_used_s": 0.5 * gpu_s, "gpu_measured_s": gpu_s, "gpu_wasted_s": 0.5 * gpu_s,
        "gpu_hours": gpu_s / HOUR, "lost_s": 0.0, "lost_gpu_s": 0.0, "cost": None,
    } | more  # fmt: skip


def a_report(by: list[str], rows: dict[tuple[str, ...], float], **more: object) -> dict[str, object]:
    return {
        "since": "2026-01-01T00:00:00.000Z",
        "until": "2026-01-06T00:00:00.000Z",
        "by": by,
        "covers": "everybody",
        "currency": None,
        "rows": [
            {"keys": dict(zip(by, keys, strict=True)), "figures": figures(gpu_s)}
            for keys, gpu_s in rows.items()
        ],
        "total": figures(sum(rows.values())),
    } | more


def test_a_report_is_a_table_with_a_total(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/report"] = a_report(["user"], {("ann",): HOUR, ("bob",): 3 * HOUR})
    done = tgpu(
        "report", "--since", "2026-01-01", "--until", "2026-01-06", "--tenant", "lab", "--pool", "big"
    )
    rows = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()]
    assert rows == [
        ["USER", "JOBS", "TRIES", "WAIT", "GPU-HOURS", "GPU-USED", "GPU-WASTED", "CPU-HOURS", "CPU-USED"],
        ["ann", "2", "3", "1m15s", "1.00", "50%", "0.50", "2.00", "50%"],
        ["bob", "2", "3", "1m15s", "3.00", "50%", "1.50", "6.00", "50%"],
        ["total", "2", "3", "1m15s", "4.00", "50%", "2.00", "8.00", "50%"],
    ]
    assert server.asked("GET", "/report")[0]["query"] == {
        "by": "user",
        "since": "2026-01-01T00:00:00Z",
        "until": "2026-01-06T00:00:00Z",
        "tenant": "lab",
        "pool": "big",
    }


def test_a_report_says_what_was_not_measured_whose_it_is_and_what_it_costs(
    server: FakeTgpu, tgpu: Tgpu
) -> None:
    report = a_report(["user"], {("ann",): HOUR}, covers="your own jobs", currency="EUR")
    report["total"] = figures(HOUR, gpu_measured_s=900.0, gpu_used_s=90.0, cost=2.5)
    server.fixed["/report"] = report
    lines = tgpu("report", "--mine").stdout.splitlines()
    assert lines[-4].split()[-1] == "2.50"
    assert lines[-3:] == [
        "GPU-USED and GPU-WASTED are of the 25 % of the GPU-hours of which it is known",
        "of your own jobs",
        "cost in EUR",
    ]
    report["total"] = figures(HOUR, gpu_measured_s=0.0, gpu_used_s=None)
    assert tgpu("report", "--mine").stdout.splitlines()[-3].startswith("total")
    server.fixed["/report"] = a_report(["user"], {}, covers="your own jobs")
    assert tgpu("report").stdout == "nothing ran in that time (your own jobs)\n"


def test_a_report_as_csv_and_json_has_every_figure(server: FakeTgpu, tgpu: Tgpu) -> None:
    report = a_report(["user", "day"], {("ann", "2026-01-02"): HOUR})
    server.fixed["/report"] = report
    titles, row = csv.reader(io.StringIO(tgpu("report", "--by", "user,day", "--csv").stdout))
    assert titles == ["user", "day", *figures()]
    assert row[:4] == ["ann", "2026-01-02", "3", "2"]
    assert row[titles.index("mem_used_mb_s")] == ""
    assert json.loads(tgpu("report", "--json").stdout) == report
    assert tgpu("report", "--json", "--csv").returncode == 2


def test_bars_are_drawn_from_zero_on_one_scale(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/report"] = a_report(["user"], {("ann",): HOUR, ("bob",): 4 * HOUR, ("eve",): 0.0})
    ann, bob, eve, unit = tgpu("report", "--chart").stdout.splitlines()
    assert ann.count("█") == bob.count("█") // 4 > 10
    assert eve == "eve  0.00"
    assert unit == "GPU-hours; a full bar is 4.00"


def test_what_a_row_is_about_is_said_where_it_has_no_name(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/report"] = a_report(["gpu-type", "pool"], {("", ""): 0.0, ("A100", "big"): HOUR})
    rows = [
        re.split(r"\s{2,}", line)[:2] for line in tgpu("report", "--by", "gpu-type,pool").stdout.splitlines()
    ]
    assert rows[1:3] == [["no GPU", "-"], ["A100", "big"]]
    assert tgpu("report", "--by", "gpu-type,pool", "--chart").stdout.startswith("no GPU  -  ")


def test_columns_over_time_show_all_that_was_asked_for(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/report"] = a_report(["day"], {("2026-01-02",): 2 * HOUR, ("2026-01-04",): HOUR})
    lines = tgpu("report", "--by", "day", "--chart").stdout.splitlines()
    assert lines[0] == "2.00 │   ██"
    assert lines[5] == "1.00 │   ██    ██"
    assert lines[10] == "0.00 └───────────────"
    assert lines[11] == "      01 02 03 04 05"
    assert lines[12] == "GPU-hours, from 2026-01-01 to 2026-01-05 UTC"
    month = {"since": "2026-01-07T12:00:00.000Z", "until": "2026-02-06T00:00:00.000Z"}
    server.fixed["/report"] = a_report(["day"], {("2026-01-09",): HOUR, ("2026-02-05",): HOUR}, **month)
    lines = tgpu("report", "--by", "day", "--chart").stdout.splitlines()
    assert lines[0] == f"1.00 │    █{' ' * 53}█"
    assert lines[10] == f"0.00 └{'──' * 30}"
    assert lines[11] == "      07  09  11  13  15  17  19  21  23  25  27  29  31  02  04"
    weeks = {"since": "2025-12-31T00:00:00.000Z", "until": "2026-01-20T00:00:00.000Z"}
    server.fixed["/report"] = a_report(["week"], {("2026-01-12",): HOUR}, **weeks)
    assert "from 2025-12-29 to 2026-01-19" in tgpu("report", "--by", "week", "--chart").stdout


def test_what_is_too_much_for_the_screen_begins_with_the_first_work(server: FakeTgpu, tgpu: Tgpu) -> None:
    rows = {("2026-01-02",): 2 * HOUR, ("2026-01-04",): HOUR}
    server.fixed["/report"] = a_report(["day"], rows, since="2025-01-01T00:00:00.000Z")
    assert "from 2026-01-02 to 2026-01-05" in tgpu("report", "--by", "day", "--chart").stdout
    server.fixed["/report"] = a_report(["day"], rows, since=None, until="2026-04-01T00:00:00.000Z")
    lines = tgpu("report", "--by", "day", "--chart").stdout.splitlines()
    assert (len(lines), lines[1]) == (89 + 1, "2026-01-03  0.00")


ENDED = {
    "status": "failed",
    "gpu_request": 2,
    "assigned_node_id": "n1",
    "started_at": "2026-01-31T12:00:01.000Z",
    "ended_at": "2026-01-31T13:30:01.500Z",
    "exit_code": 1,
    "cause": "time-limit",
}


def test_history_shows_the_fields_that_are_asked_for(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {7: a_job(7, name="a|b", **ENDED)}
    asked = ("history", "--fields", "id,name,started,elapsed,cause,gpu-hours")
    assert tgpu(*asked, "--parsable").stdout == (
        'id|name|started|elapsed|cause|gpu-hours\n7|"a|b"|2026-01-31T12:00:01.000Z|5400.5|time-limit|3\n'
    )
    assert (
        tgpu(*asked, "--csv", "--no-header").stdout == "7,a|b,2026-01-31T12:00:01.000Z,5400.5,time-limit,3\n"
    )
    assert tgpu(*asked, "--no-header").stdout.split("\n")[0].split() == [
        "7", "a|b", "2026-01-31", "12:00:01", "1h30m", "time", "limit", "3.00",
    ]  # fmt: skip
    assert tgpu("history", "--fields", "id,colour").stderr == (
        "tgpu: no field colour; `--fields help` lists them\n"
    )
    listed = tgpu("history", "--fields", "help").stdout
    assert "gpu-busy      how long its GPUs were busy, added up (with --attempts)" in listed


def test_history_finds_jobs_by_how_where_and_when_they_ran(server: FakeTgpu, tgpu: Tgpu) -> None:
    tgpu(
        "history", "--started", "--since", "2026-01-01", "--until", "2026-02-01", "--tenant", "lab",
        "--cause", "time-limit,preempted", "--node", "n1,n2", "--exit", "1", "--min-elapsed", "10m",
        "--state", "running", "--user", "ann,bob",
    )  # fmt: skip
    asked = server.asked("GET", "/jobs")[0]
    assert asked["query"] == {
        "order": "newest",
        "limit": "101",
        "status": "running",
        "user": "ann,bob",
        "within": "lab",
        "cause": "time-limit,preempted",
        "node": "n1,n2",
        "exit_code": "1",
        "min_elapsed": "10m",
        "started_since": "2026-01-01T00:00:00Z",
        "started_until": "2026-02-01T00:00:00Z",
    }
    done = tgpu("history", "--state", "running")
    assert done.returncode == 2
    assert "has no end: add --started or --submitted" in done.stderr
    done = tgpu("history", "--state", "failed,nosuch")
    states = "pending,scheduled,running,preempted,completed,failed,cancelled"
    assert (done.returncode, done.stderr) == (2, f"tgpu: --state must be some of {states}; got 'nosuch'\n")


def test_the_words_of_the_history_are_those_of_the_domain() -> None:
    assert list(_STATES) == list(Status)
    assert list(_CAUSES) == list(Cause)


def test_history_of_attempts_has_a_line_for_each(server: FakeTgpu, tgpu: Tgpu) -> None:
    tries = [
        an_attempt(
            1, attempt_id="7.0.1", status="ended", cause="preempted", wait_s=2.5, lost_s=60.0,
            gpu_busy_s=30.25, cpu_time_s=12.0, peak_memory_mb=2048,
        ),
        an_attempt(2, attempt_id="7.0.2", status="ended", cause="exited", wait_s=1.0, lost_s=0.0),
    ]  # fmt: skip
    server.jobs = {7: a_job(7, attempts=tries, **ENDED)}
    text = tgpu(
        "history", "--attempts", "--csv", "--fields", "id,cause,waited,lost,gpu-busy,cpu-time,peak-mem"
    ).stdout
    first, second = csv.DictReader(io.StringIO(text))
    assert list(first.values())[1:] == ["preempted", "2.5", "60", "30.25", "12", "2048"]
    assert (second["cause"], second["lost"], second["gpu-busy"]) == ("exited", "0", "")
    assert (first["id"], second["id"]) == ("7.0.1", "7.0.2")


def test_of_an_array_each_attempt_is_told_by_its_index_and_for_itself(server: FakeTgpu, tgpu: Tgpu) -> None:
    ran = {"status": "ended", "started_at": ENDED["started_at"], "ended_at": "2026-01-31T12:30:01.000Z"}
    tries = [an_attempt(1, attempt_id=f"7.{at}.1", task_index=at, **ran) for at in (0, 2)]
    several = {"array": "5-9:2", "tasks": 3, "task_counts": {"failed": 1, "completed": 2}}
    server.jobs = {7: a_job(7, attempts=tries, **ENDED, **several)}
    fields = ("--fields", "id,status,gpus,gpu-hours")
    _, *lines, total = tgpu("history", "--attempts", *fields).stdout.splitlines()
    assert [line.split() for line in lines] == [[f"7.{index}.1", "ended", "2", "1.00"] for index in (5, 9)]
    assert total == "2 attempts, 2.00 GPU-hours"
    _, line, total = tgpu("history", *fields).stdout.splitlines()
    assert line.split() == ["7", "1/3", "failed", "3x2"]
    assert total == "1 job, 0.00 GPU-hours beside those of several tasks, which `--attempts` has"


def test_what_is_asked_of_attempts_is_asked_of_each_and_lines_are_counted(
    server: FakeTgpu, tgpu: Tgpu
) -> None:
    ran = {"status": "ended", "ended_at": "2026-01-31T12:10:01.000Z"}
    tries = [
        an_attempt(1, attempt_id="7.0.1", cause="preempted", **ran),
        an_attempt(2, attempt_id="7.0.2", cause="exited", exit_code=3, node_id="n2", **ran),
    ]
    server.jobs = {number: a_job(number, attempts=tries, **ENDED) for number in (7, 8)}
    asked = ("history", "--attempts", "--fields", "id,cause")
    assert tgpu(*asked, "--cause", "preempted", "--csv", "--no-header").stdout == "7.0.1,preempted\n" * 2
    assert tgpu(*asked, "--node", "n2", "--exit", "3", "-q").stdout == "7.0.2\n" * 2
    assert tgpu(*asked, "--min-elapsed", "11m").stdout == "no such jobs in that time\n"
    lines = tgpu(*asked, "--limit", "3").stdout.splitlines()
    assert (len(lines), lines[-2:]) == (6, ["3 attempts, 1.00 GPU-hours", "more with `--limit 0`"])
    cut = json.loads(tgpu(*asked, "--limit", "3", "--json").stdout)
    assert [len(job["attempts"]) for job in cut] == [2, 1]
    assert "--cause must be some of exited," in tgpu(*asked, "--cause", "nosuch").stderr


def test_a_name_that_nobody_has_is_told(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed |= {"/report": a_report(["user"], {}), "/tenants/lab": {"tenant_id": "lab"}}
    for command in ("report", "history"):
        done = tgpu(command, "--tenant", "nowhere")
        assert (done.returncode, "there is no tenant 'nowhere'" in done.stderr) == (4, True)
        done = tgpu(command, "--user", "nobody")
        assert (done.returncode, "there is no user 'nobody' with jobs" in done.stderr) == (4, True)
        assert tgpu(command, "--tenant", "lab").returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("history --since 1h --until 2h", "--since must be before --until; got 20"),
        ("history --until 8d --submitted", "--since must be before --until; got 20"),
        ("report --depth -1", "must be a whole number from 1 to 8; got '-1'"),
        ("report --depth 0", "must be a whole number from 1 to 8; got '0'"),
        ("report --depth 9", "must be a whole number from 1 to 8; got '9'"),
    ],
)
def test_what_cannot_be_meant_is_told_before_anybody_is_asked(
    server: FakeTgpu, tgpu: Tgpu, words: str, said: str
) -> None:
    done = tgpu(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert server.requests == []


def test_show_has_the_figures_of_each_attempt(server: FakeTgpu, tgpu: Tgpu) -> None:
    tries = [an_attempt(1, status="ended", cause="preempted", wait_s=75.0, lost_s=60.0, gpu_busy_s=30.25)]
    server.jobs = {7: a_job(7, attempts=tries, **ENDED)}
    text = tgpu("show", "7").stdout
    assert re.search(r"GPU BUSY +WAITED +LOST", text)
    assert re.search(r"30s +1m15s +1m00s", text)


def test_the_server_s_refusal_of_a_report_is_told(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/report"] = Refusal(400, "by takes user, tenant, …; got colour", "bad-request")
    done = tgpu("report", "--by", "colour")
    assert done.returncode != 0
    assert "by takes user" in done.stderr
