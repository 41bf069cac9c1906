"""From `Client.submit` to the first thing that the job does, on an idle machine.

The client library submits over the unix socket; the job is `/bin/sh -c 'echo > FIFO'`, where echo is built
into the shell. The clock runs from just before the submission until a thread of this process has read that
byte, on one monotonic clock: so it holds the submission, its commit, the decision, the assignment's commit,
the order to the agent, two forks, the shell's own start, and our wake-up. Before each sample the same command
is started bare (posix_spawn) and timed to the same byte: the baseline. A sample begins when the job before it
is recorded as completed and 20 ms more have passed.
"""

import os
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

from installation import Installation, wait_until
from report import Case, arguments, at_most, emit, percentile
from tgpu.client import Client

SAMPLES, QUICK_SAMPLES, WARM_UP = 200, 60, 5
P50_MS, P99_MS = 20, 60
SETTLE_S = 0.02


class Fifo:
    """Tells when a byte came; held open for writing too, so that no reader or writer ever waits for it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR)
        self._heard: SimpleQueue[float] = SimpleQueue()
        self.command = ["/bin/sh", "-c", f"echo > {path}"]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            os.read(self._descriptor, 1)
            self._heard.put(time.perf_counter())

    def next(self) -> float:
        return self._heard.get(timeout=30)


def bare_ms(fifo: Fifo) -> float:
    began = time.perf_counter()
    pid = os.posix_spawn(fifo.command[0], fifo.command, os.environ)
    heard = fifo.next()
    os.waitpid(pid, 0)
    return 1000 * (heard - began)


def submitted_ms(client: Client, fifo: Fifo, cwd: str) -> float:
    began = time.perf_counter()
    job_id = client.submit(fifo.command, cwd=cwd)["job_id"]
    heard = fifo.next()
    wait_until(lambda: client.job(job_id)["status"] == "completed", "the job is recorded", every_s=0.005)
    time.sleep(SETTLE_S)
    return 1000 * (heard - began)


def measure(samples: int) -> list[Case]:
    with Installation() as installation, installation.client() as client:
        fifo = Fifo(installation.work / "fifo")
        cwd = str(installation.work)
        pairs = [(bare_ms(fifo), submitted_ms(client, fifo, cwd)) for _ in range(WARM_UP + samples)]
    bare, ours = zip(*pairs[WARM_UP:], strict=True)
    return [
        at_most(f"submit_to_start_p{rank}", percentile(ours, rank), "ms", goal, percentile(bare, rank))
        for rank, goal in ((50, P50_MS), (99, P99_MS))
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    emit(measure(QUICK_SAMPLES if args.quick else SAMPLES), as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
