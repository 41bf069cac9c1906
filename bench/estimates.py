"""Calibration of expected starts on a recorded workload, through the real planner in virtual time.

    python bench/estimates.py TRACE [--jobs N] [--skip N] [--order drf] [--json]

TRACE is a Standard Workload Format file (`.swf`, `.swf.gz`: one pool of processors) or a CSV file with the
columns timestamp, duration, num_gpus and cluster (nodes of 8 GPUs). Without TRACE, a synthetic workload of
several users with recurring jobs is made. Each job is estimated once, when it has become pending, and scored
when it starts.
"""

import csv
import gzip
import heapq
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import IO

from big_cluster import empty_cluster, small_requests, tasks
from report import Case, arguments, at_least, at_most, emit, figure
from tgpu.core.estimates.run_times import RunTimes, Work
from tgpu.core.estimates.snapshot import take
from tgpu.core.estimates.start_intervals import Estimates, Residuals, estimate
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, Request, TaskBrief
from tgpu.domain.lifecycle import NodeState, Status
from tgpu.domain.node import Capacity, Device, Node
from tgpu.domain.priority import PriorityClass
from tgpu.domain.start_estimate import StartEstimate, calibration_of

GPUS_PER_NODE = 8


@dataclass(frozen=True, slots=True)
class Job:
    submit_s: int
    run_s: int
    gpus: int
    cpus: int
    limit_s: int | None
    user: str
    name: str = ""
    command: str = ""


@dataclass
class VirtualCluster:
    """The picture and the planner, driven by a list of jobs; estimates are made as the leader makes them."""

    policy: Policy
    every_ms: int
    picture: Picture = field(init=False)
    run_times: RunTimes = field(default_factory=RunTimes)
    residuals: Residuals = field(default_factory=Residuals)
    scored: list[StartEstimate] = field(default_factory=list)
    widths_s: list[float] = field(default_factory=list)
    pass_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.picture = Picture(self.policy)
        self._ends: list[tuple[int, int]] = []
        self._running: dict[int, list[TaskId]] = {}
        self._jobs: dict[int, Job] = {}
        self._first: dict[int, tuple[StartEstimate, Estimates]] = {}
        self._next_pass_ms = 0

    def add_nodes(self, count: int, cpus: int, gpus: int) -> None:
        for number in range(count):
            devices = tuple(Device(at, f"{at}", "A100", 81920) for at in range(gpus))
            node = Node(f"n{number:04d}", NodeState.READY, Capacity(cpus * 1000, 1 << 20, 1 << 20, devices))
            self.picture.set_node(node)
            self.picture.set_reachable(node.node_id, reachable=True)

    def play(self, jobs: Sequence[Job]) -> None:
        arrivals = sorted(enumerate(jobs, 1), key=lambda item: item[1].submit_s)
        at = 0
        while at < len(arrivals) or self._ends:
            next_ms = 1000 * arrivals[at][1].submit_s if at < len(arrivals) else None
            if self._ends and (next_ms is None or self._ends[0][0] <= next_ms):
                next_ms = self._ends[0][0]
            assert next_ms is not None
            self.picture.now_ms = next_ms
            while self._ends and self._ends[0][0] <= next_ms:
                self._end(heapq.heappop(self._ends)[1])
            while at < len(arrivals) and 1000 * arrivals[at][1].submit_s <= next_ms:
                self._submit(*arrivals[at])
                at += 1
            self._cycle()
            if self.picture.waiting and next_ms >= self._next_pass_ms:
                self._next_pass_ms = next_ms + self.every_ms
                self._estimate()

    def _submit(self, job_id: int, job: Job) -> None:
        self._jobs[job_id] = job
        for task in tasks_of(job_id, job):
            self.picture.add_waiting(task)

    def _end(self, job_id: int) -> None:
        job = self._jobs[job_id]
        for task_id in self._running.pop(job_id):
            placed = self.picture.release(task_id)
            self.picture.ended(placed.task)
        self.run_times.add(Work.of(placed.task), job.run_s)

    def _cycle(self) -> None:
        made = plan(self.picture, self.policy, whole=True)
        self.picture.fulfil({start.task_id for start in made.starts})
        for start in list(made.starts):
            task = self.picture.remove_waiting(start.task_id)
            attempt = start.task_id.attempt(task.attempts + 1)
            placed = self.picture.place(task, attempt, start.node_id, start.devices, start.admission)
            self.picture.started(placed, self.picture.now_ms)
            self._began(start.task_id)
        self.picture.settle(made)

    def _began(self, task_id: TaskId) -> None:
        job_id, now_ms = task_id.job_id, self.picture.now_ms
        known = self._running.setdefault(job_id, [])
        known.append(task_id)
        if len(known) > 1:
            return
        heapq.heappush(self._ends, (now_ms + 1000 * max(1, self._jobs[job_id].run_s), job_id))
        if (first := self._first.pop(job_id, None)) is not None:
            made, of = first
            interval = of.jobs[job_id].interval
            assert interval is not None
            self.residuals.add(made.made_ms, interval, of.widening, now_ms)
            self.scored.append(
                StartEstimate(
                    job_id, made.made_ms, made.earliest_ms, made.expected_ms, made.latest_ms, now_ms
                )
            )
            self.widths_s.append((made.latest_ms - made.earliest_ms) / 1000)

    def _estimate(self) -> None:
        if all(task_id.job_id in self._first for task_id in self.picture.waiting):
            return  # nobody would look
        began = perf_counter()
        made = estimate(take(self.picture, self.policy), self.run_times, self.residuals.widening)
        self.pass_s.append(perf_counter() - began)
        for job_id, expected in made.jobs.items():
            if job_id not in self._first and (found := expected.interval) is not None:
                ends = (found.earliest_ms, found.expected_ms, found.latest_ms)
                self._first[job_id] = StartEstimate(job_id, made.made_ms, *ends), made


def tasks_of(job_id: int, job: Job) -> Iterator[TaskBrief]:
    members = [job.gpus] if job.gpus <= GPUS_PER_NODE else [GPUS_PER_NODE] * -(-job.gpus // GPUS_PER_NODE)
    gang = Gang(len(members)) if len(members) > 1 else None
    for index, gpus in enumerate(members):
        yield TaskBrief(
            task_id=TaskId(job_id, index),
            status=Status.PENDING,
            request=Request(cpu_milli=1000 * job.cpus, gpu_milli=1000 * gpus),
            user=job.user,
            tenant_id="default",
            name=job.name,
            priority_class=PriorityClass.DEFAULT,
            priority=0,
            submitted_ms=1000 * job.submit_s,
            attempts=0,
            time_limit_s=job.limit_s,
            max_wait_s=None,
            requeue=True,
            grace_s=None,
            cancel_by=None,
            gang=gang,
            command=job.command,
        )


def swf(lines: IO[str]) -> Iterator[Job]:
    for line in lines:
        fields = line.split()
        if not fields or fields[0].startswith(";"):
            continue
        submit, run, procs, limit, user = (int(float(fields[at])) for at in (1, 3, 4, 8, 11))
        yield Job(submit, max(1, run), 0, procs, max(60, limit), f"u{user}")


def gpu_csv(lines: IO[str]) -> Iterator[Job]:
    rows = []
    for row in csv.DictReader(lines):
        moment = datetime.strptime(row["timestamp"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        rows.append((round(moment.timestamp()), row))
    first = min(at for at, _ in rows)
    for at, row in sorted(rows, key=lambda item: item[0]):
        run_s, gpus = max(1, round(float(row["duration"]))), int(row["num_gpus"])
        yield Job(at - first, run_s, gpus, 1, None, row["cluster"])


def synthetic(seed: int = 0, jobs: int = 2000) -> list[Job]:
    """Six users, each with a few recurring jobs whose run times vary by a fifth."""
    chance = random.Random(seed)
    recurring = [
        (f"user{user}", f"job{number}", chance.choice((1, 1, 1, 2, 4, 8)), chance.uniform(120, 7200))
        for user in range(6)
        for number in range(3)
    ]
    found, at = [], 0.0
    for _ in range(jobs):
        at += chance.expovariate(1 / 800)
        user, name, gpus, typical = chance.choice(recurring)
        run_s = max(5, round(typical * chance.lognormvariate(0, 0.2)))
        limit_s = 3600 * max(1, -(-round(3 * typical) // 3600))
        command = f"train.py#{user}{name}"
        found.append(Job(round(at), min(run_s, limit_s), gpus, 1, limit_s, user, name, command))
    return found


def jobs_of(path: Path | None) -> list[Job]:
    if path is None:
        return synthetic()
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return list(swf(lines) if ".swf" in path.name else gpu_csv(lines))


def cost(nodes: int, pending: int, kinds: int = 20) -> list[Case]:
    """One pass over a large cluster that is full, with a long queue: the part on the loop, and the rest."""
    chance, policy = random.Random(1), Policy()
    picture, requests = empty_cluster(policy, nodes), small_requests(kinds, random.Random(1))
    for job_id, node_id in enumerate(picture.places, 1):
        whole = Request(cpu_milli=picture.left(node_id).cpu_milli)
        running = next(tasks(1, [whole], chance, first_job=job_id))
        placed = picture.place(running, running.task_id.attempt(1), node_id, ())
        picture.started(placed, picture.now_ms - 1000 * chance.randint(0, 600))
    for waiting in tasks(pending, requests, chance, first_job=nodes + 1):
        picture.add_waiting(waiting)
    took = []
    for _ in range(3):
        began = perf_counter()
        snapshot = take(picture, policy)
        took.append(perf_counter() - began)
    began = perf_counter()
    made = estimate(snapshot, RunTimes())
    passed = perf_counter() - began
    assert len(made.jobs) == pending
    size = f"{nodes}_nodes_{pending}_pending"
    return [
        at_most(f"estimates_snapshot_{size}", 1000 * min(took), "ms", 100),
        figure(f"estimates_pass_{size}", 1000 * passed, "ms"),
    ]


def calibration(cluster: VirtualCluster, jobs: int) -> list[Case]:
    made = calibration_of(cluster.scored).whole
    if made.inside is None or made.median_error_s is None:
        raise SystemExit("no job was pending long enough to be estimated")
    waits = [((each.started_ms or 0) - each.made_ms) / 1000 for each in cluster.scored]
    wait_s = median(waits)
    return [
        at_least(f"estimates_inside_{jobs}_jobs_{made.count}_scored", made.inside, "share", 0.7),
        figure("estimates_median_error", made.median_error_s, "s", wait_s),
        figure("estimates_median_width", median(cluster.widths_s), "s", wait_s),
        figure("estimates_pass_p50", 1000 * median(cluster.pass_s), "ms"),
        figure("estimates_pass_most", 1000 * max(cluster.pass_s), "ms"),
    ]


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--skip", type=int, default=0, help="jobs of the trace to leave out at its beginning")
    parser.add_argument("--nodes", type=int, default=0, help="default: 1 for SWF, 2 synthetic, 16 for CSV")
    parser.add_argument("--order", default="drf")
    parser.add_argument("--every", type=float, default=2.0, help="virtual seconds between two passes")
    args = parser.parse_args()
    found = sorted(jobs_of(args.trace), key=lambda job: job.submit_s)[args.skip :]
    jobs = found[: min(300, args.jobs) if args.quick else args.jobs]
    cluster = VirtualCluster(Policy(PoolPolicy(order=args.order)), round(1000 * args.every))
    if any(job.gpus for job in jobs):
        cluster.add_nodes(args.nodes or (16 if args.trace else 2), 64, GPUS_PER_NODE)
    else:
        cluster.add_nodes(args.nodes or 1, 100, 0)
    cluster.play(jobs)
    cases = calibration(cluster, len(jobs))
    if args.trace is None:
        cases += cost(100, 1000) if args.quick else cost(10_000, 100_000)
    emit(cases, as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
