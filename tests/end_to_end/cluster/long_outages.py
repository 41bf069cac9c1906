"""Outages as long as real ones, with the timers that users get. Twelve minutes: `make test-outages`."""

import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.cluster.submitting import Submitting
from tests.end_to_end.cluster.test_chaos import storm
from tests.end_to_end.cluster.whole_cluster import Cluster
from tests.postgres_server import PostgresServer

LEADS_WITHIN_S = 10
DISPATCHES_WITHIN_S = 8
"""After the leader stops answering: a lease of 5 s, and the time until agents reach the next leader."""
ELSEWHERE_WITHIN_S = 30
DATABASE_AWAY_S = 300
LEADER_STOPPED_S = 60


@pytest.fixture
def cluster(postgres_url: str) -> Iterator[Cluster]:
    base = Path(tempfile.mkdtemp(prefix="tgpu-", dir="/tmp"))
    base.chmod(0o755)
    one = Cluster(base, postgres_url, timers={})
    try:
        one.up()
        yield one
    finally:
        one.remove()


def _runs_elsewhere(cluster: Cluster, job: int, node: str, at: int) -> bool:
    shown = cluster.show(job, at=at)
    return shown["status"] == "running" and shown["assigned_node_id"] != node


def test_a_node_dies(cluster: Cluster) -> None:
    job = cluster.submit("--gpus", "2", "--", "sleep", "600")
    node = cluster.wait_status(job, "running")["assigned_node_id"]
    cluster.kill_node(cluster.agent(node))
    cluster.wait_until(
        lambda: _runs_elsewhere(cluster, job, node, 0), "it runs elsewhere", ELSEWHERE_WITHIN_S
    )
    assert len(cluster.show(job)["attempts"]) == 2


def test_a_node_and_the_leader_die_at_the_same_moment(cluster: Cluster) -> None:
    leader, other = cluster.leader(), cluster.others()[0]
    job = cluster.submit("--gpus", "2", "--", "sleep", "600", at=other)
    node = cluster.wait_status(job, "running", at=other)["assigned_node_id"]
    cluster.kill_node(cluster.agent(node))
    cluster.servers[leader].kill()
    cluster.wait_until(
        lambda: _runs_elsewhere(cluster, job, node, other), "it runs elsewhere", ELSEWHERE_WITHIN_S
    )
    assert len(cluster.show(job, at=other)["attempts"]) == 2


def test_jobs_submitted_beside_a_hung_leader_start_on_the_next_one(cluster: Cluster) -> None:
    leader, other = cluster.leader(), cluster.others()[0]
    cluster.servers[leader].signal(signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        with cluster.client(other) as client:
            job = client.submit(["true"], cwd="/")["job_id"]
            answered_s = time.monotonic() - stopped
            while client.job(job)["status"] in ("pending", "scheduled"):
                assert time.monotonic() - stopped < DISPATCHES_WITHIN_S
                time.sleep(0.05)
        print(f"answered after {answered_s:.2f} s, started after {time.monotonic() - stopped:.2f} s")
    finally:
        cluster.servers[leader].signal(signal.SIGCONT)


def test_the_leader_is_stopped_for_a_minute(cluster: Cluster) -> None:
    leader, others = cluster.leader(), cluster.others()
    job = cluster.submit("--", "sleep", "600", at=others[0])
    cluster.wait_status(job, "running", at=others[0])
    with Submitting(cluster, others) as submitting:
        cluster.servers[leader].signal(signal.SIGSTOP)
        try:
            cluster.wait_until(lambda: cluster.leader() != leader, "another leads", LEADS_WITHIN_S)
            time.sleep(LEADER_STOPPED_S)
        finally:
            cluster.servers[leader].signal(signal.SIGCONT)
        cluster.wait_until(lambda: cluster.answers(cluster.servers[leader]), "it answers again", 30)
    assert submitting.failures == []
    assert cluster.leader() != leader, "it follows"
    for submitted in submitting.jobs:
        ended = cluster.wait_status(submitted, "completed", at=leader)
        assert len(ended["attempts"]) == 1
    shown = cluster.show(job, at=leader)
    assert (shown["status"], len(shown["attempts"])) == ("running", 1)


@pytest.mark.timeout(2 * DATABASE_AWAY_S)
def test_the_database_is_gone_for_five_minutes(cluster: Cluster, postgres: PostgresServer) -> None:
    ending = cluster.submit("--", "sh", "-c", "sleep 60; exit 3")
    lasting = cluster.submit("--", "sleep", "900")
    for job in (ending, lasting):
        cluster.wait_status(job, "running")
    postgres.kill()
    try:
        until = time.monotonic() + DATABASE_AWAY_S
        while time.monotonic() < until:
            refused = cluster.tgpu("submit", "--", "true", check=False)
            assert refused.returncode != 0
            assert "nothing was changed" in refused.stderr
            time.sleep(20)
    finally:
        postgres.start()
    cluster.wait_until(lambda: cluster.answers(cluster.servers[0]), "it answers again", 30)
    ended = cluster.wait_status(ending, "failed")
    assert (ended["exit_code"], len(ended["attempts"])) == (3, 1)
    cluster.wait_until(lambda: cluster.ready() == 3, "all nodes are back", 30)
    shown = cluster.show(lasting)
    assert (shown["status"], len(shown["attempts"])) == ("running", 1)
    cluster.wait_status(cluster.submit("--", "true"), "completed")


@pytest.mark.timeout(900)
def test_a_thousand_tasks_in_a_storm(
    own_cluster: Cluster, postgres: PostgresServer, postgres_url: str
) -> None:
    storm(own_cluster, postgres, postgres_url, jobs=400, indices=400, once=200)
