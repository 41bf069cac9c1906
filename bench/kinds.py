"""Jobs of many tasks: an array of 100,000 is submitted, looked at, and drained beside as fast as single jobs.

Submission, list and show are measured while another job holds the node, so that the whole array waits: each
is the time of one call, the slowest of several for list and show. The drain is that of arrays of `true`,
two at a time as in `drain.py`, each from the job's first start to its end; its baseline is the rate of single
jobs submitted in bulk, just before and after each of them, for the machine may become faster or slower
meanwhile: the round with the median ratio is told. The run fails unless every task is completed.
`needs_…` is about jobs that wait for each other (`needs_dag.py`).
"""

import sys
import time
from collections.abc import Callable
from datetime import datetime

import needs_dag
from drain import drain
from installation import Installation, wait_until
from report import Case, arguments, at_most, emit, ratio_at_least
from tgpu.client import Client

TASKS = 100_000
ROUNDS = 5
DRAINED, QUICK_DRAINED = 20_000, 800
SINGLES, QUICK_SINGLES = 4000, 400
"""In each round; of single ones there is one more."""
SUBMIT_S, LOOK_S, RATIO = 1.0, 0.1, 0.9
LOOKS = 5


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def looks(installation: Installation, client: Client) -> list[Case]:
    cwd = str(installation.work)
    sleeper = installation.hold_all_cpus(client)
    began = time.perf_counter()
    job_id = client.submit(["true"], array=f"0-{TASKS - 1}", cpu_request=1, cwd=cwd)["job_id"]
    submitted = time.perf_counter() - began
    listed = max(_timed(lambda: list(client.jobs(limit=100))) for _ in range(LOOKS))
    shown = max(_timed(lambda: client.job(job_id)) for _ in range(LOOKS))
    for each in (job_id, sleeper):
        client.cancel(each, now=True)
    ended = {"cancelled", "failed"}
    wait_until(lambda: client.job(job_id)["status"] in ended, "the array is cancelled")
    wait_until(lambda: client.job(sleeper)["status"] in ended, "the sleeper is cancelled")
    return [
        at_most("array_submit", submitted, "s", SUBMIT_S),
        at_most("array_list", listed, "s", LOOK_S),
        at_most("array_show", shown, "s", LOOK_S),
    ]


def drain_array(client: Client, tasks: int, cwd: str) -> float:
    """Tasks per second."""
    job_id = client.submit(["true"], array=f"0-{tasks - 1}", cpu_request=1, cwd=cwd)["job_id"]
    over = {"completed", "failed", "cancelled"}
    wait_until(
        lambda: next(iter(client.jobs(ids=str(job_id))))["status"] in over,
        "the array ended",
        within_s=tasks / 20 + 60,
        every_s=0.1,
    )
    job = client.job(job_id)
    if job["task_counts"] != {"completed": tasks}:
        raise SystemExit(f"not every task ended well: {job['task_counts']}")
    took = datetime.fromisoformat(job["ended_at"]) - datetime.fromisoformat(job["started_at"])
    return tasks / took.total_seconds()


def measure(drained: int, singles: int) -> list[Case]:
    rounds: list[tuple[float, float]] = []
    with Installation() as installation, installation.client() as client:
        cwd = str(installation.work)
        cases = looks(installation, client)
        drain(client, 20, cwd)
        before, _ = drain(client, singles, cwd)
        for _ in range(ROUNDS):
            rate = drain_array(client, drained, cwd)
            after, _ = drain(client, singles, cwd)
            rounds.append((rate, (before + after) / 2))
            before = after
    rate, single_rate = sorted(rounds, key=lambda pair: pair[0] / pair[1])[ROUNDS // 2]
    return [*cases, ratio_at_least("array_drain", rate, "tasks/s", RATIO, single_rate)]


def main() -> int:
    args = arguments(__doc__).parse_args()
    many = (QUICK_DRAINED, QUICK_SINGLES) if args.quick else (DRAINED, SINGLES)
    emit([*measure(*many), *needs_dag.cases(quick=args.quick)], as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
