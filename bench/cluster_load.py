"""A large cluster that is full, with a long queue: how soon does one more job begin?"""

import random
import time
from collections.abc import Mapping

from cluster_installation import Cluster
from fleet import Agents
from installation import wait_until
from postgres_floor import Floor
from report import Case, at_most, figure, percentile
from simulated_agents import GPUS
from tgpu.client import Client

KINDS = 64
BRIEF = {"command": ["sleep", "0.5"], "cpu_request": 1, "cwd": "/"}
"""It needs no GPU, and of CPUs there are some left everywhere."""
REAL_TIME = {**BRIEF, "priority_class": "real-time"}
BATCH = {**BRIEF, "priority_class": "default", "time_limit_s": 600}
P50_MS, P99_MS, DECISION_MS = 20, 50, 500


def fill(cluster: Cluster, agents: Agents, client: Client, waiting: int) -> None:
    """All GPUs are taken; those who wait all want some, in many ways."""
    before, nodes = agents.tally().launched, agents.joined
    taker = {"command": ["sleep", "86400"], "cpu_request": 1, "gpu_request": GPUS, "cwd": "/"}
    client.submit_many([{**taker, "priority_class": "high", "time_limit_s": 86_400}] * nodes)
    wait_until(
        lambda: agents.tally().launched == before + nodes, "all GPUs are taken", nodes / 20 + 60, every_s=0.5
    )
    chance = random.Random(5)
    kinds = [_waiting_kind(chance, number) for number in range(KINDS)]
    client.submit_many([chance.choice(kinds) for _ in range(waiting)])
    wait_until(
        lambda: sum(queue["depth"] for queue in client.queues()) == waiting, "all wait", 300, every_s=0.5
    )
    settle(cluster)


def settle(cluster: Cluster) -> None:
    """Until the server has little to do."""
    used, cpu_s = 1.0, cluster.leader.cpu_s()
    while used > 0.3:
        time.sleep(0.5)
        before, cpu_s = cpu_s, cluster.leader.cpu_s()
        used = cpu_s - before


def _waiting_kind(chance: random.Random, number: int) -> dict[str, object]:
    return {
        "command": ["sleep", "60"],
        "cpu_request": chance.randint(1, 16) + number / 1000,  # so that no two kinds are one
        "mem_request_mb": chance.randint(1, 64) * 1024,
        "gpu_request": chance.choice((0.25, 0.5, 1, 1, 2, 4, 8)),
        "priority_class": chance.choice(("default", "default", "low", "best-effort")),
        "priority": chance.randint(0, 10),
        "time_limit_s": chance.randint(600, 86_400),
        "cwd": "/",
    }


def begins(agents: Agents, client: Client, job: Mapping[str, object]) -> tuple[float, float]:
    """Milliseconds until an agent is told to start it: since it was sent, and since it was answered."""
    sent = time.monotonic()
    job_id = client.submit(**job)["job_id"]  # type: ignore[arg-type]  # its fields
    answered = time.monotonic()
    at = agents.launched_at(job_id)
    return 1000 * (at - sent), max(0.0, 1000 * (at - answered))


def measure(cluster: Cluster, agents: Agents, waiting: int, samples: int, floor: Floor) -> list[Case]:
    chance = random.Random(9)
    urgent, batch, floors, posts = [], [], [], []
    with cluster.leader.client() as client:
        fill(cluster, agents, client, waiting)
        for _ in range(samples):
            floors.append(2000 * floor.commit_s())
            since_sent, since_answered = begins(agents, client, REAL_TIME)
            urgent.append(since_sent)
            posts.append(since_sent - since_answered)
            time.sleep(chance.uniform(0.02, 0.2))
            batch.append(begins(agents, client, BATCH)[1])
            time.sleep(chance.uniform(0.02, 0.2))
    size = f"{agents.joined}_nodes_{waiting}_waiting"
    return [
        at_most(
            f"cluster_real_time_p50_{size}", percentile(urgent, 50), "ms", P50_MS, percentile(floors, 50)
        ),
        at_most(
            f"cluster_real_time_p99_{size}", percentile(urgent, 99), "ms", P99_MS, percentile(floors, 99)
        ),
        figure(f"cluster_real_time_answered_p50_{size}", percentile(posts, 50), "ms"),
        at_most(f"cluster_batch_decision_p99_{size}", percentile(batch, 99), "ms", DECISION_MS),
        figure(f"cluster_batch_decision_p50_{size}", percentile(batch, 50), "ms"),
    ]
