"""What it costs to run a process as a task: CPU and memory of its supervisor, cgroups and records.

A runner of its own starts many tasks (`sleep`), each with limits on CPU, memory and processes; they run side
by side for a while, are stopped, and every one of their ends must be heard and be on disk. All CPU time is
counted by a cgroup around everything: runner, spawner, supervisors and tasks. The baseline, counted alike in
the same run, is bare fork, exec, kill and wait of as many `sleep`s. `runner_cpu_per_task` is what a task
costs beyond its baseline by its launch and its recorded end; `runner_steady` is what all of them together
cost in between, while nothing happens but that each is looked at every 5 seconds, as an agent does.
Containers have a benchmark of their own: `runner_containers.py`.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from report import Case, arguments, at_most, emit
from tgpu.agent.use.uses import Uses
from tgpu.domain.lifecycle import Cause
from tgpu.runner.journal import Journals
from tgpu.runner.limits import Limits
from tgpu.runner.port import AttemptEnded, AttemptStarted, LaunchSpec, RunnerEvent
from tgpu.runner.process import ProcessRunner

TASKS, QUICK_TASKS = 1_000, 200
STEADY_S, QUICK_STEADY_S = 10.0, 4.0
PATIENCE_S = 120.0
CPU_MS, PSS_MB, STEADY_PERCENT = 5.0, 4.0, 10.0
LIMITS = Limits(cpu_milli=10, cpu_limit_milli=1000, memory_limit_mib=64, pids=64, oom_score_adj=500)
NS_IN_MS = 1_000_000
BARE = """
import os, signal, sys
pids = []
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sleep", ["sleep", "600"])
    pids.append(pid)
for pid in pids:
    os.kill(pid, signal.SIGTERM)
for pid in pids:
    os.waitpid(pid, 0)
"""


class Meter:
    """The CPU time of a cgroup, in which this process stands with all that it starts."""

    def __init__(self) -> None:
        name = f"tgpu-bench-{os.getpid()}"
        legacy, unified = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")
        self._home = legacy if legacy.is_dir() else unified
        self._folder = self._home / name
        self._is_legacy = self._home is legacy
        try:
            self._folder.mkdir()
            self._move(self._folder)
        except OSError as error:
            raise SystemExit(f"this needs root and cgroups, to count CPU time: {error}") from None

    def ms(self) -> float:
        if self._is_legacy:
            return int((self._folder / "cpuacct.usage").read_text(encoding="ascii")) / NS_IN_MS
        stat = (self._folder / "cpu.stat").read_text(encoding="ascii")
        return int(stat.split()[1]) / 1000

    def close(self) -> None:
        self._move(self._home)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                self._folder.rmdir()
            except OSError:
                time.sleep(0.05)
            else:
                return

    @staticmethod
    def _move(folder: Path) -> None:
        (folder / "cgroup.procs").write_text("0", encoding="ascii")


@contextmanager
def a_meter() -> Iterator[Meter]:
    meter = Meter()
    try:
        yield meter
    finally:
        meter.close()


@dataclass(slots=True)
class Figures:
    cpu_ms: float
    """Of all tasks, without what they cost while nothing happens."""
    pss_mb: float
    steady_percent: float
    lost: int


def bare(count: int, meter: Meter) -> float:
    """CPU milliseconds of as many processes, started, ended and waited for by one that is small."""
    before = meter.ms()
    subprocess.run([sys.executable, "-I", "-S", "-c", BARE, str(count)], check=True)
    return meter.ms() - before


async def supervised(count: int, steady_s: float, base: Path, meter: Meter) -> Figures:
    heard: list[RunnerEvent] = []
    loop, uses = asyncio.get_running_loop(), Uses()

    def hear(event: RunnerEvent) -> None:
        heard.append(event)
        if isinstance(event, AttemptStarted):
            uses.started(event, loop.time())
        elif isinstance(event, AttemptEnded):
            uses.ended(event)

    runner = ProcessRunner(base / "records", base / "logs", f"bench-{os.getpid()}", cgroups=True)
    uses.open(base / "logs", runner)
    await runner.open(hear)
    before = meter.ms()
    attempts = [f"{number}.0.1" for number in range(1, count + 1)]
    for attempt in attempts:
        runner.launch(_sleeper(attempt, base))
    await _until(lambda: _counted(heard, AttemptStarted) == count, "every task runs")
    started = meter.ms()
    looking = asyncio.create_task(uses.go_on())
    await asyncio.sleep(1)
    rested = meter.ms()
    await asyncio.sleep(steady_s)
    steady = meter.ms() - rested
    pss_mb = _mean_pss_mb(runner)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    stopped = meter.ms()
    for attempt in attempts:
        runner.stop(attempt, Cause.CANCELLED, "")
    await _until(lambda: _counted(heard, AttemptEnded) == count, "every end is heard")
    ended = meter.ms()
    recorded = Journals(base / "records").read().exits
    right = [
        attempt for attempt in attempts if attempt in recorded and recorded[attempt].signal == signal.SIGTERM
    ]
    await runner.close()
    return Figures(
        (started - before) + (ended - stopped), pss_mb, steady / (10 * steady_s), count - len(right)
    )


def _sleeper(attempt: str, base: Path) -> LaunchSpec:
    return LaunchSpec(
        attempt=attempt,
        argv=("/bin/sleep", "600"),
        env={"PATH": "/usr/bin:/bin"},
        cwd=str(base),
        user="root",
        time_limit_s=None,
        grace_s=10,
        log_cap_bytes=1 << 20,
        limits=LIMITS,
    )


def _counted(heard: list[RunnerEvent], kind: type) -> int:
    return len({event.attempt for event in heard if isinstance(event, kind)})


async def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {PATIENCE_S:g} s: {what}")
        await asyncio.sleep(0.05)


def _mean_pss_mb(runner: ProcessRunner) -> float:
    """What each supervisor adds: memory that it shares with others counts in part."""
    claims = runner._known.running().values()  # noqa: SLF001  nobody else asks for them
    sizes = []
    for claim in claims:
        rollup = Path(f"/proc/{claim.pid}/smaps_rollup").read_text(encoding="ascii")
        sizes += [int(line.split()[1]) / 1024 for line in rollup.splitlines() if line.startswith("Pss:")]
    return sum(sizes) / len(sizes)


def measure(count: int, steady_s: float) -> list[Case]:
    base = Path(tempfile.mkdtemp(prefix="tgpu-bench-"))
    try:
        with a_meter() as meter:
            bare_ms = bare(count, meter) / count
            figures = asyncio.run(supervised(count, steady_s, base, meter))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    beyond_ms = figures.cpu_ms / count - bare_ms
    return [
        at_most("runner_cpu_per_task", beyond_ms, "ms", CPU_MS, bare_ms),
        at_most("runner_pss", figures.pss_mb, "MB", PSS_MB),
        at_most(f"runner_steady_{count}", figures.steady_percent, "% of a core", STEADY_PERCENT),
        at_most("runner_exits_lost", figures.lost, "exits", 0),
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    count, steady_s = (QUICK_TASKS, QUICK_STEADY_S) if args.quick else (TASKS, STEADY_S)
    emit(measure(count, steady_s), as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
