"""Commands that look: list, show, why, nodes, queues, stats, history."""

import io
import json
import re
import time

import pytest
from fake_tgpu import FakeTgpu, Refusal, a_job, an_attempt

from tests.cli.cli_process import Tgpu
from tgpu.cli.screen import Screen, cut
from tgpu.cli.table import Column, table
from tgpu.cli.words import short_time

RUNNING = {
    "status": "running",
    "gpu_request": 2,
    "devices": [0, 1],
    "assigned_node_id": "n1",
    "started_at": "2026-01-31T12:00:01.000Z",
}


def rows(text: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def test_list_shows_everyone_s_live_jobs_running_first(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {
        1: a_job(1, status="completed"),
        2: a_job(2, gpu_request=0.25, priority_class="high", priority=5),
        3: a_job(3, user_id="bob", ended_at="2026-01-31T12:01:05.000Z", mem_request_mb=2048, **RUNNING),
    }
    server.fixed["/jobs/2/why"] = {"job_id": 2, "summary": "waits for 1 GPU"}
    table = rows(tgpu("list").stdout)
    assert table[0] == [
        "ID",
        "NAME",
        "USER",
        "PRIORITY",
        "STATUS",
        "GPUS",
        "CPUS",
        "MEM",
        "TIME",
        "NODE",
        "REASON",
    ]
    assert table[1] == ["3", "job3", "bob", "default", "running", "2 (0,1)", "1", "2G", "1m04s", "n1"]
    assert table[2][:7] == ["2", "job2", "ann", "high/5", "pending", "0.25", "1"]
    assert table[2][-1] == "waits for 1 GPU"


def test_gpus_asked_for_by_memory_are_listed_with_what_was_asked(server: FakeTgpu, tgpu: Tgpu) -> None:
    by_memory = {"gpu_request": 0, "gpu_memory_mb": 20480}
    server.jobs = {
        1: a_job(1, **RUNNING | by_memory | {"devices": [3]}),
        2: a_job(2, **by_memory),
        3: a_job(3, gpu_request=2, gpu_memory_mb=40960),
        4: a_job(4, ended_at="2026-01-31T13:30:01.000Z", **RUNNING | by_memory | {"status": "failed"}),
    }
    table = rows(tgpu("list").stdout)
    assert [row[5] for row in table[1:]] == ["1x 20G (3)", "1x 20G", "2"]
    assert "1x 20G" in rows(tgpu("history", "--since", "2026-01-01").stdout)[1]


def test_a_job_that_gives_way_is_listed_so(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, **RUNNING, giving_way=True), 2: a_job(2, **RUNNING, giving_way=False)}
    assert [row[4] for row in rows(tgpu("list").stdout)[1:]] == ["running, gives way", "running"]
    assert tgpu("show", "1").stdout.startswith("Job 1  job1  running, gives way\n")


def test_list_filters_by_owner_and_status(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1), 2: a_job(2, user_id="bob"), 3: a_job(3, status="failed")}
    assert tgpu("list", "--quiet").stdout == "1\n2\n"
    assert tgpu("list", "--mine", "--quiet").stdout == "1\n"
    assert tgpu("list", "--user", "bob", "--quiet").stdout == "2\n"
    assert tgpu("list", "--status", "failed", "--quiet").stdout == "3\n"
    assert tgpu("list", "--all", "--quiet").stdout == "3\n2\n1\n"
    assert tgpu("list", "--limit", "1").stdout.splitlines()[-1] == "… and more; `--limit 0` shows all"
    assert [job["job_id"] for job in json.loads(tgpu("list", "--json").stdout)] == [1, 2]


def test_list_says_whose_tenants_jobs_are_when_it_was_asked_or_they_differ(
    server: FakeTgpu, tgpu: Tgpu
) -> None:
    server.jobs = {1: a_job(1, tenant_id="lab/vision"), 2: a_job(2, tenant_id="lab/vision")}
    assert "TENANT" not in tgpu("list").stdout
    asked = rows(tgpu("list", "--tenant", "lab").stdout)
    assert (asked[0][3], asked[1][3]) == ("TENANT", "lab/vision")
    assert server.asked("GET", "/jobs")[-1]["query"]["within"] == "lab"
    server.jobs[3] = a_job(3, tenant_id="default")
    assert [row[3] for row in rows(tgpu("list").stdout)] == ["TENANT", "lab/vision", "lab/vision", "default"]


def test_a_column_has_a_bound_on_a_terminal_and_none_elsewhere() -> None:
    columns, cells = [Column("REASON", floor=12, most=20)], [["x" * 50]]
    screen = Screen(io.StringIO())
    assert list(table(screen, columns, cells))[1] == "x" * 50
    screen.width = 200
    assert list(table(screen, columns, cells))[1] == "x" * 19 + "…"


def test_wide_characters_take_two_columns_and_combining_marks_none() -> None:
    screen = Screen(io.StringIO())
    rows = [["訓練", "1"], ["été", "2"], ["train", "3"]]
    lines = list(table(screen, (Column("NAME"), Column("ID")), rows))
    assert lines == ["NAME   ID", "訓練   1", "été    2", "train  3"]


def test_wide_name_is_cut_to_the_width_of_its_column() -> None:
    assert cut("訓練用", 4) == "訓…"
    assert cut("訓練用", 5) == "訓練…"
    assert cut("訓練用", 6) == "訓練用"


def test_taints_are_shown_in_a_column_of_their_own(server: FakeTgpu, tgpu: Tgpu) -> None:
    node = {"node_id": "n1", "status": "ready", "labels": {"disk": "nvme"}, "taints": ["team=vision"]}
    server.fixed["/nodes"] = {"nodes": [node]}
    titles, row = rows(tgpu("nodes").stdout)[:2]
    assert (row[titles.index("LABELS")], row[titles.index("TAINTS")]) == ("disk=nvme", "team=vision")


def test_a_range_that_is_none_says_why(server: FakeTgpu, tgpu: Tgpu) -> None:
    assert server.running
    turned = "tgpu: 5-2 is not a range of jobs: the smaller number first, 2-5\n"
    assert tgpu("cancel", "5-2").stderr == turned
    assert tgpu("cancel", "1-200000").stderr == (
        "tgpu: 1-200000 is 200,000 jobs; 100,000 can be named at once\n"
    )


def test_an_empty_list_says_so(server: FakeTgpu, tgpu: Tgpu) -> None:
    assert server.running
    assert tgpu("list").stdout == "no jobs\n"
    assert json.loads(tgpu("list", "--json").stdout) == []


def test_a_name_cannot_steer_the_terminal(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, name="\x1b[2Jevil\nline")}
    assert "?[2Jevil?line" in tgpu("list").stdout


def test_show_names_the_network_of_a_container(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, image="bb:1", network="host"), 2: a_job(2, image="bb:1", network=None)}
    assert ["network", "host"] in rows(tgpu("show", "1").stdout)
    assert "network" not in tgpu("show", "2").stdout


def test_show_is_a_card_of_all_that_is_known(server: FakeTgpu, tgpu: Tgpu) -> None:
    ended = an_attempt(
        status="ended",
        cause="exited",
        reason="exit code 3",
        exit_code=3,
        ended_at="2026-01-31T12:00:11.000Z",
        cpu_time_s=9.5,
    )
    server.jobs[1] = a_job(
        1,
        **RUNNING | {"status": "failed"},
        cause="exited",
        reason="exit code 3",
        exit_code=3,
        ended_at="2026-01-31T12:00:11.000Z",
        time_limit_s=3600,
        attempts=[ended],
        events=[{"seq": 1, "at": "2026-01-31T12:00:00.000Z", "kind": "submitted", "data": {}}],
    )
    text = tgpu("show", "1").stdout
    assert text.startswith("Job 1  job1  failed\n")
    for part in ("python train.py", "2 GPUs, 1 CPU", "runs 1h00m", "failed: exit code 3"):
        assert part in text
    assert ["1", "ended", "n1", "0", "2026-01-31 12:00:01", "10s", "9s", "exit code 3"] in rows(text)
    assert "2026-01-31 12:00:00  submitted" in text
    assert json.loads(tgpu("show", "1", "--json").stdout) == server.jobs[1]


def test_show_tells_apart_what_was_asked_and_where_its_directory_or_image_keeps_it(
    server: FakeTgpu, tgpu: Tgpu
) -> None:
    local = {"image": "bb:1", "node_rules": ["tgpu/host in (n1, n2)"]}
    server.jobs = {
        1: a_job(1, node_selector={"tgpu/host": "n1", "disk": "ssd"}),
        2: a_job(2, **local),
        3: a_job(3, **local | {"node_rules": ["tgpu/host=n1"]}),
    }
    for job, asked, hosts in (("1", "1 CPU, disk=ssd", "n1"), ("2", "1 CPU", "n1, n2"), ("3", "1 CPU", "n1")):
        said = rows(tgpu("show", job).stdout)
        assert ["only on", hosts] in said
        assert ["asked", asked] in said


def test_show_tells_in_which_directory_a_container_runs(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {
        1: a_job(1, image="bb:1", cwd="/", container_cwd="/data"),
        2: a_job(2, image="bb:1", cwd="/"),
        3: a_job(3, image="bb:1", cwd="/home/ada"),
    }
    for job, directory in (("1", "/data"), ("2", "the image's own"), ("3", "/home/ada")):
        assert ["directory", directory] in rows(tgpu("show", job).stdout)


def test_show_tells_what_is_done_about_which_failure(server: FakeTgpu, tgpu: Tgpu) -> None:
    rules = [
        {"action": "fail-job", "exit_codes": [42], "not_exit_codes": [], "signals": [], "causes": []},
        {"action": "ignore", "causes": ["out-of-memory", "time-limit"]},
        {"action": "count", "not_exit_codes": [1], "causes": ["exited"]},
        {"action": "fail-index", "signals": list(range(1, 32))},
    ]
    server.jobs = {1: a_job(1, failure_rules=rules)}
    said = (
        "fail-job on exit code 42; ignore on out-of-memory, time-limit; "
        "count on any exit code but 1 with exited; fail-index on signal 1, 2, 3, 4, 5, 6, 7, 8 and 23 more"
    )
    assert ["failures", said] in rows(tgpu("show", "1").stdout)


def test_show_tells_what_was_asked_of_the_node(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {
        1: a_job(
            1,
            gpu_request=2,
            gpu_memory_mb=40960,
            generic={"licence": 1},
            pool="training",
            node_rules=["!spot"],
            tolerations=["team=a"],
        ),
        2: a_job(2, gpu_memory_mb=8192),
    }
    asked = "2 GPUs, 1 CPU, 40G GPU memory on each GPU, 1 licence, pool training, !spot, tolerates team=a"
    assert asked in tgpu("show", "1").stdout
    assert "1 CPU, 8G GPU memory\n" in tgpu("show", "2").stdout


def test_show_json_of_several_is_a_list_of_them(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {n: a_job(n) for n in (1, 2, 3)}
    shown = json.loads(tgpu("show", "1,3", "--json").stdout)
    assert [job["job_id"] for job in shown] == [1, 3]


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        ("2", [2]),
        ("2-4", [2, 3, 4]),
        ("4,1-2", [4, 1, 2]),
        ("last", [4]),
        ("last-1", [2]),
        ("all", [4, 2]),
    ],
)
def test_selectors_name_jobs(server: FakeTgpu, tgpu: Tgpu, selector: str, ids: list[int]) -> None:
    server.jobs = {1: a_job(1, status="failed"), 2: a_job(2), 3: a_job(3, user_id="bob"), 4: a_job(4)}
    shown = json.loads(tgpu("show", selector, "--json").stdout)
    assert [job["job_id"] for job in (shown if isinstance(shown, list) else [shown])] == ids


@pytest.mark.parametrize("selector", ["x", "5-2", "1-", "-", "last-x", "1-999999999", "1.x", "²"])
def test_a_selector_that_cannot_be_meant_is_refused(server: FakeTgpu, tgpu: Tgpu, selector: str) -> None:
    assert server.running
    done = tgpu("show", selector)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_why_tells_the_reasons_and_who_has_what_it_needs(server: FakeTgpu, tgpu: Tgpu) -> None:
    answer = {
        "job_id": 7,
        "waiting": True,
        "summary": "Waits for 2 GPUs; 1 of 4 is free.",
        "reasons": [{"code": "gpu-taken", "text": "3 GPUs are taken.", "data": {}}],
        "holders": [
            {
                "job_id": 3,
                "user": "bob",
                "name": "big",
                "gpu": 2,
                "devices": [0, 1],
                "node_id": "n1",
                "running_s": 125.0,
                "remaining_s": None,
            }
        ],
        "position": 2,
        "starts_at": "2026-01-31T14:05:00.000Z",
        "estimate": "not before 14:05 UTC",
        "advice": {
            "field": "gpu_request",
            "now": 2,
            "instead": 1,
            "text": "with --gpus 1 it would start now on n1",
        },
    }
    server.fixed["/jobs/7/why"] = answer
    text = tgpu("why", "7").stdout
    assert text.splitlines()[:5] == [
        "Job 7: Waits for 2 GPUs; 1 of 4 is free.",
        "  - 3 GPUs are taken.",
        "  2nd in line",
        "  not before 14:05 UTC",
        "  Advice: with --gpus 1 it would start now on n1",
    ]
    assert rows(text)[-1] == ["3", "bob", "big", "2 (0,1)", "n1", "2m05s", "no time limit"]
    assert json.loads(tgpu("why", "7", "--json").stdout) == answer


def test_why_tells_the_expected_start_in_words(server: FakeTgpu, tgpu: Tgpu) -> None:
    interval = {
        "earliest": "2099-01-31T13:40:00.000Z",
        "expected": "2099-01-31T14:05:00.000Z",
        "latest": "2099-01-31T15:10:00.000Z",
        "basis": "run times of 12 similar jobs",
    }
    server.fixed["/jobs/7/why"] = {
        "job_id": 7,
        "waiting": True,
        "summary": "waits",
        "estimate": "not before 16:00 UTC",
        "start_interval": interval,
    }
    text = tgpu("why", "7", TZ="UTC").stdout
    assert text.splitlines() == [
        "Job 7: waits",
        (
            "  expected start 2099-01-31 14:05 (between 2099-01-31 13:40 and 2099-01-31 15:10; run times of "
            "12 similar jobs)"
        ),
    ]
    soon = dict.fromkeys(("earliest", "expected", "latest"), "2000-01-31T13:40:00.000Z")
    server.fixed["/jobs/7/why"]["start_interval"] = soon | {"basis": "time limits"}
    assert "  expected to start within a minute (time limits)\n" in tgpu("why", "7").stdout


def test_stats_tell_how_well_starts_were_estimated(server: FakeTgpu, tgpu: Tgpu) -> None:
    none = {"count": 0, "inside": None, "median_error_s": None, "target": 0.8, "by_horizon": {}}
    server.fixed["/stats"] = {"start_estimates": none}
    assert tgpu("stats").stdout == "start estimates  no job has started after an estimate yet\n"
    some = {**none, "count": 412, "inside": 0.826, "median_error_s": 95.0}
    server.fixed["/stats"] = {"start_estimates": some}
    assert tgpu("stats").stdout == (
        "start estimates  83 % of 412 jobs started inside the estimated interval (target 80 %), "
        "median error 1m35s\n"
    )
    assert json.loads(tgpu("stats", "--json").stdout) == {"start_estimates": some}


def test_why_shows_what_each_holder_has(server: FakeTgpu, tgpu: Tgpu) -> None:
    holder = {"user": "bob", "name": "x", "node_id": "n1", "running_s": 5.0, "remaining_s": 60.0}
    server.fixed["/jobs/7/why"] = {
        "job_id": 7,
        "waiting": True,
        "summary": "waits",
        "holders": [
            holder | {"job_id": 3, "gpu": 0, "gpu_memory_mb": 20480, "devices": [1], "licences": {}},
            holder | {"job_id": 4, "gpu": 0, "gpu_memory_mb": 0, "devices": [], "licences": {"matlab": 3}},
            holder | {"job_id": 5, "gpu": 1, "gpu_memory_mb": 0, "devices": [0], "licences": {"matlab": 1}},
            holder | {"job_id": 6, "gpu": 0, "gpu_memory_mb": 0, "devices": [], "licences": {}},
        ],
    }
    table = rows(tgpu("why", "7").stdout)
    assert table[2][3] == "HOLDS"
    assert [row[3] for row in table[3:]] == ["1x 20G (1)", "3 matlab", "1 (0), 1 matlab", "-"]


def test_why_says_the_place_in_line_once(server: FakeTgpu, tgpu: Tgpu) -> None:
    in_line = {"code": "in-line", "text": "2nd in line in class default", "data": {"ahead": 1}}
    server.fixed["/jobs/7/why"] = {
        "job_id": 7,
        "waiting": True,
        "summary": "waits: 2nd in line in class default",
        "reasons": [in_line],
        "position": 2,
    }
    assert tgpu("why", "7").stdout == "Job 7: waits: 2nd in line in class default\n"


def test_nodes_show_who_has_which_gpu(server: FakeTgpu, tgpu: Tgpu) -> None:
    device = {"uuid": "u", "model": "A100", "memory_mb": 81920, "healthy": True, "note": "", "allocated": 0}
    node = {
        "node_id": "n1",
        "status": "ready",
        "gpu_total": 2,
        "gpu_allocated": 1,
        "cpu_total": 8,
        "cpu_allocated": 2,
        "mem_total_mb": 65536,
        "mem_allocated_mb": 1024,
        "serves": "*",
        "devices": [
            device
            | {"index": 0, "allocated": 1, "holders": [{"job_id": 3, "user_id": "bob"}], "busy_percent": 97},
            device | {"index": 1, "healthy": False, "note": "fell off the bus"},
            device | {"index": 2, "allocated": 0.5, "taken": True, "holders": []},
        ],
    }
    server.fixed["/nodes"] = {"nodes": [node]}
    table = rows(tgpu("nodes").stdout)
    assert table[1][:5] == ["n1", "ready", "1/2", "2/8", "1G/64G"]
    assert table[-3] == ["n1", "0", "A100", "bob (job 3)", "1", "97%", "80G"]
    assert table[-2] == ["n1", "1", "A100", "not given out", "0", "-", "80G", "fell off the bus"]
    assert table[-1] == ["n1", "2", "A100", "in use", "0.5", "-", "80G"], "by a job that one may not know of"
    assert json.loads(tgpu("nodes", "--json").stdout) == [node]


def test_nodes_show_a_copy_that_was_refused(server: FakeTgpu, tgpu: Tgpu) -> None:
    copy = "a copy of it on ws2 was refused 3 times: stop that agent, or join it again"
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready", "refused_copy": copy}]}
    assert f"! n1: {copy}" in tgpu("nodes").stdout


def test_nodes_show_what_was_measured_and_who_uses_a_gpu_outside(server: FakeTgpu, tgpu: Tgpu) -> None:
    device = {"uuid": "u", "model": "A100", "memory_mb": 81920, "healthy": True, "note": "", "allocated": 0}
    foreign = [
        {"pid": 4711, "user": "bob", "program": "python", "memory_mb": 12288},
        {"pid": 4712, "user": "eve", "program": "Xorg", "memory_mb": None},
    ]
    node = {
        "node_id": "n1",
        "status": "ready",
        "devices": [
            device
            | {"index": 0, "usable": True, "temperature_c": 91, "power_w": 391, "throttled": "heat"}
            | {"ecc_uncorrected": 3},
            device | {"index": 1, "usable": False, "foreign": foreign},
        ],
    }
    server.fixed["/nodes"] = {"nodes": [node]}
    table = rows(tgpu("nodes", "show", "n1").stdout)
    assert table[-3][5:] == ["BUSY", "TEMP", "POWER", "MEMORY", "NOTE"]
    assert table[-2][3:] == ["free", "0", "-", "91°C", "391W", "80G", "slowed down by heat; 3 memory errors"]
    assert table[-1][3] == "not given out"
    assert table[-1][-1] == (
        "bob's python (pid 4711, 12G) outside of tgpu; eve's Xorg (pid 4712) outside of tgpu"
    )


def test_nodes_show_pools_and_named_resources_where_there_are_any(server: FakeTgpu, tgpu: Tgpu) -> None:
    plain = {"node_id": "n1", "status": "ready", "pool": "default", "generic_total": {}}
    server.fixed["/nodes"] = {"nodes": [plain]}
    assert not {"POOL", "RESOURCES"} & set(rows(tgpu("nodes").stdout)[0])
    fast = {
        "node_id": "n2",
        "status": "ready",
        "pool": "fast",
        "generic_total": {"fpga": 2, "tape": 1},
        "generic_allocated": {"fpga": 1},
    }
    server.fixed["/nodes"] = {"nodes": [plain, fast]}
    head, first, second = rows(tgpu("nodes").stdout)
    assert (head[2], head[7]) == ("POOL", "RESOURCES")
    assert first[2] == "default"
    assert (second[2], second[7]) == ("fast", "fpga 1/2 tape 0/1")
    server.fixed["/nodes"] = {"nodes": [fast]}
    assert rows(tgpu("nodes").stdout)[1][2] == "fast"


def test_queues_and_stats_print_what_the_server_says(server: FakeTgpu, tgpu: Tgpu) -> None:
    queue = {
        "queue_id": "default/high",
        "tenant_id": "default",
        "priority_class": "high",
        "depth": 3,
        "head_job_id": 9,
        "head_reasons": [{"code": "gpus", "text": "needs 2 GPUs; ws1 has 1 of 8 GPUs free", "data": {}}],
        "weight": 2,
        "weighted_share": 0.25,
        "dominant_share": 0.5,
    }
    server.fixed |= {
        "/queues": {"queues": [queue]},
        "/stats": {"jobs": {"running": 2, "failed": 0}, "new_figure": 1.5},
    }
    assert rows(tgpu("queues").stdout)[1] == [
        "default", "high", "3", "2", "0.25", "0.5", "9", "needs 2 GPUs; ws1 has 1 of 8 GPUs free",
    ]  # fmt: skip
    assert json.loads(tgpu("queues", "--json").stdout) == [queue]
    assert tgpu("stats").stdout == "jobs        running 2  failed 0\nnew figure  1.5\n"
    assert json.loads(tgpu("stats", "--json").stdout)["new_figure"] == 1.5
    alert = {"name": "budget-near", "text": "lab has used 81 %", "since": "2026-01-31T12:00:00.000Z"}
    server.fixed["/stats"] = {"alerts": [alert, alert | {"name": "budget-spent"}]}
    assert tgpu("stats").stdout == (
        "alerts\n  budget-near: lab has used 81 %\n  budget-spent: lab has used 81 %\n"
    )


def test_history_counts_gpu_hours(server: FakeTgpu, tgpu: Tgpu) -> None:
    ended = {
        "ended_at": "2026-01-31T13:30:01.000Z",
        "exit_code": 1,
        "cause": "time-limit",
        "status": "failed",
    }
    server.jobs = {1: a_job(1), 2: a_job(2, **RUNNING | ended)}
    text = tgpu("history", "--since", "2026-01-01").stdout
    assert rows(text)[1] == [
        "2", "job2", "ann", "failed", "2026-01-31 13:30:01", "1h30m", "1", "time limit", "2", "3.00",
    ]  # fmt: skip
    assert text.splitlines()[-1] == "1 job, 3.00 GPU-hours"
    assert server.asked("GET", "/jobs")[0]["query"]["ended_since"] == "2026-01-01T00:00:00Z"
    assert tgpu("history", "--since", "yesterday-ish").returncode == 2


def test_join_tokens_are_shown_once_listed_and_revoked(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed |= {"/join-tokens": {"token": "tgpujoin_secret", "token_id": 4}, "/join-tokens/4": {}}
    asked = ("--expires", "2h", "--uses", "16", "--pool", "training", "--note", "rack 7")
    assert tgpu("nodes", "join-token", *asked).stdout == "tgpujoin_secret\n"
    assert tgpu("nodes", "join-token", "--uses", "any", "-q").stdout == "tgpujoin_secret\n"
    assert [one["body"] for one in server.asked("POST", "/join-tokens")] == [
        {"expires_in_s": 7200, "uses": 16, "pool": "training", "note": "rack 7"},
        {"expires_in_s": 3600, "uses": None, "pool": None, "note": ""},
    ]
    assert tgpu("nodes", "join-tokens", "revoke", "4").stdout == "Join token 4 is revoked\n"
    row = {"token_id": 4, "created_by": "ann", "uses_left": None, "pool": "training", "note": "rack"}
    server.fixed["/join-tokens"] = {"join_tokens": [row]}
    assert rows(tgpu("nodes", "join-tokens").stdout)[1] == [
        "4",
        "good",
        "ann",
        "never",
        "any",
        "training",
        "rack",
    ]
    server.fixed["/join-tokens/4"] = Refusal(404, "there is no join token with that id", "not-found")
    assert tgpu("nodes", "join-tokens", "revoke", "4").returncode == 4


def test_a_join_token_is_asked_for_within_reason(tgpu: Tgpu) -> None:
    for words, sentence in (
        (("join-token", "--uses", "few"), "--uses must be a whole number, or `any`; got 'few'"),
        (("join-token", "--expires", "soon"), "--expires must be a duration"),
        (("join-tokens", "revoke"), "which one? `tgpu nodes join-tokens` lists them"),
    ):
        done = tgpu("nodes", *words)
        assert done.returncode == 2
        assert sentence in done.stderr


def test_the_cluster_s_authority_is_printed_as_it_is(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/ca.pem"] = "a certificate"
    assert tgpu("server-ca").stdout == '"a certificate"\n'
    server.fixed["/ca.pem"] = Refusal(404, "this server has no authority of its own", "not-found")
    done = tgpu("server-ca")
    assert (done.returncode, done.stderr) == (4, "tgpu: this server has no authority of its own\n")


def test_show_keeps_a_command_of_several_lines_on_one_and_leaves_out_what_tgpu_asks_for_itself(
    server: FakeTgpu, tgpu: Tgpu
) -> None:
    server.jobs = {1: a_job(1, command="make\nmake test", node_rules=["tgpu.dev/containers", "ssd"])}
    shown = tgpu("show", "1").stdout
    assert "make ↵ make test\n" in shown
    assert "ssd\n" in shown
    assert "tgpu.dev" not in shown


def test_list_of_expected_starts_shows_pending_jobs_the_soonest_first(server: FakeTgpu, tgpu: Tgpu) -> None:
    soon, later = "2026-01-31T12:30:00.000Z", "2026-02-01T09:00:00.000Z"
    server.jobs = {
        1: a_job(1, **RUNNING),
        2: a_job(2, expected_start=later),
        3: a_job(3),
        4: a_job(4, expected_start=soon),
    }
    table = rows(tgpu("list", "--start").stdout)
    assert "START" in table[0]
    assert "NODE" not in table[0]
    assert [row[0] for row in table[1:]] == ["4", "2", "3"], "those without an estimate are last"
    at = table[0].index("START")
    assert [row[at] for row in table[1:3]] == [short_time(each, time.time()) for each in (soon, later)]
    assert server.asked("GET", "/jobs")[-1]["query"]["expected_start"] == "true"
    told = json.loads(tgpu("list", "--start", "--json").stdout)
    assert [job.get("expected_start") for job in told] == [soon, later, None]


def test_list_asks_for_no_expected_starts_by_default(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1)}
    assert "START" not in tgpu("list").stdout
    assert "expected_start" not in server.asked("GET", "/jobs")[-1]["query"]
    assert "not allowed with" in tgpu("list", "--start", "--all").stderr
