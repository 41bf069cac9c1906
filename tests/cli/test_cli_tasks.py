"""Jobs of several tasks at the command line: how they are asked for, listed, shown and read."""

from pathlib import Path
from typing import Any

import pytest
from fake_tgpu import FakeTgpu, a_job, an_attempt

from tests.cli.cli_process import Tgpu


def a_task(index: int, **changes: Any) -> dict[str, Any]:
    return {
        "task_id": f"1.{index}",
        "task_index": index,
        "group": "main",
        "status": "running",
        "node_id": f"n{index}",
        "devices": [index],
        "attempt_count": 1,
        "started_at": "2026-01-31T12:00:01.000Z",
        "ended_at": None,
        "cause": None,
        "reason": None,
        "exit_code": None,
    } | changes


def several(**changes: Any) -> dict[str, Any]:
    failed = a_task(2, status="failed", cause="exited", reason="exit code 7", exit_code=7)
    facts: dict[str, Any] = {
        "status": "running",
        "tasks": 3,
        "gang": True,
        "tasks_per_node": 1,
        "topology": "rack",
        "fail_together": False,
        "task_counts": {"running": 2, "failed": 1},
        "task_list": [a_task(0), a_task(1), failed],
    }
    return a_job(1, **(facts | changes))


def test_flags_say_how_many_tasks_there_are(server: FakeTgpu, tgpu: Tgpu) -> None:
    flags = "--nodes 4 --gpus-per-node 8 --ntasks 8 --ntasks-per-node 2 --topology rack --keep-going"
    done = tgpu("submit", "--no-export-env", *flags.split(), "--", "a")
    assert done.returncode == 0, done.stderr
    asked = server.submitted()[0]
    wanted = ("nodes", "gpus_per_node", "tasks", "tasks_per_node", "topology", "fail_together")
    assert [asked[name] for name in wanted] == [4, 8, 8, 2, "rack", False]


def test_groups_come_from_a_file_with_the_names_people_use(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: a\ngroups:\n  - {name: head, cpus: 2}\n  - {tasks: 8, gpus: 1, memory: 2G}\n")
    assert tgpu("submit", "-f", str(file)).returncode == 0
    assert server.submitted()[0]["groups"] == [
        {"name": "head", "cpu_request": 2},
        {"tasks": 8, "gpu_request": 1, "mem_request_mb": 2048},
    ]
    file.write_text("groups:\n  - {name: head, command: a}\n  - {name: worker, command: b, tasks: 8}\n")
    assert tgpu("submit", "-f", str(file)).returncode == 0
    assert "command" not in server.submitted()[-1]
    file.write_text("groups: [{name: head, command: a}, {name: worker}]")
    assert tgpu("submit", "-f", str(file)).stderr.startswith("tgpu: nothing to run")
    file.write_text("jobs:\n  first: {command: a}\n  second: {gpus: 1}\n")
    assert f"nothing to run: job 'second' of {file} has no command" in tgpu("submit", "-f", str(file)).stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("groups: {a: 1}", "groups must be a list of groups"),
        ("groups: [{priority: 3}]", "groups[0] priority is said once, of the whole job"),
        ("groups: [{gpsu: 3}]", "groups[0] unknown key 'gpsu'"),
        ("nodes: 0", "nodes must be a whole number from 1 to 10000; got 0"),
        ("tasks: many", "tasks must be a whole number from 1 to 10000; got 'many'"),
    ],
)
def test_what_cannot_be_meant_is_told(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"command: a\n{text}\n")
    done = tgpu("submit", "-f", str(file))
    assert (done.returncode, server.submitted()) == (2, [])
    assert said in done.stderr


def test_the_list_says_how_many_run(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: several(), 2: a_job(2, status="running", tasks=2, task_counts={"running": 2})}
    shown = tgpu("list").stdout
    assert "2/3 running" in shown
    assert "2/2" not in shown, "all of them is no news"


def test_show_has_all_tasks_and_one_of_them_alone(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: several()}
    shown = tgpu("show", "1").stdout
    assert "3 tasks, which start together, at most 1 on a node, all in one rack, each goes on" in shown
    assert "node       n0, n1, n2\n" in shown
    (line,) = [line for line in shown.splitlines() if "exit code 7" in line]
    assert line.split()[:4] == ["2", "main", "failed", "n2"]
    server.fixed["/jobs/1/tasks"] = {"tasks": [a_task(2, reason="exit code 7")], "next_cursor": None}
    one = tgpu("show", "1.2").stdout
    assert one.startswith("Task 1.2")
    assert "exit code 7" in one
    assert server.asked("GET", "/jobs/1/tasks")[-1]["query"]["index"] == "2"
    server.fixed["/jobs/1/tasks"] = {"tasks": [], "next_cursor": None}
    missing = tgpu("show", "1.7")
    assert (missing.returncode != 0, "job 1 has no task 7" in missing.stderr) == (True, True)


def test_output_of_several_tasks_is_told_apart_and_one_can_be_read_alone(
    server: FakeTgpu, tgpu: Tgpu
) -> None:
    server.jobs = {1: several(status="completed", tasks=2)}
    server.task_logs = {(1, 0): b"a\nb", (1, 1): b"c\n"}
    assert tgpu("logs", "1", "--stdout").stdout == "[0] a\n[0] b\n[1] c\n"
    assert tgpu("logs", "1.1", "--stdout").stdout == "c\n"


def test_a_job_that_a_task_of_a_gang_submits_does_not_meet_its_others(server: FakeTgpu, tgpu: Tgpu) -> None:
    tgpu("submit", "--", "a", TGPU_NODELIST="a,b", RANK="3", MASTER_ADDR="a", EPOCHS="9")
    env = server.submitted()[0]["env"]
    assert (env.get("EPOCHS"), "RANK" in env, "MASTER_ADDR" in env) == ("9", False, False)
    tgpu("submit", "--", "a", RANK="3")
    assert server.submitted()[1]["env"]["RANK"] == "3"


def test_what_each_task_asks_for_is_told_apart_from_the_whole(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, tasks=3, gang=True, gpu_request=1, cpu_request=2, mem_request_mb=1024)}
    row = tgpu("list").stdout.splitlines()[1].split()
    assert [cell for cell in row if cell.startswith("3x")] == ["3x1", "3x2", "3x1G"]
    assert "1 GPU, 2 CPUs, 1G memory each\n" in tgpu("show", "1").stdout


def of_two_kinds(**changes: Any) -> dict[str, Any]:
    """A coordinator without GPUs, and three workers with two GPUs each."""
    head = {"name": "head", "tasks": 1, "command": ["head.py"], "cpu_request": 4, "mem_request_mb": 0}
    worker = {"name": "worker", "tasks": 3, "command": ["work.py"], "cpu_request": 1, "mem_request_mb": 1024}
    facts: dict[str, Any] = {
        "tasks": 4,
        "gang": True,
        "groups": [head | {"gpu_request": 0}, worker | {"gpu_request": 2}],
        "command": ["head.py"],
        "cpu_request": 4,
        "gpu_request": 0,
        "devices": [],
        "task_counts": {"running": 4},
    }
    return a_job(1, **(facts | changes))


def test_a_job_of_several_groups_is_listed_and_shown_with_what_each_of_them_asks_for(
    server: FakeTgpu, tgpu: Tgpu
) -> None:
    server.jobs = {1: of_two_kinds(status="running")}
    titles, line = tgpu("list").stdout.splitlines()
    cells = dict(zip(titles.split(), line.split(), strict=False))
    assert (cells["GPUS"], cells["CPUS"], cells["MEM"]) == ("3x2", "4+3x1", "3x1G")
    shown = [" ".join(text.split()) for text in tgpu("show", "1").stdout.splitlines()]
    assert {"command head: head.py", "command worker: work.py"} <= set(shown)
    assert {"asked head: 4 CPUs", "asked worker: 2 GPUs, 1 CPU, 1G memory each"} <= set(shown)


def test_history_tells_what_the_group_of_each_attempt_had(server: FakeTgpu, tgpu: Tgpu) -> None:
    ran = {"started_at": "2026-01-31T12:00:01.000Z", "ended_at": "2026-01-31T12:30:01.000Z"}
    tries = [
        an_attempt(1, attempt_id=f"1.{index}.1", task_index=index, status="ended", **ran)
        for index in range(4)
    ]
    server.jobs = {1: of_two_kinds(status="completed", task_counts={"completed": 4}, attempts=tries)}
    fields = ("--fields", "id,gpus,gpu-hours,cpus,command")
    lines = tgpu("history", "--attempts", "--csv", "--no-header", *fields).stdout.splitlines()
    assert lines == ["1.0.1,0,0,4,head.py", *(f"1.{index}.1,2,1,1,work.py" for index in (1, 2, 3))]
    _, *_, total = tgpu("history", "--attempts", *fields).stdout.splitlines()
    assert total == "4 attempts, 3.00 GPU-hours"
    _, line, _ = tgpu("history", *fields).stdout.splitlines()
    assert line.split() == ["1", "3x2"], "of tasks that differ no one number is true"
