"""Jobs and nodes as Slurm's commands print them, byte for byte as scripts take them apart."""

import time
from typing import Any

import pytest

from tests.client.fake_tgpu import a_job, an_attempt
from tgpu.dialects.slurm import (
    account_columns,
    columns,
    job_columns,
    json_shapes,
    launching,
    node_columns,
    pages,
    states,
)
from tgpu.dialects.slurm.account_columns import Line, sheet
from tgpu.dialects.slurm.node_columns import Part
from tgpu.dialects.slurm.record import Record
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.runner import memory_words

NOW = 1769861400.0  # 2026-01-31T12:10:00Z


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def running(**more: Any) -> Record:
    facts = {
        "status": "running",
        "started_at": "2026-01-31T12:08:30.000Z",
        "assigned_node_id": "n1",
        "time_limit_s": 3600,
        "cpu_request": 4,
        "mem_request_mb": 16384,
        "gpu_request": 2,
        "gpu_type": "a100",
        "user_id": "root",
        "annotations": {"tasks": "2", "cpus-per-task": "2", "script": "/home/ann/train.sh"},
    }
    return Record(a_job(42, **(facts | more)), NOW)


def printed(form: str, *records: Record, header: bool = True) -> list[str]:
    return list(columns.short(form, job_columns.SHORT).lines(records, header=header))


def test_the_queue_as_it_is_printed_by_default() -> None:
    waiting = Record(a_job(7, name="a-very-long-name"), NOW, reason="Resources")
    assert printed(job_columns.DEFAULT, waiting, running(pool="gpu")) == [
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
        "                 7   default a-very-l      ann PD       0:00      1 (Resources)",
        "                42       gpu    job42     root  R       1:30      1 n1",
    ]


def test_fields_by_letter() -> None:
    form = "%i|%T|%M|%l|%L|%D|%C|%m|%b|%S|%e|%V|%u|%U|%P|%q|%a|%N|%r|%o|%Z|%Q"
    assert printed(form, running(), header=False) == [
        (
            "42|RUNNING|1:30|1:00:00|58:30|1|4|16G|gres:gpu:a100:2|2026-01-31T12:08:30|2026-01-31T13:08:30|"
            "2026-01-31T12:00:00|root|0|default|normal|default|n1|None|/home/ann/train.sh|/tmp|1"
        )
    ]
    assert printed("%.5i|%-5j|%3t|x", running(), header=False) == ["   42|%-5j|R  |x"]
    with pytest.raises(SlurmError, match="%i is no field"):
        columns.short("%i", node_columns.SHORT)


def test_a_script_of_which_a_program_ran_out_of_memory_is_told_of_as_such() -> None:
    cause, words = memory_words.verdict("exited", None, 1, True, 60, 50)
    record = running(status="failed", cause=cause, reason=f"exit code 137: {words}", exit_code=137)
    assert (record.state, states.reason_of(record.job), record.exit_code) == (
        "OUT_OF_MEMORY", "OutOfMemory", "0:125",
    )  # fmt: skip


def test_a_job_that_waits_for_a_moment_starts_then() -> None:
    later = Record(a_job(7, begin_at="2026-01-31T18:00:00Z", time_limit_s=3600), NOW, reason="BeginTime")
    past = Record(a_job(8, begin_at="2026-01-31T12:00:00Z", time_limit_s=3600), NOW, reason="Resources")
    assert printed("%i %S %e", later, past, header=False) == [
        "7 2026-01-31T18:00:00 2026-01-31T19:00:00",
        "8 N/A N/A",
    ]
    assert "StartTime=2026-01-31T18:00:00 EndTime=2026-01-31T19:00:00" in pages.job_page(later)
    assert job_columns.sort_key("S")(later) < job_columns.sort_key("S")(past)  # type: ignore[operator]


def test_numbers_and_older_names_as_slurm_has_them() -> None:
    nothing = running(mem_request_mb=0)
    assert printed("%U|%m", nothing) == ["UID|MIN_MEMORY", "0|0"]
    assert next(columns.long("gres:15", job_columns.LONG_NAMES).lines([])) == "TRES_PER_NODE  "


def test_memory_is_told_in_the_unit_that_was_asked_for() -> None:
    lines = [Line(ended()), Line(ended(), batch=True)]
    for unit, shown in (("", ["|16G", "307200K|"]), ("G", ["|16G", "0.29G|"]), ("m", ["|16384M", "300M|"])):
        assert list(sheet("maxrss,reqmem", unit).separated(lines, "|", header=False, last=False)) == shown
    with pytest.raises(SlurmError, match="--units must be K, M, G, T or P; got 'x'"):
        sheet("maxrss", "x")


def test_output_files_are_named_with_their_zeros() -> None:
    task = {"task_index": 3, "array_index": 3, "status": "running", "node_id": "n2"}
    job = a_job(42, array="0-9", output="%A_%3a-%%a-%x.out", cwd="/home/ann", annotations={})
    assert Record(job, NOW, task=task).file("output") == "/home/ann/42_003-%a-job42.out"


def test_fields_by_name() -> None:
    table = columns.long("JobID,State:10,UserName:.8,tres-alloc:60,BurstBuffer:4", job_columns.LONG_NAMES)
    assert list(table.lines([running()])) == [
        f"{'JOBID':<20}{'STATE':<10}{'USER':>8}{'TRES_ALLOC':<60}BURS",
        f"{'42':<20}{'RUNNING':<10}{'root':>8}{'cpu=4,mem=16G,node=1,billing=4,gres/gpu=2':<60}N/A ",
    ]
    with pytest.raises(SlurmError, match="'Colour' is no field"):
        columns.long("JobID,Colour", job_columns.LONG_NAMES)


def test_what_a_job_of_unlike_tasks_has_is_the_sum_of_its_groups() -> None:
    head = {"name": "head", "tasks": 1, "cpu_request": 4, "mem_request_mb": 0, "gpu_request": 0}
    worker = {"name": "worker", "tasks": 3, "cpu_request": 1, "mem_request_mb": 1024, "gpu_request": 2}
    record = running(
        tasks=4, groups=[head, worker], **{name: head[name] for name in head if "request" in name}
    )
    assert record.tres == "cpu=7,mem=3G,node=1,billing=7,gres/gpu=6"


def test_every_field_can_be_printed_of_every_job() -> None:
    jobs = [running(), Record(a_job(1), NOW), Record(a_job(2, status="failed", cause="time-limit"), NOW)]
    for letter in job_columns.SHORT:
        assert len(printed(f"%{letter}", *jobs)) == 4
    for name in job_columns.LONG_NAMES:
        assert len(list(columns.long(name, job_columns.LONG_NAMES).lines(jobs))) == 4
    for name in account_columns.FIELDS:
        assert len(list(sheet(name).aligned([Line(job) for job in jobs], header=True))) == 5


def test_an_array_s_indices() -> None:
    job = a_job(42, array="0-9", at_once=2, annotations={})
    task = {"task_index": 3, "array_index": 3, "status": "running", "node_id": "n2",
            "started_at": "2026-01-31T12:09:00.000Z"}  # fmt: skip
    one, rest = Record(job, NOW, task=task), Record(job, NOW, indices="4-9%2", reason="JobArrayTaskLimit")
    assert printed("%i %A %F %K %t %R", one, rest, header=False) == [
        "42_3 1000042003 42 3 R n2",
        "42_[4-9%2] 42 42 4-9%2 PD (JobArrayTaskLimit)",
    ]
    assert json_shapes.in_queue(one)["array_task_id"] == 3
    page = pages.job_page(one, one_line=True)
    assert page.startswith("JobId=1000042003 ArrayJobId=42 ArrayTaskId=3 ArrayTaskThrottle=2 JobName=")


def test_a_command_line_has_no_script() -> None:
    assert running(command=launching.command("#!/bin/sh\ntrue\n", []), annotations={}).command == "(null)"


@pytest.mark.parametrize(
    ("facts", "state", "reason"),
    [
        ({"status": "pending"}, "PENDING", "Priority"),
        ({"status": "pending", "held_by": "ann"}, "PENDING", "JobHeldUser"),
        ({"status": "pending", "needs_met": False}, "PENDING", "Dependency"),
        ({"status": "pending", "begin_at": "2027-01-01T00:00:00Z"}, "PENDING", "BeginTime"),
        ({"status": "pending", "held": True}, "PENDING", "AssocGrpCpuLimit"),
        ({"status": "pending", "suspended_by": "ann"}, "SUSPENDED", "None"),
        ({"status": "preempted"}, "PENDING", "Priority"),
        ({"status": "scheduled"}, "CONFIGURING", "None"),
        ({"status": "running"}, "RUNNING", "None"),
        ({"status": "running", "cancel_requested_by": "ann"}, "COMPLETING", "None"),
        ({"status": "completed", "cause": "exited"}, "COMPLETED", "None"),
        ({"status": "cancelled", "cause": "cancelled"}, "CANCELLED", "None"),
        ({"status": "failed", "cause": "exited"}, "FAILED", "NonZeroExitCode"),
        ({"status": "failed", "cause": "time-limit"}, "TIMEOUT", "TimeLimit"),
        ({"status": "failed", "cause": "out-of-memory"}, "OUT_OF_MEMORY", "OutOfMemory"),
        ({"status": "failed", "cause": "node-lost"}, "NODE_FAIL", "NodeDown"),
        ({"status": "failed", "cause": "deadline"}, "DEADLINE", "Deadline"),
        ({"status": "failed", "cause": "dependency-failed"}, "CANCELLED", "DependencyNeverSatisfied"),
    ],
)
def test_states_and_reasons(facts: dict[str, Any], state: str, reason: str) -> None:
    job = a_job(1, **facts)
    assert (states.state_of(job), states.reason_of(job, now="2026-01-31T12:00:00Z")) == (state, reason)


def test_the_first_of_a_queue_waits_for_room() -> None:
    assert states.reason_of(a_job(1), {1}, "2026") == "Resources"


def test_states_as_they_are_asked_for() -> None:
    assert states.states("-t", "R,pd") == {"RUNNING", "PENDING"}
    assert states.states("-t", "Timeout,RQ") == {"TIMEOUT", "RQ"}
    assert states.states("-t", "all") == set(states.COMPACT)
    assert states.statuses_of({"TIMEOUT", "PENDING"}) == {"failed", "pending", "preempted"}
    with pytest.raises(SlurmError, match="SLEEPING is no state"):
        states.states("-t", "sleeping")


def ended(**more: Any) -> Record:
    attempt = an_attempt(1, task_index=0, status="ended", peak_memory_mb=300, cpu_time_s=65.25, **more)
    return running(status="failed", cause="exited", exit_code=3, ended_at="2026-01-31T12:09:35.000Z",
                   attempts=[attempt])  # fmt: skip


def test_accounts_as_they_are_printed_by_default() -> None:
    record = ended()
    lines = [Line(record), Line(record, batch=True)]
    assert list(sheet(account_columns.DEFAULT).aligned(lines, header=True)) == [
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode ",
        "------------ ---------- ---------- ---------- ---------- ---------- -------- ",
        "42                job42    default    default          4     FAILED      3:0 ",
        "42.batch          batch               default          4     FAILED      3:0 ",
    ]


def test_accounts_as_scripts_read_them() -> None:
    lines = [Line(ended()), Line(ended(), batch=True)]
    shown = sheet("JobID,State,ExitCode,Elapsed,MaxRSS,TotalCPU,ReqMem,AllocTRES,Start,End,TimelimitRaw")
    assert list(shown.separated(lines, "|", header=True, last=False)) == [
        "JobID|State|ExitCode|Elapsed|MaxRSS|TotalCPU|ReqMem|AllocTRES|Start|End|TimelimitRaw",
        (
            "42|FAILED|3:0|00:01:05||01:05.250|16G|billing=4,cpu=4,gres/gpu=2,mem=16G,node=1|"
            "2026-01-31T12:08:30|2026-01-31T12:09:35|60"
        ),
        (
            "42.batch|FAILED|3:0|00:01:05|307200K|01:05.250||billing=4,cpu=4,gres/gpu=2,mem=16G,node=1|"
            "2026-01-31T12:08:30|2026-01-31T12:09:35|"
        ),
    ]
    assert next(sheet("jobid").separated([], "^", header=True, last=True)) == "JobID^"


def test_what_is_too_long_ends_with_a_plus() -> None:
    record = running(status="cancelled", cancel_requested_by="root", name="a-very-long-name")
    (line,) = sheet("jobname,state,state%20,jobid%-6").aligned([Line(record)], header=False)
    assert line == "a-very-lo+ CANCELLED+       CANCELLED by 0 42     "
    with pytest.raises(SlurmError, match="'colour' is no field"):
        sheet("jobid,colour")


def test_one_that_a_signal_ended() -> None:
    assert running(status="failed", cause="signalled", attempts=[an_attempt(signal=9)]).exit_code == "0:9"


def test_jobs_as_json() -> None:
    one, over = json_shapes.in_queue(running()), json_shapes.accounted(ended())
    kept = ("job_id", "array_job_id", "job_state", "nodes", "time_limit", "submit_time", "user_id")
    assert [one[name] for name in kept] == [42, 0, "RUNNING", "n1", 60, 1769860800, 0]
    assert (over["state"], over["exit_code"], over["time"]["elapsed"], over["array"]["job_id"]) == (
        {"current": "FAILED", "reason": "None"},
        {"status": "ERROR", "return_code": 3},
        65,
        0,
    )


def test_a_job_s_page() -> None:
    page = pages.job_page(running(dialect="slurm", output="slurm-%j.out", cwd="/home/ann", requeue=True))
    found = dict(word.split("=", 1) for word in page.split() if "=" in word)
    expected = {
        "JobId": "42", "JobName": "job42", "UserId": "root(0)", "JobState": "RUNNING", "Reason": "None",
        "Requeue": "1", "Restarts": "0", "ExitCode": "0:0", "RunTime": "00:01:30", "TimeLimit": "01:00:00",
        "SubmitTime": "2026-01-31T12:00:00", "StartTime": "2026-01-31T12:08:30",
        "EndTime": "2026-01-31T13:08:30", "NodeList": "n1", "BatchHost": "n1", "NumNodes": "1",
        "NumCPUs": "4", "NumTasks": "2", "CPUs/Task": "2",
        "TRES": "cpu=4,mem=16G,node=1,billing=4,gres/gpu=2",
        "MinMemoryNode": "16G", "Command": "/home/ann/train.sh", "WorkDir": "/home/ann",
        "StdOut": "/home/ann/slurm-42.out", "StdErr": "/home/ann/slurm-42.out", "Dependency": "(null)",
        "TresPerNode": "gres:gpu:a100:2",
    }  # fmt: skip
    assert {key: found.get(key) for key in expected} == expected
    assert page.startswith("JobId=42 JobName=job42\n   UserId=")
    assert "\n" not in pages.job_page(running(), one_line=True)


def a_node(name: str, **more: Any) -> dict[str, Any]:
    return {
        "node_id": name, "pool": "default", "status": "ready", "cpu_total": 16, "mem_total_mb": 65536,
        "disk_total_mb": 1000, "gpu_total": 2, "generic_total": {}, "cpu_allocated": 0, "mem_allocated_mb": 0,
        "gpu_allocated": 0, "devices": [{"model": "NVIDIA A100"}] * 2, "running": [],
        "labels": {"nvlink": "1", "tgpu/host": "x"}, "drain": None,
    } | more  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, "idle"),
        ({"cpu_allocated": 4}, "mixed"),
        ({"cpu_allocated": 16}, "allocated"),
        ({"status": "draining"}, "drained"),
        ({"status": "draining", "running": ["42.0"]}, "draining"),
        ({"status": "offline"}, "down*"),
    ],
)
def test_states_of_nodes(facts: dict[str, Any], state: str) -> None:
    assert node_columns.state_of(a_node("n1", **facts)) == state


def test_what_is_told_of_a_partition() -> None:
    part = Part("gpu", [a_node("n1"), a_node("n2", cpu_allocated=4, mem_total_mb=32768)], default=True)
    form = "%P|%a|%l|%D|%N|%F|%C|%c|%m|%G|%f"
    assert list(columns.short(form, node_columns.SHORT).lines([part], header=False)) == [
        "gpu*|up|infinite|2|n[1-2]|1/1/0/2|4/28/0/32|16|32768+|gpu:NVIDIA_A100:2|nvlink"
    ]
    for letter in node_columns.SHORT:
        assert len(list(columns.short(f"%{letter}", node_columns.SHORT).lines([part]))) == 2


def test_pages_of_nodes_and_partitions() -> None:
    node = pages.node_page(a_node("n1", cpu_allocated=2.5, gpu_allocated=1))
    assert "NodeName=n1 " in node
    assert "AllocTRES=cpu=3,mem=0M,gres/gpu=1" in node
    (part,) = pages.parts_of([a_node("n1")])
    assert "PartitionName=default\n" in pages.partition_page(part)
    assert "Nodes=n1" in pages.partition_page(part)


def failed_on_two_nodes(**more: Any) -> Record:
    """The script is task 0; the other node's task is stopped by SIGTERM as soon as the script has failed."""
    attempts = [an_attempt(task_index=0, **more), an_attempt(task_index=1, exit_code=None, signal=15)]
    return running(status="failed", nodes=2, tasks=2, attempts=attempts, **{"cause": "exited", **more})


def test_failed_job_on_two_nodes_has_the_exit_code_of_its_script() -> None:
    assert failed_on_two_nodes(exit_code=3).exit_code == "3:0"
    assert failed_on_two_nodes(cause="signalled", exit_code=None, signal=11).exit_code == "0:11"
