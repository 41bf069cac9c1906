"""Hundreds of tasks while everything fails that can: each ends once, none is lost, nothing overdrawn."""

import signal
import time

from tests.end_to_end.cluster.event_log import Story
from tests.end_to_end.cluster.whole_cluster import SILENT_S, Cluster
from tests.postgres_server import PostgresServer
from tgpu.client import TgpuError
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import Status

SCRIPT = """
task=$TGPU_JOB_ID.$TGPU_TASK_INDEX
exec 9> {files}/lock.$task
flock --nonblock 9 || echo $task.$TGPU_ATTEMPT >> {files}/together
echo $TGPU_ATTEMPT >> {files}/ran.$task
sleep 0.8
"""


def test_hundreds_of_tasks_in_a_storm(
    own_cluster: Cluster, postgres: PostgresServer, postgres_url: str
) -> None:
    storm(own_cluster, postgres, postgres_url, jobs=200, indices=200, once=100)


def storm(
    cluster: Cluster, postgres: PostgresServer, url: str, *, jobs: int, indices: int, once: int
) -> None:
    """Single jobs, an array that grows all the while and a job that waits for it, and jobs that live at most
    once."""
    script = SCRIPT.format(files=cluster.files)
    submit = ("submit", "--quiet", "--cpus", "1", "--memory", "16M")
    array = int(cluster.tgpu(*submit, "--array", f"0-{indices - 1}", "--", "sh", "-c", script).stdout)
    cluster.tgpu(*submit, "--count", str(jobs), "--", "sh", "-c", script)
    cluster.tgpu(*submit, "--once", "--count", str(once), "--", "sh", "-c", script, at=1)
    last = int(cluster.tgpu(*submit, "--after", str(array), "--", "sh", "-c", script, at=2).stdout)
    for trouble in (kill_leader, stop_leader, kill_agent, cut_off, shake, lambda _: restart(postgres)):
        trouble(cluster)
        time.sleep(1)
    cluster.wait_until(lambda: all_have_ended(cluster), "all have ended", 300)
    cluster.wait_until(lambda: cluster.ready(at=1) == 3, "all nodes are back", 60)
    story = Story(url)
    others = [job for job in story.jobs.values() if job.status is not Status.COMPLETED]
    assert [(job.job_id, job.status, job.cause, job.detail) for job in others] == []
    assert len(story.jobs) == 1 + jobs + once + 1
    tasks = [TaskId(job.job_id, task) for job in story.jobs.values() for task in range(job.spec.task_count)]
    assert story.ends() == dict.fromkeys(tasks, 1)
    array_end, last_start = story.jobs[array].ended_ms, story.jobs[last].started_ms
    assert array_end is not None
    assert last_start is not None
    assert last_start >= array_end
    assert story.broken_promises() == []
    assert story.broken_quotas() == []
    assert all(used == type(used)() for used in story.used.values()), "all quota was given back, once"
    overlapped = (cluster.files / "together").read_text().split() if together(cluster) else []
    at_most_once = {job_id for job_id, job in story.jobs.items() if job.spec.once}
    assert len(at_most_once) == once
    assert [attempt for attempt in overlapped if int(attempt.split(".")[0]) in at_most_once] == []
    for job_id, task in tasks:
        assert (cluster.files / f"ran.{job_id}.{task}").exists(), f"{job_id}.{task} never ran"


def together(cluster: Cluster) -> bool:
    return (cluster.files / "together").exists()


def all_have_ended(cluster: Cluster) -> bool:
    try:
        with cluster.client(at=1) as client:
            return not list(client.jobs(limit=1, status="pending,scheduled,running"))
    except TgpuError:
        return False  # nobody leads, or the database is away


def kill_leader(cluster: Cluster) -> None:
    victim = cluster.servers[cluster.leader()]
    victim.kill()
    time.sleep(2)
    victim.start()


def stop_leader(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.servers[leader].signal(signal.SIGSTOP)
    cluster.wait_until(lambda: cluster.leader() != leader, "another leads", 15)
    time.sleep(2)
    cluster.servers[leader].signal(signal.SIGCONT)


def kill_agent(cluster: Cluster) -> None:
    """Supervisors and tasks live on; then the agent comes back."""
    cluster.agents[0].kill()
    time.sleep(1)
    cluster.agents[0].start()


def cut_off(cluster: Cluster) -> None:
    """Longer than the loss time: its tasks run elsewhere, and then it is back."""
    for proxy in cluster.proxies:
        proxy.cut_off("node-2")
    time.sleep(SILENT_S + 4)
    for proxy in cluster.proxies:
        proxy.reconnect("node-2")


def shake(cluster: Cluster) -> None:
    for proxy in cluster.proxies:
        proxy.delay(0.1)
    time.sleep(0.5)
    for proxy in cluster.proxies:
        proxy.half_close()
    time.sleep(1)
    for proxy in cluster.proxies:
        proxy.reset()
        proxy.delay(0)


def restart(postgres: PostgresServer) -> None:
    postgres.kill()
    time.sleep(2)
    postgres.start()
