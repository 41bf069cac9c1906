"""A cluster of up to 10,000 nodes on one machine: real servers, a real PostgreSQL with fsync, fake agents.

The agents (`simulated_agents.py`) speak the real protocol from one process, which shares the cores with the
servers and the database. A server's CPU is what its own process used, by its process times.

`idle`: agents that only beat, every 5 s; the server's CPU and memory, and nodes taken for lost though they
are there. The baseline is the same with a tenth of them; `growth`: how many times more CPU all of them cost.
`placements`: a queue that all fits on drained nodes; tasks per second from the order to take tasks again
until the last agent was told. Baseline: single rows per second that a bare connection commits.
`latency`: every GPU is taken and a long queue wants some. A real-time job that fits: from before its POST
until its agent has the instruction to start it (baseline: two bare commits, in turns with it). A job of class
default that fits (`batch_decision`): from the answer to its POST until its agent has the instruction.
`failover`: the leader is killed with SIGKILL while it places tasks: until an agent is told to start a job
submitted after that; and tasks lost or begun twice, by the store and by what agents saw. `storm`: the same
with all agents and no tasks: until a new leader has acknowledged a heartbeat of each.
A quick run plays all but the storm on one small cluster; the names of its cases say how small.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import cluster_load
from cluster_crash import FOREVER, IN_FLIGHT, Crash, crash
from cluster_installation import Cluster, Database, a_database
from fleet import Agents
from installation import wait_until
from postgres_floor import Floor
from report import Case, arguments, at_least, at_most, emit, figure
from simulated_agents import LABEL
from tgpu.wiring.kernel_keeper import WORTH_IT_FROM_NODES

CALLS_PER_S = 1000
"""At which agents come for the first time."""
CPU_CORES, MEMORY_MB, GROWTH = 0.4, 2**30 / 1e6, 12
PLACEMENTS_PER_S = 1500
TAKEOVER_S, RECONNECTED_S = 10, 15


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    agents: int
    idle_s: float
    few_idle_s: float
    placement_nodes: int
    placements: int
    waiting: int
    samples: int
    failover_agents: int
    failover_tasks: int
    servers: int
    watch_s: float
    """After a failover; a node is lost when it was silent for 15 s."""


FULL = Size(10_000, 600, 60, 1000, 60_000, 100_000, 300, 1000, 10_000, 3, 17)
QUICK = Size(150, 1, 1, 150, 1000, 500, 6, 150, 1000, 2, 0)


class Stage:
    """A cluster with its agents, on which cases are played."""

    def __init__(self, cluster: Cluster, agents: Agents, floor: Floor, size: Size) -> None:
        self.cluster, self.agents, self.floor, self.size = cluster, agents, floor, size

    def join(self, count: int) -> None:
        """So that there are so many agents, and the server has settled."""
        new = self.cluster.nodes[self.agents.joined : count]
        if new:
            self.agents.join(new, len(new) / CALLS_PER_S)
            self.wait_for_compiled_code()

    def wait_for_compiled_code(self) -> None:
        """Few nodes do without it."""
        if self.agents.joined >= WORTH_IT_FROM_NODES:
            wait_until(lambda: self.cluster.leader.is_compiled, "the planner's code is loaded")

    def cpu_cores(self, seconds: float) -> float:
        """The leader's, over this time."""
        server = self.cluster.leader
        began, used = time.monotonic(), server.cpu_s()
        time.sleep(seconds)
        return (server.cpu_s() - used) / (time.monotonic() - began)


def idle(stage: Stage) -> list[Case]:
    size, few = stage.size, stage.size.agents // 10
    stage.join(few)
    few_cores = stage.cpu_cores(size.few_idle_s)
    few_mb = stage.cluster.leader.memory_mb()
    stage.join(size.agents)
    cores = stage.cpu_cores(size.idle_s)
    memory_mb = stage.cluster.leader.memory_mb()
    gone = stage.cluster.leader.nodes_lost + stage.agents.tally().streams_lost
    name = f"cluster_idle_{{}}_{size.agents}_agents_{size.idle_s:g}_s"
    return [
        at_most(name.format("cpu"), cores, "cores", CPU_CORES, few_cores),
        at_most(name.format("pss"), memory_mb["Pss"], "MB", MEMORY_MB, few_mb["Pss"]),
        at_most(name.format("rss"), memory_mb["Rss"], "MB", MEMORY_MB, few_mb["Rss"]),
        at_most(name.format("taken_for_lost"), gone, "nodes", 0),
        at_most(f"cluster_idle_cpu_growth_{few}_to_{size.agents}", cores / few_cores, "times", GROWTH),
    ]


def placements(stage: Stage) -> list[Case]:
    size, agents = stage.size, stage.agents
    stage.join(size.placement_nodes)
    before = agents.tally().launched
    with stage.cluster.leader.client() as client:
        client.drain_nodes(where=[LABEL])
        client.submit_many([FOREVER] * size.placements)
        floor = stage.floor.commits_per_s()
        began = time.monotonic()
        client.undrain_nodes(where=[LABEL])
    wait_until(
        lambda: agents.tally().launched == before + size.placements, "all tasks are placed", 600, every_s=0.25
    )
    told_s = agents.tally().last_launch - began
    running = "SELECT count(*) FROM attempts WHERE state = 'running'"
    wait_until(
        lambda: stage.cluster.count(running) >= size.placements,
        "all are recorded as running",
        600,
        every_s=0.1,
    )
    name = f"cluster_placements_{size.placement_nodes}_nodes_{size.placements}_tasks"
    recorded_s = time.monotonic() - began
    return [
        at_least(name, size.placements / told_s, "tasks/s", PLACEMENTS_PER_S, floor),
        figure(f"{name}_until_recorded_as_running", size.placements / recorded_s, "tasks/s", floor),
    ]


def latency(stage: Stage) -> list[Case]:
    stage.join(stage.size.agents)
    stage.wait_for_compiled_code()
    return cluster_load.measure(
        stage.cluster, stage.agents, stage.size.waiting, stage.size.samples, stage.floor
    )


def failover(stage: Stage) -> list[Case]:
    size, agents = stage.size, stage.agents
    stage.join(size.failover_agents)
    expected = agents.tally().live + size.failover_tasks
    with stage.cluster.leader.client() as client:
        client.submit_many([FOREVER] * size.failover_tasks)
    wait_until(lambda: agents.tally().live == expected, "all tasks run", 120, every_s=0.2)
    seen = crash(stage.cluster, agents, IN_FLIGHT, size.watch_s)
    name = f"{agents.joined}_agents_{seen.live}_tasks"
    return [
        at_most(f"cluster_failover_{name}", seen.dispatching_s, "s", TAKEOVER_S),
        at_most(f"cluster_failover_lost_or_doubled_{name}", seen.wrong, "tasks", 0),
        *_reconnected(seen, name),
    ]


def storm(stage: Stage) -> list[Case]:
    stage.join(stage.size.agents)
    seen = crash(stage.cluster, stage.agents, 0, stage.size.watch_s)
    return _reconnected(seen, f"{stage.size.agents}_agents")


def _reconnected(seen: Crash, name: str) -> list[Case]:
    return [
        at_most(f"cluster_reconnected_{name}", seen.reconnected_s, "s", RECONNECTED_S),
        at_most(f"cluster_reconnected_taken_for_lost_{name}", seen.nodes_lost, "nodes", 0),
    ]


GROUPS: dict[str, Callable[[Stage], list[Case]]] = {
    "idle": idle,
    "placements": placements,
    "latency": latency,
    "failover": failover,
    "storm": storm,
}
WITH_FOLLOWERS = ("failover", "storm")
QUICK_GROUPS = ("idle", "placements", "failover", "latency")
"""A failover tells of the agents that reconnect, too."""


@contextmanager
def a_stage(database: Database, size: Size, *, servers: int, tls: bool) -> Iterator[Stage]:
    with (
        database.cluster(servers=servers, tls=tls) as cluster,
        Agents(cluster.urls, cluster.ca_pem) as agents,
        Floor(database.floor_url) as floor,
    ):
        yield Stage(cluster, agents, floor, size)


def run(groups: Sequence[str], size: Size, *, tls: bool) -> Iterator[Case]:
    """Each group on a cluster of its own."""
    with a_database(size.agents) as database:
        for group in groups:
            servers = size.servers if group in WITH_FOLLOWERS else 1
            with a_stage(database, size, servers=servers, tls=tls) as stage:
                yield from GROUPS[group](stage)


def run_together(groups: Sequence[str], size: Size, *, tls: bool) -> Iterator[Case]:
    """One group after the other on the same cluster."""
    with (
        a_database(size.agents) as database,
        a_stage(database, size, servers=size.servers, tls=tls) as stage,
    ):
        for group in groups:
            yield from GROUPS[group](stage)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=GROUPS, help="one group of cases")
    parser.add_argument("--tls", action="store_true", help="agents speak TLS, as they do between machines")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that nothing is left running
    if args.quick:
        cases = run_together([args.only] if args.only else QUICK_GROUPS, QUICK, tls=args.tls)
    else:
        cases = run([args.only] if args.only else [*GROUPS], FULL, tls=args.tls)
    emit(cases, as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
