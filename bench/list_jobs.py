"""How long `tgpu list` takes, and what the server weighs, when it knows 100,000 jobs that wait.

The jobs are submitted in bulks of 10,000 and wait behind a sleeper that holds all CPUs. Then the wall time of
the whole command is taken (interpreter, imports, request, output into a pipe): the median of 15 for `tgpu
list --limit 100` and the same with `--json`, in turns with the baseline, `python -c pass` of the same
interpreter. The memory is the server's PSS and RSS from /proc/PID/smaps_rollup, after that; their baseline is
what it was before the first job.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from installation import TGPU, Installation
from report import Case, arguments, at_most, emit
from tgpu.client import Client

JOBS, BULK = 100_000, 10_000
TIMES, QUICK_TIMES = 15, 7
LIST_S, MEMORY_MB = 0.25, 300
LIST = (str(TGPU), "list", "--limit", "100")
COMMANDS = {"list": LIST, "list_json": (*LIST, "--json"), "pass": (sys.executable, "-c", "pass")}


def submit(client: Client, count: int, cwd: str) -> None:
    job = {"command": ["true"], "cpu_request": 2, "cwd": cwd}
    for _ in range(0, count, BULK):
        client.submit_many([job] * BULK)


def memory_mb(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    kilobytes = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
    return {name: kilobytes[name] * 1024 / 1e6 for name in ("Pss", "Rss")}


def wall_s(command: tuple[str, ...], installation: Installation) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=installation.environ, cwd=installation.work, capture_output=True, check=True)
    return time.perf_counter() - began


def measure(times: int) -> list[Case]:
    with Installation() as installation, installation.client() as client:
        installation.hold_all_cpus(client)
        server = installation.pid("server")
        empty = memory_mb(server)
        submit(client, JOBS, str(installation.work))
        seen = [{name: wall_s(words, installation) for name, words in COMMANDS.items()} for _ in range(times)]
        full = memory_mb(server)
    middle = {name: statistics.median(row[name] for row in seen) for name in COMMANDS}
    return [
        at_most("list_100_of_100k", middle["list"], "s", LIST_S, middle["pass"]),
        at_most("list_100_of_100k_json", middle["list_json"], "s", LIST_S, middle["pass"]),
        at_most("server_pss_with_100k_jobs", full["Pss"], "MB", MEMORY_MB, empty["Pss"]),
        at_most("server_rss_with_100k_jobs", full["Rss"], "MB", MEMORY_MB, empty["Rss"]),
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    emit(measure(QUICK_TIMES if args.quick else TIMES), as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
