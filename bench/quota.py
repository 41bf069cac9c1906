"""What exact quotas cost: submissions over HTTP to one server, on a PostgreSQL that waits for the disk.

Sixteen processes with one kept-alive connection each send `POST /jobs` as fast as they are answered; every
answer is 201, after the commit. A job holds all GPUs of the one node, and every submitted job asks for some,
so none starts.

`one_tenant`: all of them to one tenant that has limits, and so has its parent: every submission is charged
to the same two rows. The baseline is a tenant beside it without any limit, in turns with it.
`100_tenants`: each client submits to 100 tenants in turn, which share nothing and have limits; the baseline
are 100 others without. `refused`: all of them to a tenant that is full; every answer is 409 with the numbers.
`beside_postgres`: the baseline is what one bare connection commits in single rows.
In the end the ledger must say, to the job, what was answered.
"""

import sys
from collections.abc import Mapping

from cluster_installation import Cluster, a_database
from fleet import Agents
from installation import wait_until
from postgres_floor import Floor
from report import Case, arguments, at_least, emit, figure, ratio_at_least
from simulated_agents import GPUS
from submissions import Load, in_turns, rate, submission
from tgpu.client import Client

CLIENTS = 16
TENANTS = 100
ROUNDS, ROUND_S = 5, 2.0
QUICK_ROUNDS, QUICK_ROUND_S = 2, 1.0
PER_S, RATIO = 800, 0.8
HOLDER = {"command": ["sleep", "86400"], "cpu_request": 1, "gpu_request": GPUS, "cwd": "/"}
JOB = {"command": ["true"], "cpu_request": 1, "gpu_request": 0.01, "cwd": "/"}
LIMITS = {
    "cpu_limit": 1_000_000,
    "mem_limit_mb": 1_000_000,
    "gpu_limit": 10_000,
    "waiting_jobs_limit": 1_000_000,
}
"""More than anybody here submits."""


class Stage:
    """A cluster whose one node is taken, and the tenants."""

    def __init__(self, cluster: Cluster, agents: Agents, client: Client) -> None:
        self._cluster, self._client = cluster, client
        agents.join(cluster.nodes, 0)
        job_id = client.submit(**HOLDER)["job_id"]  # type: ignore[arg-type]  # its fields
        wait_until(lambda: client.job(job_id)["status"] == "running", "all GPUs are taken")
        self._limited = [self._tenant(f"limited-{number}", LIMITS) for number in range(TENANTS)]
        self._free = [self._tenant(f"free-{number}", {}) for number in range(TENANTS)]
        client.submit(**JOB, tenant_id=self._tenant("full", {"cpu_limit": 1}))  # type: ignore[arg-type]  # likewise

    def _tenant(self, tenant_id: str, limits: Mapping[str, object]) -> str:
        self._client.create_tenant(tenant_id, **limits)
        return tenant_id

    def below(self, parent: str, limits: Mapping[str, object]) -> Load:
        return self._load(self._tenant(f"{parent}/ann", limits))

    def _load(self, tenant: str, answer: int = 201) -> Load:
        socket = str(self._cluster.leader.home / "run" / "tgpu.sock")
        return submission(socket, {**JOB, "tenant_id": tenant}, answer=answer)

    @property
    def limited(self) -> list[Load]:
        return [self._load(tenant) for tenant in self._limited]

    @property
    def free(self) -> list[Load]:
        return [self._load(tenant) for tenant in self._free]

    @property
    def full(self) -> Load:
        return self._load("full", 409)

    def check(self) -> None:
        """What waits is what is charged, in every tenant but that of the job that runs."""
        wrong = self._cluster.query(
            "SELECT tenant_id FROM tenants WHERE (waiting, cpu_milli_used, gpu_milli_used) <> "
            "(SELECT count(*), 1000 * count(*), 10 * count(*) FROM jobs WHERE status = 'pending' "
            "AND starts_with(jobs.tenant_id || '/', tenants.tenant_id || '/')) AND tenant_id <> 'default'"
        )
        if wrong:
            raise SystemExit(f"the ledger is wrong of {wrong[:5]}")


def measure(stage: Stage, floor: Floor, rounds: int, seconds: float) -> list[Case]:
    def submissions(*loads: Load) -> float:
        return rate(*loads, clients=CLIENTS, seconds=seconds)

    one, unlimited = stage.below("limited-0", LIMITS), stage.below("free-0", {})
    ours, theirs, many, many_free, refused, commits = in_turns(
        rounds,
        lambda: submissions(one),
        lambda: submissions(unlimited),
        lambda: submissions(*stage.limited),
        lambda: submissions(*stage.free),
        lambda: submissions(stage.full),
        floor.commits_per_s,
    )
    stage.check()
    return [
        at_least("quota_one_tenant", ours, "jobs/s", PER_S, theirs),
        ratio_at_least(f"quota_{TENANTS}_tenants", many, "jobs/s", RATIO, many_free),
        figure("quota_refused", refused, "answers/s"),
        figure("quota_one_tenant_beside_postgres", ours, "jobs/s", commits),
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    with (
        a_database(nodes=1) as database,
        database.cluster() as cluster,
        Agents(cluster.urls) as agents,
        cluster.leader.client() as client,
        Floor(database.floor_url) as floor,
    ):
        size = (QUICK_ROUNDS, QUICK_ROUND_S) if args.quick else (ROUNDS, ROUND_S)
        cases = measure(Stage(cluster, agents, client), floor, *size)
    emit(cases, as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
