"""Hundreds of jobs while everything fails that can: each ends once, none is lost, nothing overdrawn."""

import signal
import time

from tests.end_to_end.cluster.event_log import Story
from tests.end_to_end.cluster.whole_cluster import SILENT_S, Cluster
from tests.postgres_server import PostgresServer
from tgpu.client import TgpuError
from tgpu.domain.lifecycle import Status

JOBS, ONCE = 400, 100
SCRIPT = """
exec 9> {files}/lock.$TGPU_JOB_ID
flock --nonblock 9 || echo $TGPU_JOB_ID.$TGPU_ATTEMPT >> {files}/together
echo $TGPU_ATTEMPT >> {files}/ran.$TGPU_JOB_ID
sleep 0.8
"""


def test_hundreds_of_jobs_in_a_storm(
    own_cluster: Cluster, postgres: PostgresServer, postgres_url: str
) -> None:
    cluster = own_cluster
    script = SCRIPT.format(files=cluster.files)
    submit = ("submit", "--quiet", "--cpus", "1", "--memory", "16M")
    cluster.tgpu(*submit, "--count", str(JOBS), "--", "sh", "-c", script)
    cluster.tgpu(*submit, "--once", "--count", str(ONCE), "--", "sh", "-c", script, at=1)
    for trouble in (kill_leader, stop_leader, kill_agent, cut_off, shake, lambda _: restart(postgres)):
        trouble(cluster)
        time.sleep(1)
    cluster.wait_until(lambda: all_have_ended(cluster), "all have ended", 150)
    cluster.wait_until(lambda: cluster.ready(at=1) == 3, "all nodes are back", 60)
    story = Story(postgres_url)
    assert {job.status for job in story.jobs.values()} == {Status.COMPLETED}
    assert story.ends() == dict.fromkeys(range(1, JOBS + ONCE + 1), 1)
    assert story.broken_promises() == []
    assert story.broken_quotas() == []
    assert all(used == type(used)() for used in story.used.values()), "all quota was given back, once"
    overlapped = (cluster.files / "together").read_text().split() if together(cluster) else []
    once = {job_id for job_id, job in story.jobs.items() if job.spec.once}
    assert len(once) == ONCE
    assert [attempt for attempt in overlapped if int(attempt.split(".")[0]) in once] == []
    for job_id in story.jobs:
        assert (cluster.files / f"ran.{job_id}").exists(), f"{job_id} is said to have run and never did"


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
