"""The dashboard's job list and live log.

`filter`: with 100,000 pending jobs, the slowest question of the job list (search, filters, order, total),
each the median of its repetitions over the unix socket. Baseline: the first page without a filter.
`bulk_cancel`: one request that cancels 10,000 pending jobs. Baseline: the request that submitted as many.
`log_follow`: a job prints the time every 50 ms and a signed-in browser follows its log; from the print until
the line is on the page.
`fast_log`: a job prints 50 MB/s and the browser follows: the rate of the job, the time of a small request to
the server, and the time between two frames of the page. Baseline of the first two: the same job unwatched.
With --quick there are 20,000 jobs and fewer samples.
"""

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from playwright.sync_api import Page

from browser import signed_in
from installation import Installation, wait_until
from report import Case, arguments, at_most, emit, percentile, ratio_at_least
from tgpu.client import Client

FILTER_S, CANCEL_S, FOLLOW_MS, FAST_MB_S = 0.15, 3.0, 500.0, 50
REQUEST_MS, FRAME_MS = 100.0, 100.0
BULK = 10_000
QUESTIONS: tuple[dict[str, object], ...] = (
    {"q": "sweep-777"},
    {"q": "train.py"},
    {"q": "no such job"},
    {"status": "pending", "sort": "name", "order": "asc"},
    {"user": "root", "priority_class": "low", "sort": "gpus"},
    {"status": "pending", "skip": 10_000, "sort": "submitted"},
)
PRINT_TIME = "import time\nwhile True: print(int(time.time() * 1000), flush=True); time.sleep(0.05)"
PRINT_FAST = """
import os, sys, time
from pathlib import Path
line = b"x" * 99 + b"\\n"
piece = line * 5_000  # 0.5 MB
began = time.monotonic()
for number in range(int(sys.argv[1]) * 100):
    os.write(1, piece)
    time.sleep(max(0.0, began + number / 100 - time.monotonic()))
Path(sys.argv[2]).write_text(str(len(piece) * int(sys.argv[1]) * 100 / 1e6 / (time.monotonic() - began)))
"""
_WATCH_LINES = """() => {
  const [seen, begin] = [new Set(), Date.now()];
  window.delays = [];
  const look = () => {
    for (const row of document.querySelectorAll('[role=log] .log-row')) {
      const printed = Number(row.textContent);
      if (!(printed > begin) || seen.has(printed)) continue;
      seen.add(printed);
      window.delays.push(Date.now() - printed);
    }
    requestAnimationFrame(look);
  };
  look();
}"""
_WATCH_FRAMES = """() => {
  let last = performance.now();
  window.frames_ms = [];
  const frame = (now) => { window.frames_ms.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""


@dataclass(frozen=True, slots=True)
class Size:
    jobs: int
    times: int
    lines: int
    fast_s: int


FULL, QUICK = Size(100_000, 9, 1_000, 20), Size(20_000, 3, 100, 4)


def fill(client: Client, jobs: int, cwd: str) -> float:
    """Pending jobs with names, commands and classes of their own; returns the time of the last request."""
    took_s = 0.0
    for first in range(0, jobs, BULK):
        asked = [
            {
                "command": ["python", "train.py", str(number)],
                "name": f"sweep-{number}",
                "cpu_request": 2,
                "priority_class": ("default", "low")[number % 2],
                "cwd": cwd,
            }
            for number in range(first, first + BULK)
        ]
        began = time.perf_counter()
        client.submit_many(asked)
        took_s = time.perf_counter() - began
    return took_s


def list_s(client: Client, question: dict[str, object], times: int) -> float:
    query = {"view": "list", "limit": 100, "total": "true", "actions": "true", **question}
    samples = []
    for _ in range(times):
        began = time.perf_counter()
        client.session.call("GET", "/jobs", query=query)
        samples.append(time.perf_counter() - began)
    return statistics.median(samples)


def job_list(size: Size) -> list[Case]:
    with Installation() as installation, installation.client() as client:
        installation.hold_all_cpus(client)
        submitted_s = fill(client, size.jobs, str(installation.work))
        bare_s = list_s(client, {}, size.times)
        slowest_s = max(list_s(client, question, size.times) for question in QUESTIONS)
        ids = client.session.call("GET", "/jobs", query={"view": "ids", "status": "pending", "limit": BULK})
        began = time.perf_counter()
        answer = client.session.call("POST", "/jobs/cancel", body={"job_ids": ids["job_ids"]})
        cancelled_s = time.perf_counter() - began
    assert len(answer["cancelling"]) == BULK, f"{len(answer['cancelling'])} of {BULK} jobs were cancelled"
    return [
        at_most(f"web_filter_{size.jobs // 1000}k_jobs", slowest_s, "s", FILTER_S, bare_s),
        at_most("web_bulk_cancel_10k_jobs", cancelled_s, "s", CANCEL_S, submitted_s),
    ]


def start(installation: Installation, client: Client, code: str, *words: object) -> int:
    command = [sys.executable, "-c", code, *map(str, words)]
    job_id = int(client.submit(command, cwd=str(installation.work))["job_id"])
    wait_until(lambda: client.job(job_id)["status"] == "running", "the job runs")
    return job_id


def log_follow(installation: Installation, client: Client, page: Page, base: str, lines: int) -> list[Case]:
    job_id = start(installation, client, PRINT_TIME)
    page.goto(f"{base}/ui/jobs/{job_id}?tab=log")
    page.locator("[role=log] .log-row").first.wait_for()
    page.evaluate(_WATCH_LINES)
    page.wait_for_function("lines => window.delays.length >= lines", arg=lines)
    delays = page.evaluate("window.delays")
    client.cancel(job_id)
    return [
        at_most(f"web_log_follow_p{rank}", percentile(delays, rank), "ms", FOLLOW_MS) for rank in (50, 99)
    ]


@contextmanager
def requests_timed(installation: Installation) -> Iterator[list[float]]:
    """Milliseconds of small requests, one every 20 ms, for as long as the block runs."""
    samples: list[float] = []
    stop = Event()

    def ask() -> None:
        with installation.client() as client:
            while not stop.wait(0.02):
                began = time.perf_counter()
                client.session.call("GET", "/jobs", query={"view": "list", "limit": 1})
                samples.append(1000 * (time.perf_counter() - began))

    thread = Thread(target=ask)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def fast_rate(installation: Installation, client: Client, page: Page, base: str | None, run_s: int) -> float:
    """MB/s that the job reached; its log is followed if there is a `base`."""
    written = Path(installation.work, "rate")
    written.unlink(missing_ok=True)
    job_id = start(installation, client, PRINT_FAST, run_s, written)
    if base is not None:
        page.goto(f"{base}/ui/jobs/{job_id}?tab=log")
        page.locator("[role=log] .log-row").first.wait_for()
        page.evaluate(_WATCH_FRAMES)
    wait_until(written.exists, "the fast job is done", 20 * run_s, every_s=0.1)
    wait_until(lambda: client.job(job_id)["status"] == "completed", "the fast job is recorded")
    return float(written.read_text(encoding="ascii"))


def fast_log(installation: Installation, client: Client, page: Page, base: str, run_s: int) -> list[Case]:
    page.goto("about:blank")
    with requests_timed(installation) as alone_ms:
        alone = fast_rate(installation, client, page, None, run_s)
    with requests_timed(installation) as followed_ms:
        followed = fast_rate(installation, client, page, base, run_s)
    frames_ms, slow_ms = page.evaluate("window.frames_ms"), percentile(followed_ms, 99)
    return [
        ratio_at_least(f"web_fast_log_{FAST_MB_S}_mb_s_job", followed, "MB/s", 0.9, alone),
        at_most("web_fast_log_request_p99", slow_ms, "ms", REQUEST_MS, percentile(alone_ms, 99)),
        at_most("web_fast_log_frame_p99", percentile(frames_ms, 99), "ms", FRAME_MS),
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    size = QUICK if args.quick else FULL
    cases = job_list(size)
    with Installation() as installation, installation.client() as client, signed_in(client) as (page, base):
        cases += log_follow(installation, client, page, base, size.lines)
        cases += fast_log(installation, client, page, base, size.fast_s)
    emit(cases, as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
