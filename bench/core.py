"""How fast is it decided: `plan` alone, on pictures that are already in memory, with compiled code.

Medians of several runs. The baseline of the placements is a NumPy scan of all 10,000 nodes for every
placement, best fit alone, with the order given to it for nothing; its first placements are compared with the
plan's. Each case runs in a process of its own, so that the peak of memory is its own, too.

`fill_*`: an empty cluster of 10,000 mixed nodes, 200,000 waiting tasks of 200 tenants in three levels, by
exact DRF and best fit; placements per second of the whole plan. `cycle`: everything is looked at again with
50,000 running and 100,000 waiting tasks, and room for a few. `arrival*`: one real-time task arrives in
that state. `gang`: 512 tasks of 8 GPUs each on an idle cluster. `load`: compiled code from a filled cache.
"""

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from big_cluster import carry_out, empty_cluster, large_requests, settle, small_requests, task, tasks
from numpy_scan import Scan, same_places
from report import Case, arguments, at_least, at_most, emit, figure
from tgpu.core.engine import Engine
from tgpu.core.explain import explain
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, named
from tgpu.core.preview import preview, with_jobs
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, Request
from tgpu.domain.preview import FIRST_HYPOTHETICAL_ID
from tgpu.domain.priority import PriorityClass
from tgpu.wiring import kernel_cache

WAITING, RUNNING, QUEUED = 200_000, 50_000, 100_000
SCANNED = 300
GIB = 2**30


def median_s(times: int, work: Callable[[], object]) -> float:
    seen = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        seen.append(time.perf_counter() - began)
    return statistics.median(seen)


def filled(policy: Policy, kinds: int, engine: Engine, times: int) -> tuple[Picture, float, float]:
    """The picture, placements per second of the plan, and of the scan."""
    chance = random.Random(7)
    picture = empty_cluster(policy)
    for waiting in tasks(WAITING, small_requests(kinds, chance), chance):
        picture.add_waiting(waiting)
    picture.table.age(picture.now_ms)
    made = plan(picture, policy, whole=True, engine=engine)
    seconds = median_s(times, lambda: plan(picture, policy, whole=True, engine=engine))
    assert policy.default.scorer != "tightest" or same_places(picture, made, 50), "the two disagree"
    scan = Scan(picture)
    rows = [picture.table.kind_of(picture.waiting[start.task_id]) for start in made.starts[:SCANNED]]
    began = time.perf_counter()
    for row in rows:
        scan.place(row)
    return picture, len(made.starts) / seconds, SCANNED / (time.perf_counter() - began)


def fill_64(engine: Engine, times: int) -> list[Case]:
    _, rate, scanned = filled(named("drf"), 64, engine, times)
    return [
        at_least("core_fill_64_kinds", rate, "placements/s", 400_000, scanned),
        at_least("core_fill_64_kinds_to_scan", rate / scanned, "times", 200),
    ]


def fill_2000(engine: Engine, times: int) -> list[Case]:
    _, rate, scanned = filled(named("drf"), 2000, engine, min(times, 3))
    return [
        at_least("core_fill_2000_kinds", rate, "placements/s", 12_000, scanned),
        at_most("core_peak_memory", peak_mb(), "MB", GIB / 1e6),
    ]


def fill_fragmentation(engine: Engine, times: int) -> list[Case]:
    _, rate, scanned = filled(named("drf", "fragmentation"), 64, engine, min(times, 3))
    return [at_least("core_fill_fragmentation", rate, "placements/s", 15_000, scanned)]


def cycle(engine: Engine, times: int) -> list[Case]:
    picture, policy = busy_cluster(engine), named("drf")
    whole_s = median_s(times, lambda: plan(picture, policy, whole=True, engine=engine))
    settle(picture, engine)
    small = Request(cpu_milli=100, memory_mib=100)
    large = Request(cpu_milli=4000, gpu_milli=4000)
    waiting = next(iter(picture.waiting))
    explain(picture, policy, waiting, engine)
    why_s = median_s(times, lambda: explain(picture, policy, waiting, engine))
    asked = [task(FIRST_HYPOTHETICAL_ID, large, PriorityClass.DEFAULT)]
    preview_s = median_s(times, lambda: preview(with_jobs(picture, [asked]), policy, [asked], engine))
    return [
        at_most("core_whole_cycle", whole_s * 1e3, "ms", 500),
        at_most("core_arrival", arrival_ms(picture, small, engine, times), "ms", 2),
        at_most("core_arrival_preempting", arrival_ms(picture, large, engine, times), "ms", 20),
        figure("core_why", why_s * 1e3, "ms"),
        figure("core_preview", preview_s * 1e3, "ms"),
        figure("core_cycle_memory", peak_mb(), "MB"),
    ]


def busy_cluster(engine: Engine) -> Picture:
    """Full, mostly of tasks that nobody who waits may stop."""
    chance = random.Random(11)
    picture, requests = empty_cluster(named("drf")), large_requests(64, chance)
    high, low = PriorityClass.HIGH, PriorityClass.LOW
    for running in tasks(2 * RUNNING, requests, chance, (high, high, high, low)):
        picture.add_waiting(running)
    made = plan(picture, picture.policy, whole=True, engine=engine)
    carry_out(picture, made)
    for task_id in list(picture.waiting):
        picture.remove_waiting(task_id)
    for task_id in list(picture.placed)[RUNNING:]:
        picture.release(task_id)
    picture.now_ms += 600_000
    classes = (PriorityClass.DEFAULT, low, low, PriorityClass.BEST_EFFORT)
    for waiting in tasks(QUEUED, requests, chance, classes, first_job=1_000_000):
        picture.add_waiting(waiting)
    return picture


def arrival_ms(picture: Picture, request: Request, engine: Engine, times: int) -> float:
    """Decided, not yet carried out; after each, it is, and the next one arrives."""
    seen = []
    for _ in range(max(7, times)):
        job_id = 5_000_000 + picture.version
        picture.add_waiting(task(job_id, request, PriorityClass.REAL_TIME))
        began = time.perf_counter()
        made = plan(picture, picture.policy, engine=engine)
        seen.append((time.perf_counter() - began) * 1e3)
        claimed = [claim.task_id for preempt in made.preempts for claim in preempt.claims]
        assert TaskId(job_id, 0) in [start.task_id for start in made.starts] + claimed, "it did not start"
        carry_out(picture, made)
    return statistics.median(seen)


def gang(engine: Engine, times: int) -> list[Case]:
    picture = empty_cluster(named("drf"))
    for index in range(512):
        whole = Request(cpu_milli=8000, gpu_milli=8000)
        picture.add_waiting(task(1, whole, PriorityClass.DEFAULT, index=index, gang=Gang(512, per_node=1)))
    made = plan(picture, picture.policy, engine=engine)
    assert len(made.starts) == 512, "the gang did not start whole"
    seconds = median_s(times, lambda: plan(picture, picture.policy, whole=True, engine=engine))
    return [at_most("core_gang_512x8", seconds * 1e3, "ms", 10)]


def load(_engine: Engine, times: int) -> list[Case]:
    code = "import os; from tgpu.wiring import kernel_cache; kernel_cache.load(os.environ)"
    command = [sys.executable, "-c", code]
    seconds = median_s(min(times, 5), lambda: subprocess.run(command, check=True))
    bare = median_s(min(times, 5), lambda: subprocess.run([sys.executable, "-c", "import numpy"], check=True))
    return [at_most("core_kernel_load", seconds, "s", 2, bare)]


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


GROUPS = {
    "fill-64": fill_64,
    "fill-2000": fill_2000,
    "fill-fragmentation": fill_fragmentation,
    "cycle": cycle,
    "gang": gang,
    "load": load,
}


def alone(group: str, *, quick: bool) -> list[Case]:
    """In a process of its own."""
    words = [sys.executable, str(Path(__file__)), "--only", group, "--json", *(["--quick"] if quick else [])]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return [Case(**json.loads(line)) for line in done.stdout.splitlines()]


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=GROUPS, help="one group of cases, in this process")
    args = parser.parse_args()
    if args.only is None:
        kernel_cache.load(os.environ)  # filled before anything is timed
        cases = [case for group in GROUPS for case in alone(group, quick=args.quick)]
    else:
        cases = GROUPS[args.only](kernel_cache.load(os.environ), 3 if args.quick else 9)
    emit(cases, as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
