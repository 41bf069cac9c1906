"""Administrators drain, keep and remove nodes, whichever server they ask."""

import signal
import subprocess

import pytest

from tests.end_to_end.cluster.whole_cluster import TGPU, Cluster
from tests.end_to_end.whole_tgpu import after
from tests.postgres_server import CLUSTER
from tgpu.client import TgpuError


def node(cluster: Cluster, name: str, at: int = 0) -> dict[str, object]:
    with cluster.client(at) as client:
        return next(node for node in client.nodes() if node["node_id"] == name)


@pytest.mark.timeout(240)
def test_a_node_is_drained_waited_for_and_removed(own_cluster: Cluster) -> None:
    """Asked at each server in turn: two of them have to ask the leader."""
    cluster = own_cluster
    gate = cluster.files / "gate"
    jobs = [cluster.submit("--gpus", "2", *after(gate, "sleep 1")) for _ in range(3)]
    on = {cluster.wait_status(job, "running")["assigned_node_id"]: job for job in jobs}
    for name, at in (("node-1", 0), ("node-2", 1), ("node-3", 2)):
        cluster.tgpu("nodes", "drain", name, "--reason", f"asked at {at}", at=at)
        assert node(cluster, name, at)["status"] == "draining"
    waiting = cluster.submit("--gpus", "1", "--", "true")
    why = cluster.tgpu("why", str(waiting)).stdout
    assert "drain" in why
    assert cluster.tgpu("nodes", "drain", "node-1", "--where", "x=y", check=False).returncode == 2
    again = cluster.tgpu("nodes", "drain", "node-1", "node-2", at=2, check=False)
    assert again.returncode == 6
    assert "node-1 is draining already, ordered by" in again.stderr
    cluster.tgpu("nodes", "undrain", "node-1", "node-3", at=1)
    gate.touch()
    cluster.tgpu("nodes", "drain", "node-1", "--wait", at=1)
    assert cluster.show(on["node-1"])["status"] == "completed"
    assert cluster.wait_status(waiting, "completed")["assigned_node_id"] == "node-3"

    refused = cluster.tgpu("nodes", "remove", "node-1", at=1, check=False)
    assert refused.returncode == 6
    assert "node-1 is connected: stop its agent first" in refused.stderr
    agent = cluster.agents[0]
    agent.signal(signal.SIGTERM)
    assert agent.process is not None
    agent.process.wait(60)
    cluster.tgpu("nodes", "remove", "node-1", at=2)
    assert {n["node_id"] for n in cluster.json("nodes", at=1)} == {"node-2", "node-3"}
    agent.start()
    cluster.wait_until(lambda: "was removed from it: join with a token" in agent.output, "it is refused", 30)
    assert {n["node_id"] for n in cluster.json("nodes")} == {"node-2", "node-3"}


@pytest.mark.timeout(240)
def test_a_drain_survives_the_leader_the_node_and_its_silence(cluster: Cluster) -> None:
    cluster.tgpu("nodes", "drain", "node-2", "--reason", "new fans")
    agent = cluster.agents[1]
    agent.kill()
    cluster.wait_until(lambda: node(cluster, "node-2")["status"] == "offline", "it is silent")
    leader = cluster.leader()
    cluster.servers[leader].kill()
    other = (leader + 1) % 3
    agent.start()

    def drains() -> bool:
        try:
            return node(cluster, "node-2", other)["status"] == "draining"
        except TgpuError:
            return False  # nobody leads for a moment

    cluster.wait_until(drains, "it drains again", 40)
    drain = node(cluster, "node-2", other)["drain"]
    assert isinstance(drain, dict)
    assert drain["reason"] == "new fans"


@pytest.mark.timeout(240)
def test_a_window_keeps_nodes_for_a_tenant_and_why_names_it(cluster: Cluster) -> None:
    names = ["node-1", "node-2", "node-3"]
    made = cluster.tgpu(
        "windows", "create", "-q", *names, "--for", "1h", "--name", "fans", at=1
    ).stdout.strip()
    kept = cluster.submit("--gpus", "1", "--", "true", at=2)
    cluster.wait_until(
        lambda: "closed until" in cluster.tgpu("why", str(kept), at=1).stdout, "why names the window"
    )
    assert cluster.show(kept)["status"] == "pending"
    cluster.tgpu("windows", "cancel", made, at=2)
    cluster.wait_status(kept, "completed")
    window = ("windows", "create", "-q", *names, "--for", "1h", "--for-tenant", "default")
    made = cluster.tgpu(*window).stdout.strip()
    guest = cluster.submit("--gpus", "1", "--", "true")
    cluster.wait_status(guest, "completed")
    cluster.tgpu("windows", "cancel", made)


@pytest.mark.timeout(120)
def test_doctor_sees_the_store_the_leader_and_the_servers(cluster: Cluster) -> None:
    found = cluster.json("doctor", at=2)
    said = {one["name"]: (one["level"], one["text"]) for one in found}
    assert said["store"][0] == "ok"
    assert said["store"][1].startswith("PostgreSQL ")
    leader = cluster.proxies[cluster.leader()].url
    assert said["servers"] == ("ok", said["servers"][1])
    assert said["servers"][1].endswith(f"; {leader} leads")
    node = subprocess.run(
        [TGPU, "doctor"], env=cluster.agents[0].environ, capture_output=True, text=True, check=False
    ).stdout
    assert f"ok    node      node-1 of cluster {CLUSTER}\n" in node
    for proxy in cluster.proxies:
        assert f"ok    reach     {proxy.url} answers\n" in node
