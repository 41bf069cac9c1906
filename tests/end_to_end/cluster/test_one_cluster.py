"""Three servers, three nodes: a user's command line does not change, whichever server it meets."""

from tests.end_to_end.cluster.whole_cluster import Cluster


def test_jobs_are_taken_by_every_server_and_run_on_every_node(cluster: Cluster) -> None:
    jobs = [
        cluster.submit("--gpus", "2", "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES; sleep 1", at=at)
        for at in (0, 1, 2)
    ]
    ended = [cluster.wait_status(job, "completed", at=at) for job, at in zip(jobs, (1, 2, 0), strict=True)]
    assert {job["assigned_node_id"] for job in ended} == {"node-1", "node-2", "node-3"}
    for job in jobs:
        for at in (0, 1, 2):
            assert cluster.tgpu("logs", str(job), at=at).stdout == "on 0,1\n"
