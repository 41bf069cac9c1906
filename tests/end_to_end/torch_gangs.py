"""Real torch.distributed over gangs, on two real agents: `make test-torch`, which installs torch."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.gang_cluster import GangCluster, a_gang_cluster

TORCH = Path(os.environ["TGPU_TORCH"])
"""The folder of an environment that has torch."""
REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)
print(f"rank {rank} of {size}: {total.item():g}", flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[GangCluster]:
    with a_gang_cluster() as made:
        (made.folder / "reduce.py").write_text(REDUCE, encoding="utf-8")
        yield made


def test_four_ranks_on_two_nodes_add_up_what_each_of_them_has(cluster: GangCluster) -> None:
    server = cluster.server
    job_id = server.submit(
        "--nodes", "2", "--ntasks-per-node", "2", "--", f"{TORCH}/bin/python", f"{cluster.folder}/reduce.py"
    )
    job = server.wait_status(job_id, "completed", "failed", within_s=180)
    said = [cluster.output(job_id, task) for task in range(4)]
    assert (job["status"], said) == ("completed", [f"rank {rank} of 4: 10\n" for rank in range(4)])
    assert {task["node_id"] for task in job["task_list"]} == {"n1", "n2"}


def test_torchrun_on_each_node_starts_the_ranks_itself(cluster: GangCluster) -> None:
    server = cluster.server
    words = (
        f"{TORCH}/bin/torchrun --nnodes $NNODES --nproc-per-node 2 --node-rank $NODE_RANK"
        f" --master-addr $MASTER_ADDR --master-port $MASTER_PORT {cluster.folder}/reduce.py"
    )
    job_id = server.submit("--nodes", "2", "--", "sh", "-c", words)
    job = server.wait_status(job_id, "completed", "failed", within_s=180)
    both = "".join(cluster.output(job_id, task) for task in range(2))
    said = sorted(re.findall(r"rank \d of 4: \d+", both))  # two that share an output may share a line
    assert (job["status"], said) == ("completed", [f"rank {rank} of 4: 10" for rank in range(4)])
