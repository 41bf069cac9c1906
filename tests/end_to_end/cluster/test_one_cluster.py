"""Three servers, three nodes: a user's command line does not change, whichever server it meets."""

from tests.end_to_end.cluster.whole_cluster import Cluster
from tests.end_to_end.whole_tgpu import after


def test_jobs_are_taken_by_every_server_and_run_on_every_node(cluster: Cluster) -> None:
    gate = cluster.files / "gate"
    command = after(gate, "echo on $CUDA_VISIBLE_DEVICES")
    jobs = [cluster.submit("--gpus", "2", *command, at=at) for at in (0, 1, 2)]
    for job in jobs:
        cluster.wait_status(job, "running")
    gate.touch()
    ended = [cluster.wait_status(job, "completed", at=at) for job, at in zip(jobs, (1, 2, 0), strict=True)]
    assert {job["assigned_node_id"] for job in ended} == {"node-1", "node-2", "node-3"}
    for job in jobs:
        for at in (0, 1, 2):
            assert cluster.tgpu("logs", str(job), at=at).stdout == "on 0,1\n"
