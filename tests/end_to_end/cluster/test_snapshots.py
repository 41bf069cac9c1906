"""Three servers, three nodes: code that one server took runs on every node, whoever leads."""

from pathlib import Path

from tests.end_to_end.cluster.whole_cluster import Cluster


def test_code_that_any_server_took_runs_on_any_node_and_again_through_another(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "word").write_text("then\n")
    flags = ("--snapshot", "--cwd", str(tmp_path), "--cpus", "3")
    command = ("--", "sh", "-c", "cat word; sleep 0.5")
    jobs = [cluster.submit("--hold", *flags, *command, at=at) for at in (0, 1, 2)]
    (tmp_path / "word").write_text("now\n")
    cluster.tgpu("release", *map(str, jobs), at=1)  # together, so that no node can take all in turn
    ended = [cluster.wait_status(job, "completed") for job in jobs]
    assert len({job["snapshot"] for job in ended}) == 1
    assert len({job["assigned_node_id"] for job in ended}) > 1
    (tmp_path / "other").write_text("more\n")
    follower, another = cluster.others()
    only_there = cluster.submit("--hold", *flags, "--", "cat", "other", at=follower)
    cluster.servers[follower].kill()  # another server has the code as well
    cluster.tgpu("release", str(only_there), at=another)
    cluster.wait_status(only_there, "completed", at=another)
    again = cluster.json("rerun", str(only_there), at=another)["job_id"]
    cluster.wait_status(again, "completed", at=another)
    said = [cluster.tgpu("logs", str(job), at=another).stdout for job in (*jobs, only_there, again)]
    assert said == ["then\n"] * 3 + ["more\n"] * 2
    kept = cluster.base.glob("*/server/snapshots/*/*.tar.gz")
    named = [cluster.show(job, another)["snapshot"] for job in (jobs[0], only_there)]
    assert {path.name for path in kept} == {f"{each.removeprefix('sha256:')}.tar.gz" for each in named}
