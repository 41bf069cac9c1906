"""The leader is killed as a crash would: when is the next one at work, and is every task still run once?"""

import time
from dataclasses import dataclass

from cluster_installation import Cluster
from fleet import Agents
from installation import wait_until

IN_FLIGHT = 500
"""Tasks that are being placed when the leader dies."""
REPORTED_S = 30
ONE_CPU = {"cpu_request": 1, "cwd": "/"}
FOREVER = {"command": ["sleep", "86400"], **ONE_CPU}


@dataclass(frozen=True, slots=True)
class Crash:
    live: int
    """Tasks that ran when it happened."""
    dispatching_s: float
    """From the kill until an agent is told to start a job that was submitted after it."""
    reconnected_s: float
    """From the kill until a new leader has acknowledged a heartbeat of every agent."""
    wrong: int
    """Tasks that were lost, begun twice or given a second attempt, by the store or by what agents saw."""
    nodes_lost: int


def crash(cluster: Cluster, agents: Agents, in_flight: int, watch_s: float) -> Crash:
    """`watch_s`: how long it is looked on after everybody is back, whether anything goes wrong yet."""
    live = agents.tally().live
    dead, other = cluster.leader, cluster.follower()
    with other.client() as client:
        submitted = client.submit_many([FOREVER] * in_flight) if in_flight else []
        killed = dead.kill()
        submitted.append(client.submit(**FOREVER, priority_class="real-time")["job_id"])
        dispatching_s = agents.launched_at(submitted[-1]) - killed
        reconnected_s = agents.all_up_at() - killed
    expected = live + len(submitted)
    wait_until(lambda: agents.tally().live == expected, f"{expected} tasks run", 60, every_s=0.2)
    time.sleep(watch_s)
    return Crash(
        live=live,
        dispatching_s=dispatching_s,
        reconnected_s=reconnected_s,
        wrong=_still_wrong(cluster, agents),
        nodes_lost=sum(server.nodes_lost for server in cluster.servers),
    )


def _still_wrong(cluster: Cluster, agents: Agents) -> int:
    """What the last reports do not mend once they are committed."""
    deadline = time.monotonic() + REPORTED_S
    while (wrong := _wrong(cluster, agents)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return wrong


def _wrong(cluster: Cluster, agents: Agents) -> int:
    """Nothing has ended or was stopped so far: every task has one attempt, which runs, and was begun once."""
    running = "(state = 'running' AND number = 1)"
    not_running = cluster.count(f"SELECT count(*) FROM attempts WHERE NOT {running}")
    without = cluster.count("SELECT count(*) FROM tasks WHERE status <> 'running' OR attempts <> 1")
    names = "SELECT job_id || '.' || task_index || '.' || number FROM attempts"
    kept = {str(name) for (name,) in cluster.query(names)}
    return not_running + without + len(kept ^ agents.attempts()) + len(agents.tally().twice)
