"""Jobs of several tasks on two real agents: they start together, find each other, and end together."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.gang_cluster import GangCluster, a_gang_cluster

PRINT_ENV = (
    'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK/$NNODES $MASTER_ADDR:$MASTER_PORT'
    ' $TGPU_NODELIST [$CUDA_VISIBLE_DEVICES]"; cat "$TGPU_HOSTFILE"'
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[GangCluster]:
    with a_gang_cluster() as made:
        yield made


def tasks_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = job["task_list"]
    return found


def test_ranks_on_two_nodes_find_each_other_and_the_files_of_mpi(cluster: GangCluster) -> None:
    server = cluster.server
    job_id = server.submit(
        "--nodes", "2", "--ntasks-per-node", "2", "--gpus-per-node", "4", "--", "sh", "-c", PRINT_ENV
    )
    job = server.wait_status(job_id, "completed", "failed")
    assert (job["status"], job["exit_code"], job["task_counts"]) == ("completed", 0, {"completed": 4})
    assert [task["node_id"] for task in tasks_of(job)].count("n1") == 2
    said = [cluster.output(job_id, task).splitlines() for task in range(4)]
    masters = {lines[0].split()[3] for lines in said}
    assert len(masters) == 1
    assert masters.pop().startswith("127.0.0.1:")
    places = [lines[0].split()[:3] for lines in said]
    assert [place[0] for place in places] == ["0/4", "1/4", "2/4", "3/4"]
    assert sorted(place[1] for place in places) == ["0/2", "0/2", "1/2", "1/2"]
    assert sorted(place[2] for place in places) == ["0/2", "0/2", "1/2", "1/2"]
    assert all(len(lines[0].split()[5].strip("[]").split(",")) == 2 for lines in said)
    assert all(lines[1:] == ["127.0.0.1 slots=2"] * 2 for lines in said)
    for name in cluster.nodes:
        left = list((cluster.nodes[name].home / "run" / "gangs").iterdir())
        assert left == [], "nothing of a gang is left when it is over"


def test_one_that_fails_stops_the_others_and_is_the_cause(cluster: GangCluster) -> None:
    server = cluster.server
    job_id = server.submit(
        "--ntasks", "4", "--grace", "5", "--", "sh", "-c", "test $RANK != 2 || exit 7; sleep 300"
    )
    job = server.wait_status(job_id, "completed", "failed")
    assert (job["status"], job["cause"], job["exit_code"]) == ("failed", "exited", 7)
    assert job["task_counts"] == {"failed": 4}
    second, others = tasks_of(job)[2], [tasks_of(job)[at] for at in (0, 1, 3)]
    assert (second["exit_code"], second["cause"]) == (7, "exited")
    where = second["node_id"]
    assert {(task["cause"], task["reason"]) for task in others} == {
        ("gang-broken", f"was stopped with its gang: rank 2 on {where} failed first: exit code 7")
    }


def test_with_keep_going_the_others_finish(cluster: GangCluster) -> None:
    server = cluster.server
    job_id = server.submit("--ntasks", "3", "--keep-going", "--", "sh", "-c", "exit $RANK")
    job = server.wait_status(job_id, "completed", "failed")
    assert (job["status"], job["task_counts"]) == ("failed", {"completed": 1, "failed": 2})
    assert [task["exit_code"] for task in tasks_of(job)] == [0, 1, 2]


def test_groups_run_what_each_of_them_says(cluster: GangCluster, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "command: echo worker $RANK $ROLE\n"
        "env: {ROLE: follower}\n"
        "groups:\n"
        "  - {name: head, command: echo head $RANK $ROLE, cpus: 0.5, env: {ROLE: leader}}\n"
        "  - {name: worker, tasks: 2, gpus: 1}\n",
        encoding="utf-8",
    )
    job_id = cluster.server.submit("-f", str(file))
    job = cluster.server.wait_status(job_id, "completed", "failed")
    assert [(task["group"], len(task["devices"])) for task in tasks_of(job)] == [
        ("head", 0),
        ("worker", 1),
        ("worker", 1),
    ]
    assert cluster.server.tgpu("logs", str(job_id)).stdout.splitlines() == [
        "[0] head 0 leader",
        "[1] worker 1 follower",
        "[2] worker 2 follower",
    ]


def test_a_cancelled_gang_is_gone_whole_and_the_list_says_how_many_run(cluster: GangCluster) -> None:
    server = cluster.server
    job_id = server.submit("--nodes", "2", "--", "sleep", "300")
    server.wait_until(lambda: server.show(job_id)["task_counts"] == {"running": 2}, "both run")
    assert "n1" in server.tgpu("show", f"{job_id}.0").stdout + server.tgpu("show", f"{job_id}.1").stdout
    server.tgpu("cancel", str(job_id))
    job = server.wait_status(job_id, "cancelled", "failed", "completed")
    assert (job["status"], job["task_counts"]) == ("cancelled", {"cancelled": 2})


def test_agents_that_die_while_tasks_are_prepared_hold_up_the_gang_and_no_more(
    cluster: GangCluster,
) -> None:
    """One has its task ready, the other has not even heard of it: both forget, and are told again."""
    server = cluster.server
    cluster.processes["n2"].send_signal(signal.SIGSTOP)
    job_id = server.submit("--nodes", "2", "--", "sh", "-c", "echo begun $TGPU_ATTEMPT; sleep 0.5")
    server.wait_until(lambda: server.show(job_id)["task_counts"] == {"scheduled": 2}, "both have nodes")
    time.sleep(1)
    assert server.show(job_id)["task_counts"] == {"scheduled": 2}, "none starts before all are ready"
    for name in ("n1", "n2"):
        cluster.kill_agent(name)
        cluster.start_agent(name)
    job = server.wait_status(job_id, "completed", "failed", within_s=60)
    assert (job["status"], job["task_counts"]) == ("completed", {"completed": 2})
    assert [cluster.output(job_id, task) for task in range(2)] == ["begun 1\n", "begun 1\n"]


def test_a_gang_that_loses_a_task_starts_anew_whole(cluster: GangCluster) -> None:
    """Its machine restarts, as far as the records tell."""
    server, gate = cluster.server, cluster.folder / "gate"
    words = f"echo begun $TGPU_ATTEMPT; until test -e {gate}; do sleep 0.05; done"
    job_id = server.submit("--nodes", "2", "--grace", "1", "--", "sh", "-c", words)
    server.wait_until(lambda: server.show(job_id)["task_counts"] == {"running": 2}, "both run")
    cluster.kill_agent("n2")
    cluster.nodes["n2"].pretend_reboot()
    cluster.start_agent("n2")
    server.wait_until(lambda: server.show(job_id)["attempt_count"] == 2, "it is tried again", 40)
    gate.touch()
    job = server.wait_status(job_id, "completed", "failed", within_s=40)
    assert (job["status"], [task["attempt_count"] for task in tasks_of(job)]) == ("completed", [2, 2])
    causes = {attempt["attempt_id"]: attempt["cause"] for attempt in job["attempts"]}
    assert sorted(causes[f"{job_id}.{task}.1"] for task in range(2)) == ["gang-restarted", "rebooted"]
