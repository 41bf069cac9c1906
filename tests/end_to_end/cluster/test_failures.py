"""Each part of a cluster is killed, stopped or cut off: jobs notice nothing, or run elsewhere in time."""

import signal
import time

from tests.end_to_end.cluster.submitting import Submitting
from tests.end_to_end.cluster.whole_cluster import SILENT_S, Cluster
from tests.end_to_end.whole_tgpu import after
from tests.postgres_server import PostgresServer

LEADS_WITHIN_S = 10.0
RUNS_ELSEWHERE_WITHIN_S = 2 * SILENT_S + LEADS_WITHIN_S


def test_the_leader_is_killed(cluster: Cluster) -> None:
    leader, others = cluster.leader(), cluster.others()
    mark, gate = cluster.files / "starts", cluster.files / "gate"
    job = cluster.submit(*after(gate, "exit 5", first=f"echo x >> {mark}"), at=others[0])
    cluster.wait_status(job, "running", at=others[0])
    with Submitting(cluster, others) as submitting:
        cluster.servers[leader].kill()
        began = time.monotonic()
        cluster.wait_until(lambda: cluster.leader() != leader, "another leads", LEADS_WITHIN_S)
        cluster.wait_until(
            lambda: (
                bool(submitting.jobs)
                and cluster.show(submitting.jobs[0], at=others[0])["status"] == "completed"
            ),
            "it dispatches",
            LEADS_WITHIN_S + 10 - (time.monotonic() - began),
        )
    assert submitting.failures == []
    gate.touch()
    ended = cluster.wait_status(job, "failed", at=others[0])
    assert (ended["exit_code"], len(ended["attempts"])) == (5, 1)
    assert mark.read_text() == "x\n", "it noticed nothing"
    for submitted in submitting.jobs:
        cluster.wait_status(submitted, "completed", at=others[1])


def test_a_deposed_leader_writes_nothing(cluster: Cluster) -> None:
    leader, others = cluster.leader(), cluster.others()
    job = cluster.submit("--", "sleep", "300", at=others[0])
    cluster.wait_status(job, "running", at=others[0])
    cluster.servers[leader].signal(signal.SIGSTOP)
    try:
        cluster.wait_until(lambda: cluster.leader() != leader, "another leads", LEADS_WITHIN_S)
        cluster.wait_until(lambda: cluster.ready(at=others[0]) == 3, "the nodes are with the new one", 20)
        during = cluster.submit("--", "true", at=others[0])
        cluster.wait_status(during, "completed", at=others[0])
    finally:
        cluster.servers[leader].signal(signal.SIGCONT)
    after = cluster.submit("--", "true", at=leader)
    cluster.wait_status(after, "completed", at=leader)
    assert cluster.leader() != leader, "it follows"
    assert len(cluster.show(job, at=leader)["attempts"]) == 1
    assert cluster.show(job, at=leader)["status"] == "running"
    cluster.tgpu("cancel", str(job), at=leader)
    cluster.wait_status(job, "cancelled", at=leader)


def test_a_node_and_the_leader_die_together(cluster: Cluster) -> None:
    leader, others = cluster.leader(), cluster.others()
    job = cluster.submit("--gpus", "2", "--", "sleep", "300", at=others[0])
    node = cluster.wait_status(job, "running", at=others[0])["assigned_node_id"]
    cluster.kill_node(cluster.agent(node))
    cluster.servers[leader].kill()
    began = time.monotonic()
    cluster.wait_until(
        lambda: (
            cluster.show(job, at=others[0])["assigned_node_id"] not in {node, None}
            and cluster.show(job, at=others[0])["status"] == "running"
        ),
        "it runs elsewhere",
        RUNS_ELSEWHERE_WITHIN_S + 10,
    )
    took = time.monotonic() - began
    again = cluster.show(job, at=others[0])
    assert len(again["attempts"]) == 2
    assert took < 30


def test_a_node_that_was_cut_off_goes_on_and_one_attempt_is_kept(cluster: Cluster) -> None:
    mark = cluster.files / "starts"
    job = cluster.submit("--gpus", "2", "--", "sh", "-c", f"echo $TGPU_ATTEMPT >> {mark}; sleep 300")
    node = cluster.wait_status(job, "running")["assigned_node_id"]
    for proxy in cluster.proxies:
        proxy.cut_off(node)
    cluster.wait_until(lambda: mark.read_text().split() == ["1", "2"], "it runs elsewhere, too", 30)
    for proxy in cluster.proxies:
        proxy.reconnect(node)
    cluster.wait_until(
        lambda: cluster.show(job)["assigned_node_id"] == node, "the one that has run longest is kept", 30
    )
    cluster.wait_until(lambda: cluster.live_attempts(job) == {1}, "the other is stopped", 30)
    assert cluster.show(job)["status"] == "running"
    cluster.tgpu("cancel", str(job))
    cluster.wait_status(job, "cancelled")
    cluster.wait_until(lambda: cluster.live_attempts(job) == set(), "nothing is left", 30)


def test_the_database_is_away(cluster: Cluster, postgres: PostgresServer) -> None:
    short = cluster.submit("--", "sh", "-c", "sleep 4; exit 3")
    long = cluster.submit("--", "sleep", "300")
    cluster.wait_status(short, "running")
    cluster.wait_status(long, "running")
    postgres.kill()
    try:
        refused = cluster.tgpu("submit", "--", "true", check=False)
        assert refused.returncode != 0
        assert "nothing was changed" in refused.stderr
        head = cluster.raw(b'POST /jobs HTTP/1.1\r\nhost: x\r\ncontent-length: 18\r\n\r\n{"command":"true"}')
        assert head.startswith("HTTP/1.1 503 ")
        assert "\r\nretry-after: " in head.lower()
        time.sleep(8)
    finally:
        postgres.start()
    cluster.wait_until(lambda: cluster.answers(cluster.servers[0]), "it answers again", 30)
    assert cluster.wait_status(short, "failed")["exit_code"] == 3
    cluster.wait_until(lambda: cluster.ready() == 3, "all nodes are back", 30)
    job = cluster.show(long)
    assert (job["status"], len(job["attempts"])) == ("running", 1)
    after = cluster.submit("--", "true")
    cluster.wait_status(after, "completed")
