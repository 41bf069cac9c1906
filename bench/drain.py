"""How fast a full queue of the smallest jobs drains: 10,000 times `true`, two at a time.

The jobs are submitted in bulk (one request) to a node of 2 CPUs, each asks for 1 CPU, so 2 run at once. Every
end is on disk twice before the next step relies on it: in the node's journal, and in the database. The rate
counts from the first job's start to the last job's end, as the jobs themselves are recorded;
`drain_from_submission` counts from before the bulk is encoded until the client has seen the last one recorded
as completed. The run fails unless every job is completed with exit code 0. The baseline is `floor_spawn.py`,
2 at a time, run before and after: the mean of both.
"""

import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

from installation import Installation, wait_until
from report import Case, arguments, emit, figure, ratio_at_least
from tgpu.client import Client

JOBS, QUICK_JOBS = 10_000, 1_500
AT_ONCE = 2
RATIO = 0.65
FLOOR = Path(__file__).with_name("floor_spawn.py")


def floor(count: int, folder: Path) -> float:
    command = [sys.executable, "-I", "-S", str(FLOOR), str(count), str(AT_ONCE), str(folder)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def drain(client: Client, count: int, cwd: str) -> tuple[float, float]:
    """Jobs per second: between first start and last end, and since the submission."""
    job = {"command": ["true"], "cpu_request": 1, "cwd": cwd}
    began = time.perf_counter()
    ids = client.submit_many([job] * count)
    wait_until(lambda: _is_over(client, ids[-1]), "the last job ended", within_s=count / 20 + 60, every_s=0.1)
    wait_until(lambda: _is_drained(client), "all jobs ended")
    elapsed = time.perf_counter() - began
    done = [job for job in client.jobs(order="oldest") if job["job_id"] >= ids[0]]
    outcomes = Counter((job["status"], job["exit_code"]) for job in done)
    if outcomes != {("completed", 0): count}:
        raise SystemExit(f"not every job ended well: {dict(outcomes)}")
    first = min(datetime.fromisoformat(job["started_at"]) for job in done)
    last = max(datetime.fromisoformat(job["ended_at"]) for job in done)
    return count / (last - first).total_seconds(), count / elapsed


def _is_over(client: Client, job_id: int) -> bool:
    return client.job(job_id)["status"] not in {"pending", "scheduled", "running"}


def _is_drained(client: Client) -> bool:
    return not list(client.jobs(status="pending,scheduled,running", limit=1))


def measure(count: int) -> list[Case]:
    with Installation() as installation, installation.client() as client:
        cwd = str(installation.work)
        drain(client, 20, cwd)
        before = floor(count // 2, installation.work)
        rate, since_submission = drain(client, count, cwd)
        after = floor(count // 2, installation.work)
    bare = (before + after) / 2
    return [
        ratio_at_least("drain", rate, "jobs/s", RATIO, bare),
        figure("drain_from_submission", since_submission, "jobs/s", bare),
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    emit(measure(QUICK_JOBS if args.quick else JOBS), as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
